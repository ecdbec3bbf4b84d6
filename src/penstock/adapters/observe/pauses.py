"""Measures how long the event loop is busy with one thing while all others wait. `roles/process.py` makes it,
`server/life.py` starts it, and `exposition.py` shows it.

A timer is due every few milliseconds. When it comes late, the loop was busy for at least that long: with a request,
a batch or the garbage collector, or the machine gave the process no time. A pause is seen up to one interval
shorter than it was.
"""

import asyncio
import time

from penstock.adapters.observe.histogram import Histogram
from penstock.ports import Clock

EVERY = 0.005  # seconds between two ticks; shorter pauses do not count
BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds: upper bounds of the histogram's buckets
SPAN = 60.0  # seconds, at least, that the longest pause is remembered


class LoopPauses:
    """The timer, and what it has found."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.seconds = Histogram(BOUNDS)
        self._clock = clock
        self._due = 0.0  # when the next tick should come
        self._timer: asyncio.TimerHandle | None = None
        self._longest = [0.0, 0.0]  # the longest pause of this span, and of the one before
        self._until = 0.0  # when this span ends

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = self._clock() + EVERY
        self._timer = loop.call_later(EVERY, self._look, loop)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = self._clock()
        if now - self._due >= EVERY:
            self.note(now - self._due, now)
        self._due = now + EVERY
        self._timer = loop.call_later(EVERY, self._look, loop)

    def note(self, pause: float, now: float) -> None:
        """Count a pause of so many seconds."""
        self.seconds.observe(pause)
        self._begin_span(now)
        self._longest[0] = max(self._longest[0], pause)

    def longest(self) -> float:
        """Returns the longest pause, in seconds, of the last one to two minutes."""
        self._begin_span(self._clock())
        return max(self._longest)

    def _begin_span(self, now: float) -> None:
        """Begin a new span if the present one has ended."""
        if now >= self._until:
            recent = now < self._until + SPAN
            self._longest = [0.0, self._longest[0] if recent else 0.0]
            self._until = now + SPAN
