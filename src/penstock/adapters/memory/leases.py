"""Which shards a batcher may read, where the shards are in memory and the leases stand beside them. `bus.py` makes
the `MemoryLeases`, for tests that run batchers; `penstock/shard_plan.py` decides how many shards each takes."""

import asyncio
from collections.abc import Callable

from penstock.adapters.memory.shard import SharedShards
from penstock.ports import Clock
from penstock.ports.shards import Alive
from penstock.shard_plan import ZoneOf, own_part, plan


class MemoryLeases:
    """Implements `ports.shards.Leases`."""

    def __init__(
        self,
        shards: SharedShards,
        me: str,
        alive: Alive,
        zone_of: ZoneOf,
        clock: Clock,
        *,
        heartbeat: float,
        lease: float,
    ) -> None:
        self.on_gained: Callable[[int], None] = lambda shard: None
        self.on_lost: Callable[[int], None] = lambda shard: None
        self._shards, self._me, self._alive, self._clock = shards.every, me, alive, clock
        self._heartbeat, self._lease, self._zone_of = heartbeat, lease, zone_of
        self._held: dict[int, int] = {}  # the shards that are held, and the fence number of each
        self._former: set[int] = set()  # shards that were lost because their leases were not renewed in time
        self._changed = asyncio.Event()  # set when a batcher has come or gone
        self._closing = False  # whether no lease is taken any more

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(self._held)

    def fence(self, shard: int) -> int:
        """Returns the fence number of a shard that this batcher owns."""
        return self._held[shard]

    def batchers_changed(self) -> None:
        self._changed.set()

    async def release_all(self) -> None:
        self._closing = True
        self._give(list(self._held))

    async def run(self) -> None:
        while True:
            self._changed.clear()
            self.step()
            # A batcher that lacks shards looks more often: their owner has died, or is about to give them back.
            short = len(self._held) < own_part(len(self._shards), self._alive(), self._me, self._zone_of)
            try:
                async with asyncio.timeout(self._heartbeat / 4 if short else self._heartbeat):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def step(self) -> None:
        """Renew, give back and take leases, once."""
        now = self._clock()
        for shard, fence in list(self._held.items()):
            if not self._shards[shard].renew(self._me, fence, now, self._lease):
                self._former.add(shard)
                self._lose(shard)
        if self._closing:
            return
        others = {
            number
            for number, shard in enumerate(self._shards)
            if number not in self._held and shard.holder(now) not in ("", self._me)
        }
        decided = plan(
            len(self._shards), self._held, others, self._alive(), self._me, self._former, self._zone_of
        )
        self._give(decided.give)
        for number in decided.take:
            fence = self._shards[number].lease(self._me, now, self._lease)
            if fence:
                self._held[number] = fence
                self._former.discard(number)
                self.on_gained(number)

    def _give(self, shards: list[int]) -> None:
        """Stop using these shards, and only then let others have them."""
        for number in shards:
            fence = self._held[number]
            self._lose(number)
            self._shards[number].release(self._me, fence)

    def _lose(self, shard: int) -> None:
        del self._held[shard]
        self.on_lost(shard)
