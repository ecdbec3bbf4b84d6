"""Chunks between the server and the database: on disk, in order, bounded.

Every chunk goes through here, also while the database is well: there is one way, and it is used all the time.
It is synced to disk before it counts as spooled, and its file goes when the database has it. Beyond `max_bytes` the
oldest are dropped, counted and complained of; so are those in memory, beyond `max_held`, while the disk takes none.
Used by two threads: one adds, one delivers.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Condition

from penstock.adapters import private
from penstock.adapters.ledger.chunk import Chunk, chunks_in, size_on_disk
from penstock.adapters.ledger.owned_directory import Home
from penstock.errors import UserMistake

log = logging.getLogger("penstock.ledger")

MAX_HELD = 32 * 2**20
_REJECTED = "rejected"
_KEEP_REJECTED = 16


class Spool:
    def __init__(
        self, directory: Path, max_bytes: int, *, max_held: int = MAX_HELD, sync: bool = True
    ) -> None:
        try:
            self._home = Home.made(directory)
        except OSError as error:
            raise UserMistake(
                f"the ledger cannot spool to {directory} ({error.strerror}): name a directory that can be written"
            ) from None
        self._max_bytes, self._max_held, self._sync = max_bytes, max_held, sync
        self._numbers = count(1)
        self._chunks: deque[Chunk] = deque()  # the oldest first
        self._in_memory: list[Chunk] = []  # those of them that the disk did not take
        self._in_hand: Chunk | None = None  # with the database now: it cannot be dropped, for it may be there
        self._adopted: dict[str, Home] = {}
        self._chunks_of: Counter[str] = Counter()  # how many of each spool are here
        self._changed = Condition()
        self._finished = False
        self.added = 0  # rows that were ever handed to us, and are not the caller's any more
        self.rows = 0  # that wait here
        self.bytes = 0
        self.lost = 0  # rows that were dropped
        self.rejected = 0  # rows that were set aside
        self.adopt()

    @property
    def name(self) -> str:
        return self._home.path.name

    def counts(self) -> tuple[int, int, int, int, int]:
        """Rows ever added, rows that wait and their bytes, rows lost, rows rejected: as they were at one moment."""
        with self._changed:
            return self.added, self.rows, self.bytes, self.lost, self.rejected

    def adopt(self) -> None:
        """Take over what the dead have left: nobody else will deliver it."""
        for home in self._home.deserted():
            found = chunks_in(home.path)
            if not found:
                home.leave()
                continue
            log.warning("the ledger takes over what was left behind", extra={"chunks": len(found)})
            with self._changed:
                self._adopted[home.path.name] = home
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
        """`on_fate` is told once, from any thread: True when the chunk is on disk or in the database, False when
        it was dropped."""
        size = size_on_disk(len(lines))
        chunk = Chunk(
            self.name, next(self._numbers), rows, size, self._home.path, lines, shared, on_fate
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
        """What is in memory only, the oldest first; it stays there if the disk takes none of it."""
        for chunk in self._in_memory.copy():
            try:
                chunk.save(self._sync)
            except OSError as error:
                return error
            chunk.is_safe(True)
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
            chunk.is_safe(False)
            self._erase(chunk)
            excess -= chunk.size
            log.error(f"{why}: the oldest rows are lost", extra={"rows": chunk.rows, "lost": self.lost})

    # ---- one thread delivers -------------------------------------------------------------------------------

    def oldest(self, seconds: float) -> Chunk | None:
        """The next to be delivered; None if none came for so long, or none will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._chunks or self._finished, seconds)
            self._in_hand = self._chunks[0] if self._chunks else None
            return self._in_hand

    def put_back(self) -> None:
        """It was not delivered, and will be the next again."""
        with self._changed:
            self._in_hand = None

    def delivered(self, chunk: Chunk) -> None:
        chunk.is_safe(True)
        with self._changed:
            self._remove(chunk)
        self._erase(chunk)

    def set_aside(self, chunk: Chunk) -> None:
        """It will never be taken; a few of its kind are kept."""
        aside = self._home.path.parent / _REJECTED
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
        """Its file; and the home of the dead it came from, when it was the last there."""
        chunk.path.unlink(missing_ok=True)
        with self._changed:
            home = None if self._chunks_of[chunk.spool] else self._adopted.pop(chunk.spool, None)
        if home is not None:
            home.leave()

    # ---- the end -------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Nothing more will be added."""
        with self._changed:
            self._finished = True
            self._changed.notify()

    @property
    def done(self) -> bool:
        with self._changed:
            return self._finished and not self._chunks

    def close(self) -> None:
        """What has not been delivered is found by the next who comes here."""
        error = self._save()
        if error is not None:
            rows = sum(chunk.rows for chunk in self._in_memory)
            self.lost += rows
            log.error("rows of the ledger are lost", extra={"rows": rows, "error": error.strerror})
        for home in [*self._adopted.values(), self._home]:
            home.leave()
