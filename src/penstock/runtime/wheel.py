"""Many deadlines, one timer.

A deadline that almost never comes (the client was answered long before) must cost next to nothing: entries are
appended to the list of their tick, nothing is ever removed, and an entry whose matter is settled ignores the
call. A deadline fires within one tick after its time, never before.
"""

import asyncio
from math import ceil

from penstock.ports import Clock, Expiring


class Wheel:
    __slots__ = ("_clock", "_loop", "_slots", "_tick", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, tick: float = 0.05) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._slots: dict[int, list[Expiring]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, when: float, entry: Expiring) -> None:
        slot = ceil(when / self._tick)
        entries = self._slots.get(slot)
        if entries is not None:
            entries.append(entry)
            return
        self._slots[slot] = [entry]
        if self._timer is None:
            self._arm()

    def _arm(self) -> None:
        """Every tick while there is something on the wheel: cheaper than finding the next one each time."""
        self._timer = self._loop.call_later(self._tick, self._turn)

    def _turn(self) -> None:
        self._timer = None
        current = int(self._clock() / self._tick)
        for slot in sorted(slot for slot in self._slots if slot <= current):
            for entry in self._slots.pop(slot):
                entry.expire()
        if self._slots and self._timer is None:
            self._arm()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._slots.clear()
