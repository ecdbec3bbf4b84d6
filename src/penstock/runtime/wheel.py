"""Many deadlines, one timer. Each process with a gateway has one wheel, on which its waiters stand, its tasks, and
the results that it keeps for a time.

Nearly every deadline is settled long before it comes, so adding one must cost next to nothing: it is appended to
a list, and no more. At each tick that list is gone through once. What is settled by then is forgotten, and the rest
is sorted under the tick at which its time is up. A deadline fires within two ticks after its time, never before.
"""

import asyncio
import logging
from math import ceil

from penstock.ports import Clock, Expiring

log = logging.getLogger("penstock.wheel")


class Wheel:
    __slots__ = ("_by_tick", "_clock", "_loop", "_new", "_tick", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, tick: float = 0.05) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._new: list[Expiring] = []  # what was added since the last tick
        self._by_tick: dict[int, list[Expiring]] = {}  # what was added before, by the tick of its time
        self._timer: asyncio.TimerHandle | None = None

    def add(self, entry: Expiring) -> None:
        """Put a deadline on the wheel: `expire` is called after its time, unless it is settled by then."""
        self._new.append(entry)
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick, self._turn)

    def _turn(self) -> None:
        """Go through the lists, at every tick while there is something on the wheel."""
        self._timer = None
        current = int(self._clock() / self._tick)
        new, self._new = self._new, []
        for entry in new:
            if not entry.settled:
                self._by_tick.setdefault(ceil(entry.when / self._tick), []).append(entry)
        for tick in sorted(tick for tick in self._by_tick if tick <= current):
            for entry in self._by_tick.pop(tick):
                if not entry.settled:
                    self._expire(entry)
        if self._timer is None and (self._by_tick or self._new):
            self._timer = self._loop.call_later(self._tick, self._turn)

    def _expire(self, entry: Expiring) -> None:
        try:
            entry.expire()
        except Exception:
            # If one fails, the others must still be ended.
            log.exception("a time limit could not be enforced")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._new.clear()
        self._by_tick.clear()
