"""Several gateways, one real Redis, and a time that is moved by hand: a minute of load in a second."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from penstock.adapters.redis.link.connect import Client, Store
from penstock.adapters.redis.link.scripts import Argument, Script
from penstock.adapters.redis.records.allotment import TICK
from penstock.adapters.redis.records.quota_script import BODY
from penstock.adapters.redis.records.quotas import SharedLimiter
from penstock.quota import Limits
from quota_words import Allowed, release, take

STEP = 0.02  # seconds between two looks at the load
START = 1_000_000.0
SETTLE_AT = Script("local now = tonumber(table.remove(ARGV))" + BODY)

Load = Callable[[float], Sequence[float]]  # seconds since the start → requests a second at each gateway


class Town:
    """What `SharedLimiter.run` does, at virtual times: new tenants at once, the others at every tick."""

    def __init__(self, store: Store, gateways: int, limits: Limits, tenant: str = "acme") -> None:
        self.now = START
        self.limits, self.tenant = limits, tenant
        self.members = gateways
        self.limiters = [
            SharedLimiter(store, f"g{n}", self.clock, lambda: self.members, settle=self._settle)
            for n in range(gateways)
        ]
        self.calls = 0
        self.let_in: list[float] = []
        self.by_gateway = [0] * gateways
        self._owed = [0.0] * gateways
        self._next = [START + TICK * n / gateways for n in range(gateways)]

    def clock(self) -> float:
        return self.now

    def _settle(self, client: Client, keys: Sequence[str], args: Sequence[Argument]) -> Awaitable[Any]:
        self.calls += 1
        return SETTLE_AT(client, keys, [*args, round(self.now * 1000)])

    async def go(self, seconds: float, load: Load) -> None:
        begin, ends = self.now, self.now + seconds
        while self.now < ends:
            for index, limiter in enumerate(self.limiters):
                if self.now >= self._next[index] or limiter._new.is_set():
                    await limiter.settle()
                    self._next[index] = self.now + TICK
            for index, rate in enumerate(load(self.now - begin)):
                self._ask(index, rate)
            self.now += STEP

    def _ask(self, index: int, rate: float) -> None:
        limiter = self.limiters[index]
        self._owed[index] += rate * STEP
        while self._owed[index] >= 1.0:
            self._owed[index] -= 1.0
            if isinstance(take(limiter, self.tenant, self.limits, self.now), Allowed):
                release(limiter, self.tenant, self.now)
                self.let_in.append(self.now)
                self.by_gateway[index] += 1


def in_a_minute(times: Sequence[float], after: float = 0.0, step: float = 1.0) -> list[int]:
    """How many fall into each minute that begins then, or any number of steps later."""
    counts, window = [], deque[float]()
    pending = deque(times)
    begin = START + after
    last = times[-1]
    while begin + 60.0 <= last + step:
        while pending and pending[0] < begin + 60.0:
            window.append(pending.popleft())
        while window and window[0] < begin:
            window.popleft()
        counts.append(len(window))
        begin += step
    return counts
