"""Which shards (streams of requests) this batcher may read: leases in Redis, renewed with each heartbeat. Each
batcher runs a `Leases`, which `shards.py` makes; its intake reads the shards that are leased here.
`penstock/shard_plan.py` decides how many shards
a batcher should have.

If a lease could not be renewed for its whole time, we call it lost by our own clock. We count from before the
renewal was sent, and Redis from when it came, so we stop reading before another batcher can start. Each new owner
of a shard has a higher fence number.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from time import monotonic
from typing import Any

from redis.exceptions import RedisError

from penstock.adapters.redis.bus.scripts import LEASE_HELD, LEASE_RELEASE, LEASE_RENEW, LEASE_TAKE
from penstock.adapters.redis.link.connect import Patience, Store, translate
from penstock.adapters.redis.link.scripts import Call
from penstock.errors import StoreDown
from penstock.loops import Loops
from penstock.shard_plan import ZoneOf, nowhere, own_part, plan

log = logging.getLogger("penstock.batcher")

MOST_RENEWALS = 4  # renewals under way at once


class _Lease:
    """The lease of one shard."""

    __slots__ = ("ends", "fence")

    def __init__(self, fence: int, ends: float) -> None:
        self.fence = fence
        self.ends = ends  # by our clock


class Leases:
    """Implements `ports.shards.Leases`."""

    def __init__(
        self, store: Store, me: str, alive: Callable[[], Collection[str]], zone_of: ZoneOf = nowhere
    ) -> None:
        self.on_gained: Callable[[int], None] = lambda shard: None
        self.on_lost: Callable[[int], None] = lambda shard: None
        self._store = store
        self._me = me
        self._alive = alive  # returns the names of the batchers that are there
        self._zone_of = zone_of  # says in which zone a batcher is
        self._shards = store.settings.shards
        self._milliseconds = int(store.settings.lease * 1000)
        self._held: dict[int, _Lease] = {}  # by shard
        self._former: set[int] = set()  # shards whose lease was lost to an outage
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Event()  # set when a batcher has come or gone
        self._renewals = 0  # renewals under way
        self._closing = False  # whether no lease is taken any more

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(self._held)

    def fence(self, shard: int) -> int:
        """Returns the fence number of a shard that this batcher owns."""
        return self._held[shard].fence

    async def run(self) -> None:
        """Hold our share of the shards until cancelled, whatever Redis does."""
        async with Loops() as loops:
            loops.keep("balancing", self._balance)
            loops.keep("watching over their end", self._watch)
            loops.keep("renewing late ones", partial(self._renew_meanwhile, loops))

    def batchers_changed(self) -> None:
        """Look now, and not only with the next heartbeat: a batcher has come, or one has gone and its shards are
        free."""
        self._changed.set()

    async def release_all(self) -> None:
        """Give all shards back, and take none any more."""
        self._closing = True
        async with self._one_at_a_time:
            await self._give(list(self._held))

    async def step(self) -> None:
        """Renew, give back and take leases, once."""
        async with self._one_at_a_time:
            await self._renew()
            if self._closing:
                return
            batchers = self._alive()
            others = await self._held_by_others() if self._short(batchers) else set()
            decided = plan(self._shards, self._held, others, batchers, self._me, self._former, self._zone_of)
            await self._give(decided.give)
            await self._take(decided.take)

    def _short(self, batchers: Collection[str]) -> bool:
        """Returns whether we lack shards."""
        return len(self._held) < own_part(self._shards, batchers, self._me, self._zone_of)

    async def _balance(self) -> None:
        patience = Patience(f"The keeper of the leases of {self._me}")
        heartbeat = self._store.settings.heartbeat
        while True:
            began = monotonic()
            self._changed.clear()
            try:
                await self.step()
                patience.succeeded()
            except (StoreDown, RedisError, OSError, RuntimeError) as error:
                await asyncio.sleep(patience.failed(error))
                continue
            # A batcher that lacks shards looks more often: their owner has died, or is about to give them back.
            pause = heartbeat / 4 if self._short(self._alive()) else heartbeat - (monotonic() - began)
            try:
                async with asyncio.timeout(max(0.0, pause)):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _watch(self) -> None:
        """Call a lease lost on time, even while Redis lets a renewal hang."""
        while True:
            now = monotonic()
            for shard in [shard for shard, lease in self._held.items() if lease.ends <= now]:
                self._former.add(shard)
                self._lose(shard)
            ends = min(
                (lease.ends for lease in self._held.values()), default=now + self._store.settings.lease
            )
            await asyncio.sleep(max(0.001, ends - now))

    async def _renew_meanwhile(self, loops: Loops) -> None:
        """While a renewal is late because of a slow network or a lost packet, send another with each heartbeat."""
        while True:
            await asyncio.sleep(self._store.settings.heartbeat)
            if 0 < self._renewals < MOST_RENEWALS:
                loops.send("a second renewal", self._renew_besides())

    async def _renew_besides(self) -> None:
        try:
            await self._renew()
        except (StoreDown, RedisError, OSError, RuntimeError) as error:  # `_balance` says so in the log
            log.debug("leases were not renewed", extra={"error": str(error)})

    async def _renew(self) -> None:
        self._renewals += 1
        try:
            await self._try_to_renew()
        finally:
            self._renewals -= 1

    async def _try_to_renew(self) -> None:
        ends = monotonic() + self._store.settings.lease
        renewed = dict(self._held)
        calls: list[Call] = [
            ([self._store.keys.lease(shard)], [self._me, lease.fence, self._milliseconds])
            for shard, lease in renewed.items()
        ]
        answers = await LEASE_RENEW.each(self._store, calls)
        for (shard, lease), kept in zip(renewed.items(), answers, strict=True):
            if isinstance(kept, Exception) or self._held.get(shard) is not lease:
                continue  # no answer, or the lease was lost while we asked: it is taken again later
            if kept:
                lease.ends = max(lease.ends, ends)
            else:
                self._former.add(shard)
                self._lose(shard)
        _raise_first(answers)

    async def _held_by_others(self) -> set[int]:
        shards = [shard for shard in range(self._shards) if shard not in self._held]
        keys = [self._store.keys.lease(shard) for shard in shards]
        calls: list[Call] = [([key], [self._me, self._milliseconds]) for key in keys]
        holders = await LEASE_HELD.each(self._store, calls)
        _raise_first(holders)
        for key, holder in zip(keys, holders, strict=True):
            if isinstance(holder, bytes):
                self._store.aside.add("lease", key, "it names no batcher, or never ends", holder)
        return {shard for shard, holder in zip(shards, holders, strict=True) if holder == 1}

    async def _take(self, shards: list[int]) -> None:
        ends = monotonic() + self._store.settings.lease
        keys = self._store.keys
        calls: list[Call] = [
            ([keys.lease(shard), keys.fence(shard)], [self._me, self._milliseconds]) for shard in shards
        ]
        answers = await LEASE_TAKE.each(self._store, calls)
        for shard, fence in zip(shards, answers, strict=True):
            if isinstance(fence, int) and fence:
                self._held[shard] = _Lease(fence, ends)
                self._former.discard(shard)
                self.on_gained(shard)
        _raise_first(answers)

    async def _give(self, shards: list[int]) -> None:
        """Stop using these shards, and only then let others have them."""
        calls: list[Call] = [
            ([self._store.keys.lease(shard)], [self._me, self._held[shard].fence]) for shard in shards
        ]
        for shard in shards:
            self._lose(shard)
        _raise_first(await LEASE_RELEASE.each(self._store, calls))

    def _lose(self, shard: int) -> None:
        del self._held[shard]
        self.on_lost(shard)


def _raise_first(answers: list[Any]) -> None:
    """Raise the first error of these answers, as a new error. A raised error refers to the frames it passes, and
    these refer to the answers: to raise the same one would make a cycle for the garbage collector."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise translate(answer) from answer
