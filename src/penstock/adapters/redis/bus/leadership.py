"""Which of several processes leads: a lease in Redis, renewed with each heartbeat. Each autoscaler has one
(`cluster/autoscaler.py`), by way of the bus.

The lease counts from before its renewal was sent by our own clock, and from when that came by Redis' clock. So we
stop leading before another process can begin. Scripts are those of the shards' leases.
"""

import asyncio
from time import monotonic

from redis.exceptions import RedisError

from penstock.adapters.redis.bus.scripts import LEASE_RELEASE, LEASE_TAKE
from penstock.adapters.redis.link.connect import Patience, Store
from penstock.errors import StoreDown


class Leadership:
    """Implements `ports.leadership.Leadership`."""

    def __init__(self, store: Store, of: str, me: str) -> None:
        """`of`: what there is one leader of. `me`: the name of this process."""
        self._store, self._me = store, me
        self._keys = store.keys.lead(of)
        self._fence = 0
        self._ends = 0.0  # when our lease ends, by our clock
        self._over = False
        self._turn = (
            asyncio.Lock()
        )  # a renewal that is under way when the lead is given up would take it anew

    @property
    def leads(self) -> bool:
        return monotonic() < self._ends

    async def run(self) -> None:
        patience = Patience(f"The keeper of the lead of {self._me}")
        heartbeat = self._store.settings.heartbeat
        while True:
            try:
                await self._take()
                patience.succeeded()
            except (StoreDown, RedisError, OSError, RuntimeError) as error:
                await asyncio.sleep(patience.failed(error))
                continue
            await asyncio.sleep(heartbeat)

    async def _take(self) -> None:
        async with self._turn:
            if self._over:
                return
            lease, asked = self._store.settings.lease, monotonic()
            self._fence = await LEASE_TAKE(self._store.commands, self._keys, [self._me, int(lease * 1000)])
            self._ends = asked + lease if self._fence else 0.0

    async def give_up(self) -> None:
        self._over = True
        async with self._turn:
            led, self._ends = self.leads, 0.0
            if led:
                await LEASE_RELEASE(self._store.commands, self._keys[:1], [self._me, self._fence])
