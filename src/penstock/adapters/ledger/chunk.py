"""A chunk of rows on its way to the database: a file, or bytes in memory while the disk takes none."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.adapters import private

_SUFFIX = ".jsonl"
_SHARED = "-shared"
_UNFINISHED = ".part"
_BLOCK = 4096


@dataclass(slots=True, eq=False)
class Chunk:
    spool: str
    number: int  # within its spool
    rows: int
    size: int  # on disk
    home: Path
    held: bytes | None = None  # in memory only
    shared: bool = False  # others may have its rows as well
    on_fate: Callable[[bool], None] | None = None  # told once: it is safe, or it was dropped

    @property
    def path(self) -> Path:
        return self.home / f"{self.number:012d}-{self.rows}{_SHARED if self.shared else ''}{_SUFFIX}"

    def is_safe(self, safe: bool) -> None:
        told, self.on_fate = self.on_fate, None
        if told is not None:
            told(safe)

    def lines(self) -> bytes:
        held = self.held  # which may be saved by another thread at this moment
        return self.path.read_bytes() if held is None else held

    def save(self, sync: bool) -> None:
        """Whole, or not at all: under its name there is never a part of it. Raises OSError."""
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
            _sync_directory(self.home)
        self.held = None


def chunks_in(home: Path) -> list[Chunk]:
    """What somebody left behind, the oldest first. What was not finished was never said to be safe."""
    for part in home.glob(f"*{_UNFINISHED}"):
        part.unlink(missing_ok=True)
    found = []
    for path in sorted(home.glob(f"*-*{_SUFFIX}")):
        number, _, rows = path.stem.removesuffix(_SHARED).partition("-")
        if number.isdecimal() and rows.isdecimal():
            size, shared = size_on_disk(path.stat().st_size), path.stem.endswith(_SHARED)
            found.append(Chunk(home.name, int(number), int(rows), size, home, shared=shared))
    return found


def size_on_disk(size: int) -> int:
    """A file of one row takes a block as well: a million of them would be 4 GB."""
    return -(-size // _BLOCK) * _BLOCK


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
