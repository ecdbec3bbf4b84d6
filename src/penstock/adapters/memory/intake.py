"""A batcher's intake in memory: it reads the shards that the batcher leases. An entry stays pending in its shard
until it is settled. `bus.py` makes it, for tests that run batchers. What it has in common with the intake over
Redis is in `adapters/in_hand.py`."""

import asyncio

from penstock.adapters.in_hand import Entry, InHand
from penstock.adapters.memory.shard import SharedShards
from penstock.ports import Clock
from penstock.ports.bus import Aside
from penstock.ports.shards import Alive, Leases, Taken

LOOK = 0.1  # seconds after which the intake looks even if no shard has reported something new


class MemoryIntake(InHand[Taken, int]):
    """Implements `ports.shards.Intake`."""

    def __init__(
        self,
        shards: SharedShards,
        me: str,
        clock: Clock,
        leases: Leases,
        alive: Alive,
        aside: Aside,
        kind: type[Taken],
    ) -> None:
        """`kind`: the class of which requests are made, because `on_request` expects it."""
        super().__init__(kind, aside)
        self._shards, self._me, self._clock, self._leases, self._alive = shards, me, clock, leases, alive
        self._owned: frozenset[int] = frozenset()  # the shards at the last look
        self._living: frozenset[str] = frozenset()  # the batchers at the last look
        self._doubtful: set[int] = set()  # shards in which a dead batcher may have left something
        self._lay: dict[int, int] = {}  # by shard, the last entry that was there when we gained it
        self._bell = asyncio.Event()  # set when there may be something new
        self._closing = False  # whether nothing more is read

    def shards_changed(self) -> None:
        self._bell.set()

    def _finished(self, entry: Entry[int]) -> None:
        del self._entries[entry.shard, entry.id]
        self._shards.every[entry.shard].settle(self._me, entry.id)

    # ---- the loop ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self._shards.listen(self._bell)
        try:
            while True:
                self._bell.clear()
                if not self._closing:
                    self._look()
                try:
                    async with asyncio.timeout(LOOK):
                        await self._bell.wait()
                except TimeoutError:
                    pass
        finally:
            self._shards.leave(self._bell)

    async def release(self) -> None:
        self._closing = True
        while self._entries:
            self._progress.clear()
            await self._progress.wait()

    def _look(self) -> None:
        self._note_changes()
        for shard in sorted(self._doubtful):
            self._look_for_what_was_left(shard)
        self._doubtful.clear()
        for shard in sorted(self._owned):
            for number, body in self._shards.every[shard].take_new(self._me):
                self._take_entry(shard, number, body, inherited=number <= self._lay.get(shard, 0))

    def _note_changes(self) -> None:
        owned, living = frozenset(self._leases.owned), frozenset(self._alive())
        for shard in owned - self._owned:
            self._lay[shard] = self._shards.every[shard].last
        self._doubtful |= owned ^ self._owned
        if living != self._living:
            self._doubtful |= owned
        self._owned, self._living = owned, living

    def _look_for_what_was_left(self, number: int) -> None:
        shard = self._shards.every[number]
        taken = [
            entry
            for (of, each), entry in self._entries.items()
            if of == number and shard.given.get(each) != self._me
        ]
        if taken:
            self._lose(taken)
        if number in self._owned and self._me in self._living:
            for each, body in shard.take_over(self._me, self._living):
                self._take_entry(number, each, body, inherited=True)

    def _take_entry(self, shard: int, number: int, body: bytes, *, inherited: bool) -> None:
        self._take(shard, number, body, f"shard {shard}", self._clock(), inherited=inherited)
