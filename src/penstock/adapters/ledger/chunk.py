"""A chunk of rows on its way to the database: a file in the spool, or bytes in memory while the disk takes none.

The writer makes chunks, the spool keeps them, and the thread that delivers reads them (`writer.py`, `spool.py`).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.adapters import private

_SUFFIX = ".jsonl"
_SHARED = "-shared"  # in a file's name: see `Chunk.shared`
_UNFINISHED = ".part"
_BLOCK = 4096  # bytes that the file system gives a file at once


@dataclass(slots=True, eq=False)
class Chunk:
    """One chunk, wherever its rows are."""

    spool: str  # the name of the spool's directory
    number: int  # of the chunk within its spool
    rows: int
    size: int  # bytes on disk
    directory: Path
    held: bytes | None = None  # the lines, while they are in memory only
    shared: bool = False  # other gateways may spool the same rows
    # Called once: with True if the chunk is safe, with False if it was dropped.
    on_fate: Callable[[bool], None] | None = None

    @property
    def path(self) -> Path:
        """The file of the chunk, whether it is written yet or not."""
        return self.directory / f"{self.number:012d}-{self.rows}{_SHARED if self.shared else ''}{_SUFFIX}"

    def tell_fate(self, safe: bool) -> None:
        """Calls `on_fate`, unless it was called before."""
        on_fate, self.on_fate = self.on_fate, None
        if on_fate is not None:
            on_fate(safe)

    def lines(self) -> bytes:
        """Returns the rows as JSON lines, from memory or from the file. Raises OSError."""
        held = self.held  # read once: another thread may save the chunk at this moment
        return self.path.read_bytes() if held is None else held

    def save(self, sync: bool) -> None:
        """Writes the file whole or not at all: it gets its name only when it is complete. Raises OSError."""
        assert self.held is not None
        part = self.path.with_suffix(_UNFINISHED)
        try:
            with open(part, "wb", opener=private.opener) as file:
                file.write(self.held)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            part.rename(self.path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        if sync:
            _sync_directory(self.directory)
        self.held = None


def chunks_in(directory: Path) -> list[Chunk]:
    """Returns the chunks that a dead process left there, the oldest first. Unfinished files are deleted: nobody was
    told that they are safe."""
    for part in directory.glob(f"*{_UNFINISHED}"):
        part.unlink(missing_ok=True)
    found = []
    for path in sorted(directory.glob(f"*-*{_SUFFIX}")):
        number, _, rows = path.stem.removesuffix(_SHARED).partition("-")
        if number.isdecimal() and rows.isdecimal():
            size, shared = size_on_disk(path.stat().st_size), path.stem.endswith(_SHARED)
            found.append(Chunk(directory.name, int(number), int(rows), size, directory, shared=shared))
    return found


def size_on_disk(size: int) -> int:
    """Returns the size in whole blocks. A file of one row takes a block too, so a million of them would be 4 GB."""
    return -(-size // _BLOCK) * _BLOCK


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
