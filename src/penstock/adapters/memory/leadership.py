"""Which of several members leads, where the lease is in memory. `bus.py` makes it, for tests that run
autoscalers."""

import asyncio
from dataclasses import dataclass

from penstock.ports import Clock


@dataclass
class SharedLead:
    """Who leads, and until when."""

    holder: str = ""
    ends: float = 0.0


class MemoryLeadership:
    """Implements `ports.leadership.Leadership`."""

    def __init__(self, shared: SharedLead, me: str, clock: Clock, *, heartbeat: float, lease: float) -> None:
        self._shared, self._me, self._clock = shared, me, clock
        self._heartbeat, self._lease = heartbeat, lease
        self._given_up = False  # whether this member does not want to lead any more

    @property
    def leads(self) -> bool:
        return self._shared.holder == self._me and self._clock() < self._shared.ends

    async def run(self) -> None:
        while True:
            now, shared = self._clock(), self._shared
            if not self._given_up and (shared.holder == self._me or now >= shared.ends):
                shared.holder, shared.ends = self._me, now + self._lease
            await asyncio.sleep(self._heartbeat)

    async def give_up(self) -> None:
        self._given_up = True
        if self.leads:
            self._shared.ends = self._clock()
