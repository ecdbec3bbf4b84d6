"""The observer that makes a row of the ledger from every reply. Each process that answers clients has one, if it is
told to keep a ledger (`roles/observers.py`). It is called with each batch of replies on the event loop, and hands
lines to the `Writer`. `open.py` makes the `Recorder`.

The replies of a batch become lines at once, on the event loop. If thousands of rows waited as objects, a thread
would have to encode them, and would hold up the loop meanwhile. All lines wait in one buffer: a piece of memory for
each batch would lie between what the server frees, and slow down everything else.

An accepted request is recorded when it ends. A refused one never was a request, and only the metrics count it: a
row for each would make a flood of refusals a flood of rows.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from penstock.adapters.ledger.rows import Row, to_lines
from penstock.adapters.ledger.writer import LedgerState, Writer
from penstock.ports import Clock, RequestObserver
from penstock.types import Reply

log = logging.getLogger("penstock.ledger")

CHUNK_BYTES = 2 * 2**20  # about 20,000 rows
CHUNK_SECONDS = 0.5  # seconds that a line waits, at most, for a chunk to fill
CLOSE_SECONDS = 5.0  # seconds to write what has ended to the database; the rest waits on disk
MAX_ROWS_IN_MEMORY = 200_000  # 20 s of 10,000 requests/s with a disk that hangs


class Recorder(RequestObserver):
    """A process's end of the ledger. `told` serves `cluster/task_ledger.py`."""

    def __init__(
        self,
        writer: Writer,
        tier_names: Sequence[str],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        wall: Callable[[], float] = time.time,
        *,
        max_rows: int = MAX_ROWS_IN_MEMORY,
    ) -> None:
        self._writer = writer
        self._tiers = dict(enumerate(tier_names))
        self._loop, self._clock, self._wall = loop, clock, wall
        self._max_rows = max_rows
        self._room = bytearray(CHUNK_BYTES)  # where lines gather to a chunk; it grows if need be
        self._end = 0  # where the lines in that room end
        self._gathered = 0  # rows in that room
        self._timer: asyncio.TimerHandle | None = None
        self._shift = wall() - clock()  # seconds to add to our clock for the time since the epoch
        self.lost = 0  # rows for which there was no room in memory

    @property
    def recorded(self) -> int:
        """Rows that were handed to the writer."""
        return self._writer.given

    @property
    def state(self) -> LedgerState:
        state = self._writer.state
        return replace(state, waiting=state.waiting + self._gathered, lost=state.lost + self.lost)

    def start(self) -> None:
        self._writer.start()

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        shift, tiers = self._shift, self._tiers
        completed = now + shift
        rows: list[Row] = [
            (
                request.key,
                request.request_id,
                request.tenant,
                tiers.get(request.tier) or str(request.tier),
                request.model,
                "SUCCESS" if reply.failure is None else reply.failure.code,
                request.arrival + shift,
                completed,
            )
            for reply in replies
            for request in (reply.request,)
        ]
        lines = to_lines(rows)
        start, self._end = self._end, self._end + len(lines)
        self._room[start : self._end] = lines
        self._gathered += len(rows)
        if self._end >= CHUNK_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(CHUNK_SECONDS, self.flush)

    def told(self, rows: Sequence[Row], on_fate: Callable[[bool], None]) -> None:
        """Write rows that another gateway may be told of as well; the ledger keeps each once. `on_fate` is called
        on the loop: with True when the rows are safe, with False when they were dropped and must be told again."""
        if self._writer.in_memory + len(rows) > self._max_rows:
            self._loop.call_soon(on_fate, False)
            return
        self._writer.hand(to_lines(rows), len(rows), lambda safe: self._heard(on_fate, safe))

    def _heard(self, on_fate: Callable[[bool], None], safe: bool) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the task that waited
            self._loop.call_soon_threadsafe(on_fate, safe)

    def missed(self, rows: int) -> None:
        """Count rows that were lost before they were told."""
        self.lost += rows

    def flush(self) -> None:
        """Hand the lines that have gathered to the writer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._shift = self._wall() - self._clock()
        end, self._end = self._end, 0
        rows, self._gathered = self._gathered, 0
        if self._writer.in_memory + rows > self._max_rows:
            self.lost += rows
            log.error("the ledger's disk hangs: rows are lost", extra={"rows": rows, "lost": self.lost})
        elif rows:
            self._writer.hand(bytes(memoryview(self._room)[:end]), rows)

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Write what is left. Called after the last reply. What the database does not take in time stays in the
        spool for the next start."""
        self.flush()
        await self._loop.run_in_executor(None, self._writer.close, seconds)
