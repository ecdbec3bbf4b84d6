"""Hands spans to the receiver: noted on the event loop, written and sent by a thread. `roles/traces.py` makes one
`Exporter` for a process that is traced; all of its spans go through it.

    add ──► gathered, a second or 512 of them ──► waiting ──► written ──► sent
               │ more wait than may wait: dropped               │ refused, or not taken for a minute: dropped

No request waits for it. On the loop a span is a few texts and times in a tuple, and nothing that a request holds.
The thread writes a few at a time, so that the loop has its turn between them: many in a row take half the time that
each takes alone. What is dropped is counted, and the log says once that the receiver is away, and once that it is
back.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import Protocol

from penstock.loops import kept_thread
from penstock.ports import Clock

log = logging.getLogger("penstock.tracing")

WRITTEN_AT_ONCE = 16  # records, before the event loop has its turn
CLOSE_SECONDS = 2.0  # seconds to send what is left when the server stops
# Seconds before spans that were not taken are sent again. The wait doubles each time.
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
GIVEN_UP = 60.0  # seconds after which spans that were not taken are dropped


Wall = Callable[[float], int]  # a time on our clock as nanoseconds since the epoch


class Record(Protocol):
    """What is noted of one span, or of several that belong together. It must hold nothing large."""

    @property
    def spans(self) -> int: ...

    def write(self, wall: Wall) -> list[bytes]:
        """Returns the spans as OTLP has them. Called in the thread."""
        ...


class NotTaken(Exception):
    """The receiver did not take the spans. `wait`: the seconds after which it may take them; None: it never
    will."""

    def __init__(self, why: str, wait: float | None) -> None:
        super().__init__(why)
        self.wait = wait


class Post(Protocol):
    """Sends a request to the receiver. `receiver.Receiver` implements it."""

    def send(self, spans: list[bytes]) -> int:
        """Returns how many of the spans the receiver has refused. Raises NotTaken. Called in the thread."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Gathering:
    """How much is gathered and kept."""

    most_waiting: int = 16_384  # spans
    together: int = 512  # spans in a request
    delay: float = 1.0  # seconds that a span waits for others


class Exporter:
    """The spans of one process on their way to the receiver."""

    def __init__(
        self,
        post: Post,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        gathering: Gathering | None = None,
        wall_clock: Clock = time.time,
    ) -> None:
        self._post, self._loop, self._clock, self._wall_clock = post, loop, clock, wall_clock
        self._gathering = gathering or Gathering()
        self._records: list[Record] = []
        self._gathered = 0  # spans in these records
        self._timer: asyncio.TimerHandle | None = None
        self._handed: SimpleQueue[tuple[int, Sequence[Record]] | None] = SimpleQueue()
        # Spans that the thread was handed, and those that it is done with: each is written by one side only.
        self._given = self._done = 0
        self._unheard = 0  # dropped on the loop, since too many waited
        self._refused = 0  # dropped by the thread, since the receiver did not take them
        self.sent = 0
        self._ends = Event()  # set once the thread must not wait for the receiver any more
        self._thread: Thread | None = None
        self._set_clocks()

    # ---- on the loop -------------------------------------------------------------------------------------

    def add(self, record: Record) -> None:
        """Take a record to be sent."""
        self._records.append(record)
        self._gathered += record.spans
        if self._gathered >= self._gathering.together:
            self._hand_over()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._gathering.delay, self._hand_over)

    @property
    def dropped(self) -> int:
        """How many spans were not sent and will not be."""
        return self._unheard + self._refused

    @property
    def waiting(self) -> int:
        """How many spans are not sent yet."""
        return self._gathered + self._given - self._done

    def _set_clocks(self) -> None:
        """Compare the clocks. This is done again and again, because the machine's time may be set."""
        self._offset = self._wall_clock() - self._clock()

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        records, self._records = self._records, []
        number, self._gathered = self._gathered, 0
        self._set_clocks()
        if self._given - self._done + number > self._gathering.most_waiting:
            self._unheard += number
            return
        if self._thread is None:
            self._thread = kept_thread("the sending of traces", self._send_all)
            self._thread.start()
        self._given += number
        self._handed.put((number, records))

    async def close(self) -> None:
        """Send what is left, within a bound. If the receiver is away, we do not wait for it."""
        if self._records:
            self._hand_over()
        if self._thread is not None:
            self._ends.set()
            self._handed.put(None)
            await self._loop.run_in_executor(None, self._thread.join, CLOSE_SECONDS)
        if lost := self.dropped + self.waiting:
            log.warning("spans were not sent", extra={"spans": lost})

    # ---- the thread --------------------------------------------------------------------------------------

    def _send_all(self) -> None:
        away = False
        while (handed := self._handed.get()) is not None:
            number, records = handed
            taken = False
            try:
                away = self._send(self._written(records), away)
                taken = not away
            finally:
                if not taken:
                    self._refused += number
                self._done += number
        self._post.close()

    def _written(self, records: Sequence[Record]) -> list[bytes]:
        spans: list[bytes] = []
        for at in range(0, len(records), WRITTEN_AT_ONCE):
            for record in records[at : at + WRITTEN_AT_ONCE]:
                spans += record.write(self._wall)
            time.sleep(0)  # lets the event loop go on if it waits for the interpreter
        return spans

    def _wall(self, when: float) -> int:
        return int((when + self._offset) * 1e9)

    def _send(self, spans: list[bytes], away: bool) -> bool:
        """Send spans until they are taken or given up. Returns whether the receiver is away. `away`: whether it
        was."""
        wait, end = FIRST_WAIT, time.monotonic() + GIVEN_UP
        while True:
            try:
                refused = self._post.send(spans)
            except NotTaken as error:
                if not away:
                    log.warning(
                        "traces cannot be sent; requests are served as ever", extra={"error": str(error)}
                    )
                away = True
                if error.wait is None or time.monotonic() > end:
                    return True
                if self._ends.wait(max(wait, error.wait)):
                    return True
                wait = min(2 * wait, LONGEST_WAIT)
                continue
            if away:
                log.info("traces are sent again", extra={"dropped": self.dropped})
            self._refused += refused
            self.sent += len(spans) - refused
            return False
