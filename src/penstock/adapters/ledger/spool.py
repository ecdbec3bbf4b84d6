"""The spool: chunks of rows on their way from the server to the database, on disk, in order, bounded.

`open.py` makes the `Spool`. Two threads of `writer.Writer` use it: one adds chunks, one delivers them. Every chunk
goes through the spool, also while the database answers: so there is one way only, and it is in use all the time.

A chunk is synced to disk before it counts as spooled, and its file is deleted when the database has it. Beyond
`max_bytes` the oldest chunks are dropped, counted and logged. While the disk takes none, chunks stay in memory, and
beyond `max_held` the oldest of those are dropped.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Condition

from penstock.adapters import private
from penstock.adapters.ledger.chunk import Chunk, chunks_in, size_on_disk
from penstock.adapters.owned_directory import OwnedDirectory
from penstock.errors import UserMistake

log = logging.getLogger("penstock.ledger")

MAX_HELD = 32 * 2**20  # bytes of chunks in memory
_REJECTED = "rejected"
_KEEP_REJECTED = 16  # chunks that the database refused, kept for people to look at


class Spool:
    """The spool of one process. It also delivers the chunks that dead processes left in theirs."""

    def __init__(
        self, directory: Path, max_bytes: int, *, max_held: int = MAX_HELD, sync: bool = True
    ) -> None:
        try:
            self._owned = OwnedDirectory.create(directory)
        except OSError as error:
            raise UserMistake(
                f"the ledger cannot spool to {directory} ({error.strerror}): name a directory that can be written"
            ) from None
        self._max_bytes, self._max_held, self._sync = max_bytes, max_held, sync
        self._numbers = count(1)
        self._chunks: deque[Chunk] = deque()  # the oldest first
        self._in_memory: list[Chunk] = []  # chunks that the disk did not take
        self._in_hand: Chunk | None = None  # being delivered; never dropped, because the database may have it
        self._adopted: dict[str, OwnedDirectory] = {}  # by name, the spools that dead processes left
        self._chunks_of: Counter[str] = Counter()  # how many chunks of each spool wait here
        self._changed = Condition()  # its lock guards what both threads use
        self._finished = False  # whether no chunk will be added any more
        self.added = 0  # rows ever taken over from the caller
        self.rows = 0  # rows that wait here
        self.bytes = 0  # size of the rows that wait here
        self.lost = 0  # rows that were dropped
        self.rejected = 0  # rows that were set aside
        self.adopt()

    @property
    def name(self) -> str:
        """The name of the spool's directory, which no other spool has."""
        return self._owned.path.name

    def counts(self) -> tuple[int, int, int, int, int]:
        """Returns, as of one moment: rows ever added, rows that wait and their bytes, rows lost, rows rejected."""
        with self._changed:
            return self.added, self.rows, self.bytes, self.lost, self.rejected

    def adopt(self) -> None:
        """Takes over the chunks of processes that have died: nobody else will deliver them."""
        for left in self._owned.abandoned():
            found = chunks_in(left.path)
            if not found:
                left.release()
                continue
            log.warning("the ledger takes over what was left behind", extra={"chunks": len(found)})
            with self._changed:
                self._adopted[left.path.name] = left
                for chunk in reversed(found):
                    self._chunks.appendleft(chunk)
                    self._count(chunk, 1)
                self._changed.notify()

    def _count(self, chunk: Chunk, sign: int) -> None:
        self.rows += sign * chunk.rows
        self.bytes += sign * chunk.size
        self._chunks_of[chunk.spool] += sign

    # ---- one thread adds -----------------------------------------------------------------------------------

    def add(
        self, lines: bytes, rows: int, *, shared: bool = False, on_fate: Callable[[bool], None] | None = None
    ) -> None:
        """Spool a chunk. `on_fate` is called once, from any thread: with True when the chunk is on disk or in the
        database, with False when it was dropped."""
        size = size_on_disk(len(lines))
        chunk = Chunk(
            self.name, next(self._numbers), rows, size, self._owned.path, lines, shared, on_fate
        )  # fmt: skip
        self._drop_oldest(self._chunks, self.bytes + size - self._max_bytes, "the ledger's spool is full")
        with self._changed:
            was_well = not self._in_memory
            self._in_memory.append(chunk)
        error = self._save()
        with self._changed:
            self._chunks.append(chunk)
            self._count(chunk, 1)
            self.added += rows
            self._changed.notify()
        if error is not None:
            if was_well:
                log.error("the ledger's spool cannot be written", extra={"error": error.strerror})
            excess = sum(held.size for held in self._in_memory) - self._max_held
            why = "the ledger's spool cannot be written, and its memory is full"
            self._drop_oldest(self._in_memory, excess, why)

    def _save(self) -> OSError | None:
        """Saves the chunks that are in memory only, the oldest first. They stay there if the disk takes none."""
        for chunk in self._in_memory.copy():
            try:
                chunk.save(self._sync)
            except OSError as error:
                return error
            chunk.tell_fate(True)
            with self._changed:
                if chunk in self._in_memory:
                    self._in_memory.remove(chunk)
        return None

    def _drop_oldest(self, among: deque[Chunk] | list[Chunk], excess: int, why: str) -> None:
        while excess > 0:
            with self._changed:
                chunk = next((chunk for chunk in among if chunk is not self._in_hand), None)
                if chunk is None:
                    return
                self._remove(chunk)
                self.lost += chunk.rows
            chunk.tell_fate(False)
            self._erase(chunk)
            excess -= chunk.size
            log.error(f"{why}: the oldest rows are lost", extra={"rows": chunk.rows, "lost": self.lost})

    # ---- one thread delivers -------------------------------------------------------------------------------

    def oldest(self, seconds: float) -> Chunk | None:
        """Returns the next chunk to deliver; None if none came within these seconds, or none will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._chunks or self._finished, seconds)
            self._in_hand = self._chunks[0] if self._chunks else None
            return self._in_hand

    def put_back(self) -> None:
        """Note that the chunk in hand was not delivered: `oldest` will return it again."""
        with self._changed:
            self._in_hand = None

    def delivered(self, chunk: Chunk) -> None:
        """Note that the database has the chunk, and forget it."""
        chunk.tell_fate(True)
        with self._changed:
            self._remove(chunk)
        self._erase(chunk)

    def set_aside(self, chunk: Chunk) -> None:
        """Take a chunk out that the database will never take. Its file is kept beside the spools, for people to
        look at; of such files only the latest few are kept."""
        aside = self._owned.path.parent / _REJECTED
        try:
            aside.mkdir(mode=private.FOLDER, exist_ok=True)
            chunk.path.rename(aside / f"{chunk.spool}-{chunk.path.name}")
            for old in sorted(aside.iterdir(), key=lambda path: path.stat().st_mtime)[:-_KEEP_REJECTED]:
                old.unlink()
        except OSError as error:
            log.error("a rejected chunk could not be set aside", extra={"error": error.strerror})
        self.rejected += chunk.rows
        self.delivered(chunk)

    def _remove(self, chunk: Chunk) -> None:
        if chunk is self._in_hand:
            self._in_hand = None
        self._chunks.remove(chunk)
        self._count(chunk, -1)
        if chunk in self._in_memory:
            self._in_memory.remove(chunk)

    def _erase(self, chunk: Chunk) -> None:
        """Deletes the chunk's file. If it was the last chunk of a dead process, deletes that process's spool
        too."""
        chunk.path.unlink(missing_ok=True)
        with self._changed:
            emptied = None if self._chunks_of[chunk.spool] else self._adopted.pop(chunk.spool, None)
        if emptied is not None:
            emptied.release()

    # ---- the end -------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Note that no chunk will be added any more."""
        with self._changed:
            self._finished = True
            self._changed.notify()

    @property
    def done(self) -> bool:
        """Whether nothing is left to deliver, and nothing will be added."""
        with self._changed:
            return self._finished and not self._chunks

    def close(self) -> None:
        """Save what is in memory only, and release the spool. Chunks that were not delivered stay on disk for the
        next process."""
        error = self._save()
        if error is not None:
            rows = sum(chunk.rows for chunk in self._in_memory)
            self.lost += rows
            log.error("rows of the ledger are lost", extra={"rows": rows, "error": error.strerror})
        for directory in [*self._adopted.values(), self._owned]:
            directory.release()
