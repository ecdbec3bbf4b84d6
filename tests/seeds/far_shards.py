"""The shards in memory as one process of a simulation has them: at the other end of its link. What each end does
when an answer does not come is what it does over Redis. A request that was not acknowledged is refused and
withdrawn, a lease that was not renewed in time is lost, and a shard of which an answer was lost is looked over."""

import asyncio
from collections import defaultdict

from penstock.adapters.in_hand import Entry
from penstock.adapters.memory.intake import MemoryIntake
from penstock.adapters.memory.leases import MemoryLeases
from penstock.adapters.memory.publisher import MemoryPublisher
from penstock.adapters.memory.shard import SharedShards
from penstock.adapters.outbox import store_down
from penstock.errors import StoreDown
from penstock.loops import Loops
from penstock.ports import Clock
from penstock.ports.bus import Aside
from penstock.ports.shards import Alive, Leases, Taken
from penstock.shard_plan import ZoneOf, nowhere, own_part, plan
from penstock.types import Accepted
from penstock.words.envelopes import encode_envelope
from seeds.links import Link

PAUSE = 0.02  # seconds until something is tried again
Bodies = list[tuple[int, bytes]]  # envelopes, each with its number
LOOK = 0.5  # seconds after which a batcher looks although no bell has rung
ACKNOWLEDGE = 0.1  # seconds between two acknowledgements


class FarPublisher(MemoryPublisher):
    _link: Link
    _away = False

    @property
    def down(self) -> bool:
        return self._away

    async def run(self) -> None:
        self._wake.set()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._unsent:
                    self._latest = (self._latest + 1) % len(self._open)
                    await self._publish(self._open[self._latest], self._take_unsent())
                for shard in list(self._withdrawn):
                    await self._publish(shard, [])
                if not self._unsent:
                    self._quiet.set()
        finally:
            for acceptance in self._acceptances.values():
                if not acceptance.done():
                    acceptance.set_exception(store_down())

    async def _publish(self, shard: int, requests: list[Accepted]) -> None:
        for request in requests:
            request.shard = shard
        withdrawn = self._withdrawn.pop(shard, [])
        body = encode_envelope(self._box, requests, withdrawn, self._clock())
        for last in (False, True):
            try:
                await self._link.ask(lambda: self._shards.publish(shard, body))
            except asyncio.CancelledError:
                self._put_back(requests)  # this loop may be started again
                raise
            except StoreDown:
                if last:
                    break
                await asyncio.sleep(PAUSE)
            else:
                self._accept(requests)
                return
        self._away = True
        self._withdrawn[shard][:0] = [*withdrawn, *(request.key for request in requests)]
        self._fail(requests, store_down())
        self._fail(self._take_unsent(), store_down())
        await self._look_again(shard)

    async def _look_again(self, shard: int) -> None:
        while self._away:
            body = encode_envelope(self._box, [], self._withdrawn[shard], self._clock())
            try:
                await self._link.ask(lambda body=body: self._shards.publish(shard, body))  # type: ignore[misc]
            except StoreDown:
                await asyncio.sleep(PAUSE)
            else:
                del self._withdrawn[shard]
                self._away = False
                self._wake.set()


class FarLeases(MemoryLeases):
    _link: Link
    _ends: dict[int, float]  # by shard, until when we may count on its lease
    _turns: asyncio.Lock

    async def run(self) -> None:
        async with Loops() as loops:
            loops.keep("balancing", self._balance)
            loops.keep("watching over their end", self._watch)

    async def release_all(self) -> None:
        self._closing = True
        async with self._turns:
            await self._give_back(list(self._held))

    async def _balance(self) -> None:
        while True:
            self._changed.clear()
            try:
                async with self._turns:
                    await self._far_step()
            except StoreDown:
                await asyncio.sleep(PAUSE)
                continue
            try:
                async with asyncio.timeout(self._heartbeat / 4 if self._short() else self._heartbeat):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _short(self) -> bool:
        """Whether this batcher lacks shards."""
        return len(self._held) < own_part(len(self._shards), self._alive(), self._me, self._zone_of)

    async def _far_step(self) -> None:
        if self._held:
            await self._renew(dict(self._held))
        if self._closing:
            return
        others = await self._link.ask(self._of_others) if self._short() else set[int]()
        decided = plan(
            len(self._shards), self._held, others, self._alive(), self._me, self._former, self._zone_of
        )
        if decided.give:
            await self._give_back(decided.give)
        if decided.take:
            await self._take(decided.take)

    async def _renew(self, held: dict[int, int]) -> None:
        ends = self._clock() + self._lease
        kept = await self._link.ask(
            lambda: {
                n: self._shards[n].renew(self._me, f, self._clock(), self._lease) for n, f in held.items()
            }
        )
        for number, fence in held.items():
            if self._held.get(number) == fence:
                if kept[number]:
                    self._ends[number] = ends
                else:
                    self._former.add(number)
                    self._lose(number)

    async def _take(self, numbers: list[int]) -> None:
        ends = self._clock() + self._lease
        fences = await self._link.ask(
            lambda: {n: self._shards[n].lease(self._me, self._clock(), self._lease) for n in numbers}
        )
        for number, fence in fences.items():
            if fence:
                self._held[number], self._ends[number] = fence, ends
                self._former.discard(number)
                self.on_gained(number)

    def _of_others(self) -> set[int]:
        now = self._clock()
        return {n for n, shard in enumerate(self._shards) if shard.holder(now) not in ("", self._me)}

    async def _give_back(self, numbers: list[int]) -> None:
        fences = {number: self._held[number] for number in numbers if number in self._held}
        for number in fences:
            self._lose(number)
        await self._link.ask(lambda: self._release(fences))

    def _release(self, fences: dict[int, int]) -> None:
        for number, fence in fences.items():
            self._shards[number].release(self._me, fence)

    async def _watch(self) -> None:
        """Call a lease lost on time, even if nobody can be asked."""
        while True:
            now = self._clock()
            for number in [number for number in self._held if self._ends[number] <= now]:
                self._former.add(number)
                self._lose(number)
            ends = min((self._ends[number] for number in self._held), default=now + self._lease)
            await asyncio.sleep(max(0.001, ends - now))


