"""Carries rows from the server's memory to the database in two threads, so that the event loop waits for neither.

`open.py` makes the `Writer`, and the recorder hands it lines. One thread spools chunks of rows on disk. The other
delivers the oldest chunk to the database; if the database is away, it tries again after ever longer pauses. A
database that hangs holds up only the second thread.
"""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event

from penstock.adapters.ledger.chunk import Chunk
from penstock.adapters.ledger.spool import Spool
from penstock.adapters.ledger.store import ChunkRejected, LedgerAway, Store
from penstock.loops import kept_thread

log = logging.getLogger("penstock.ledger")

OnFate = Callable[[bool], None]  # told whether the rows of a chunk are safe

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds before the next attempt, while the database is away
CHORES_EVERY = 60.0  # seconds; see `_do_chores`
FORGET_AT_ONCE = 2_000  # rows that are deleted in one transaction
# Seconds: at most 20,000 rows/s are deleted, so that the database has time for other work.
FORGET_AGAIN_AFTER = 0.1


@dataclass(frozen=True, slots=True)
class LedgerState:
    """How the ledger stands, for the metrics and /internal/health (`roles/ledger.py`)."""

    written: int  # rows that this process brought to the database
    waiting: int  # rows that the database does not have yet
    waiting_bytes: int  # size of the rows that wait in the spool
    lost: int  # rows that were dropped because a bound was reached
    rejected: int  # rows that the database refused for ever
    forgotten: int  # rows that were deleted for their age
    away: str  # why the database takes no rows; empty if it does


class Writer:
    """The two threads, and what they share."""

    def __init__(
        self, spool: Spool, store: Store, retention: float | None, wall: Callable[[], float]
    ) -> None:
        self._spool = spool
        self._store = store
        self._retention = retention
        self._wall = wall
        # Chunks for the spool: lines, the number of rows, and whom to tell. None: there will be no more.
        self._handed: SimpleQueue[tuple[bytes, int, OnFate | None] | None] = SimpleQueue()
        self._stopped = Event()  # set when the thread that delivers must end
        self._closing = False  # whether that thread ends at the next chunk that it cannot deliver
        self._chores_due = 0.0  # due at once: a ledger that was closed for long may have much to forget
        self._away = ""  # why the database takes no rows; empty if it does
        self._failures = 0  # attempts in a row that failed
        self.given = 0  # rows handed over so far
        self._written = 0  # rows that were new to the database
        self._forgotten = 0  # rows that were deleted for their age
        self._spooling = kept_thread("ledger spool", self._spool_all)
        self._delivering = kept_thread("ledger database", self._deliver_all)

    def start(self) -> None:
        self._spooling.start()
        self._delivering.start()

    def hand(self, lines: bytes, rows: int, on_fate: OnFate | None = None) -> None:
        """Takes over a chunk. A chunk with `on_fate` (see `Spool.add`) has shared rows (see `store.py`)."""
        self.given += rows
        self._handed.put((lines, rows, on_fate))

    def close(self, seconds: float) -> None:
        """Spools what was handed over, and delivers what it can in time. The rest stays in the spool."""
        if self._spooling.ident is None:  # never started
            self._spool.close()
            return
        ends = time.monotonic() + seconds
        self._handed.put(None)
        self._spooling.join(seconds)
        if self._spooling.is_alive():
            log.error("the ledger's disk hangs: what was still in memory is lost")
            return
        self._closing = True
        if self._away:
            self._stopped.set()
        self._delivering.join(max(0.0, ends - time.monotonic()))
        self._stopped.set()
        self._delivering.join(0.2)  # time to notice, if it is between two chunks
        self._spool.close()

    @property
    def in_memory(self) -> int:
        """Rows that are not in the spool yet."""
        return self.given - self._spool.added

    @property
    def state(self) -> LedgerState:
        # Read before `given`, so that a row on its way to the spool is counted.
        added, rows, size, lost, rejected = self._spool.counts()
        waiting = self.given - added + rows
        return LedgerState(self._written, waiting, size, lost, rejected, self._forgotten, self._away)

    # ---- to disk -------------------------------------------------------------------------------------------

    def _spool_all(self) -> None:
        while (handed := self._handed.get()) is not None:
            lines, rows, on_fate = handed
            try:
                self._spool.add(lines, rows, shared=on_fate is not None, on_fate=on_fate)
            except BaseException:
                if on_fate is not None:  # the caller of `hand` will then hand the rows over again
                    on_fate(False)
                raise
        self._spool.finish()

    # ---- to the database -----------------------------------------------------------------------------------

    def _deliver_all(self) -> None:
        while not self._stopped.is_set() and not self._spool.done:
            self._attempt(self._spool.oldest(max(0.0, self._chores_due - time.monotonic())))
        self._store.close()

    def _attempt(self, chunk: Chunk | None) -> None:
        try:
            if chunk is not None:
                self._deliver(chunk)
            self._do_chores()
        except LedgerAway as away:
            self._pause(away.message)
        except Exception as error:  # a bug; the rows are safe, and the next attempt may go well
            log.exception("the ledger's writer failed")
            self._pause(type(error).__name__)
        else:
            self._is_back()

    def _deliver(self, chunk: Chunk) -> None:
        try:
            written = self._store.write(chunk.spool, chunk.number, chunk.lines(), shared=chunk.shared)
        except (ChunkRejected, OSError) as error:
            log.error("a chunk of the ledger is set aside", extra={"rows": chunk.rows, "error": str(error)})
            self._spool.set_aside(chunk)
        else:
            self._written += written  # before the chunk leaves the spool, so that no row is missing
            self._spool.delivered(chunk)

    def _do_chores(self) -> None:
        """Take over the spools of processes that have died, and delete rows that are too old."""
        now = time.monotonic()
        if now < self._chores_due:
            return
        self._chores_due = now + CHORES_EVERY
        self._spool.adopt()
        if self._retention is not None:
            forgotten = self._store.forget(self._wall() - self._retention, FORGET_AT_ONCE)
            self._forgotten += forgotten
            if forgotten >= FORGET_AT_ONCE:
                self._chores_due = now + FORGET_AGAIN_AFTER  # there is more

    def _pause(self, why: str) -> None:
        self._spool.put_back()
        self._failures += 1
        if not self._away:
            log.error("the ledger's database is away: spooling", extra={"error": why})
        self._away = why
        if self._closing:
            self._stopped.set()  # the spool keeps it until the next start
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._failures - 1, 10))
        self._stopped.wait(pause * random.uniform(0.5, 1.0))

    def _is_back(self) -> None:
        if self._away:
            log.warning("the ledger's database is back", extra={"attempts": self._failures})
        self._away, self._failures = "", 0
