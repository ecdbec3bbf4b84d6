"""Many deadlines, one timer.

Nearly every deadline is settled long before it comes, so adding one must cost next to nothing: it is appended to
a list, and no more. Each tick that list is gone through once; what is settled by then is forgotten, and only what
still matters is put where its time will find it. A deadline fires within two ticks after its time, never before.
"""

import asyncio
import logging
from math import ceil

from penstock.ports import Clock, Expiring

log = logging.getLogger("penstock.wheel")


class Wheel:
    __slots__ = ("_clock", "_loop", "_new", "_slots", "_tick", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, tick: float = 0.05) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._new: list[Expiring] = []
        self._slots: dict[int, list[Expiring]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, entry: Expiring) -> None:
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
                self._slots.setdefault(ceil(entry.when / self._tick), []).append(entry)
        for slot in sorted(slot for slot in self._slots if slot <= current):
            for entry in self._slots.pop(slot):
                if not entry.settled:
                    self._expire(entry)
        if self._timer is None and (self._slots or self._new):
            self._timer = self._loop.call_later(self._tick, self._turn)

    def _expire(self, entry: Expiring) -> None:
        try:
            entry.expire()
        except Exception:
            # One that fails must not keep the others from their ends.
            log.exception("a time limit could not be enforced")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._new.clear()
        self._slots.clear()