class FarIntake(MemoryIntake[Taken]):
    _link: Link
    _done: defaultdict[int, list[int]]  # by shard, what is to be acknowledged
    reading: bool

    def _finished(self, entry: Entry[int]) -> None:
        self._done[entry.shard].append(entry.id)

    async def run(self) -> None:
        self._shards.listen(self._bell)
        try:
            async with Loops() as loops:
                loops.keep("reading", self._read)
                loops.keep("acknowledging", self._acknowledge)
        finally:
            self._shards.leave(self._bell)

    async def release(self) -> None:
        self._closing = True
        self._bell.set()
        while self.reading or self.in_hand or self._entries:
            self._progress.clear()
            await self._progress.wait()

    async def _read(self) -> None:
        self._doubtful |= self._owned
        while True:
            self._bell.clear()
            self.reading = not self._closing
            self._progress.set()
            if self.reading:
                try:
                    await self._far_look()
                except StoreDown:
                    self._doubtful |= self._owned
                    await asyncio.sleep(PAUSE)
                    continue
            try:
                async with asyncio.timeout(LOOK):
                    await self._bell.wait()
            except TimeoutError:
                pass

    async def _far_look(self) -> None:
        self._note_changes()
        found = await self._link.ask(self._find)
        for shard, lost, left, new in found:
            self._doubtful.discard(shard)
            if taken := [e for e in lost if self._entries.get((shard, e.id)) is e]:
                self._lose(taken)
            for number, body in left:
                self._take_entry(shard, number, body, inherited=True)
            for number, body in new:
                self._take_entry(shard, number, body, inherited=number <= self._lay.get(shard, 0))

    def _find(self) -> list[tuple[int, list[Entry[int]], Bodies, Bodies]]:
        """What happens at the bus when this batcher looks: by shard, what it has lost, what it takes over, and what
        is new."""
        found = []
        for number in sorted(self._doubtful | self._owned):
            shard = self._shards.every[number]
            lost, left, new = [], [], []
            if number in self._doubtful:
                lost = [
                    entry
                    for (of, each), entry in self._entries.items()
                    if of == number and entry.left and shard.given.get(each) != self._me
                ]
                left = [
                    (each, shard.entries[each])
                    for each, holder in shard.given.items()
                    if holder == self._me and (number, each) not in self._entries
                ]
                if number in self._owned and self._me in self._living:
                    left += shard.take_over(self._me, self._living)
            if number in self._owned:
                new = shard.take_new(self._me)
            found.append((number, lost, left, new))
        return found

    async def _acknowledge(self) -> None:
        while True:
            await asyncio.sleep(ACKNOWLEDGE)
            done = {shard: list(ids) for shard, ids in self._done.items() if ids}
            if not done:
                continue
            try:
                await self._link.ask(
                    lambda done=done: [  # type: ignore[misc]
                        self._shards.every[shard].settle(self._me, each)
                        for shard, ids in done.items()
                        for each in ids
                    ]
                )
            except StoreDown:
                continue
            for shard, ids in done.items():
                del self._done[shard][: len(ids)]
                for each in ids:
                    self._entries.pop((shard, each), None)
            self._progress.set()


class FarShards:
    """Implements `ports.shards.Shards` for one process."""

    def __init__(
        self, shards: SharedShards, link: Link, clock: Clock, aside: Aside, heartbeat: float, lease: float
    ) -> None:
        self.number = len(shards.every)
        self._shards, self._link, self._clock, self._aside = shards, link, clock, aside
        self._heartbeat, self._lease = heartbeat, lease

    def publisher(self, box: str, clock: Clock, max_requests: int, max_bytes: int) -> FarPublisher:
        publisher = FarPublisher(self._shards, box, clock, max_requests, max_bytes)
        publisher._link = self._link
        return publisher

    def leases(self, me: str, alive: Alive, zone_of: ZoneOf = nowhere) -> FarLeases:
        leases = FarLeases(
            self._shards, me, alive, zone_of, self._clock, heartbeat=self._heartbeat, lease=self._lease
        )
        leases._link, leases._ends, leases._turns = self._link, {}, asyncio.Lock()
        return leases

    def intake(
        self, me: str, clock: Clock, leases: Leases, alive: Alive, kind: type[Taken]
    ) -> FarIntake[Taken]:
        intake = FarIntake(self._shards, me, clock, leases, alive, self._aside, kind)
        intake._link, intake._done, intake.reading = self._link, defaultdict(list), True
        return intake
