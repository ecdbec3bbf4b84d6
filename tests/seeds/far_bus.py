"""The bus in memory as one process of a simulation has it: at the other end of its link. Whatever the process asks
of it may be late, or fail, or be done without its knowing. What is tried again is what the bus over Redis tries."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from penstock.adapters.memory.boxes import Boxes, MemoryMailbox, MemoryPost
from penstock.adapters.memory.bus import MemoryBus
from penstock.adapters.memory.line import MemoryCredits
from penstock.adapters.memory.registry import MemoryRegistry, Said
from penstock.adapters.memory.shard import SharedShards
from penstock.adapters.memory.tasks import SharedTasks
from penstock.errors import StoreDown
from penstock.patience import FIRST_WAIT, LONGEST_WAIT
from penstock.ports import Clock
from penstock.ports.tasks import Ended, TaskEndings
from penstock.words.heartbeats import Heartbeat, Kind
from seeds.links import Link

Messages = Sequence[tuple[str, bytes]]


class FarPost(MemoryPost):
    """Tries again while the bus is away, so a message may arrive twice."""

    def __init__(self, boxes: Boxes, link: Link, clock: Clock) -> None:
        super().__init__(boxes)
        self._link, self._clock = link, clock

    async def send_all(self, messages: Messages, *, give_up_after: float = 30.0) -> list[bool]:
        wait, gives_up = FIRST_WAIT, self._clock() + give_up_after
        while True:
            try:
                return await self._link.ask(
                    lambda: [self._boxes.put(box, payload) for box, payload in messages]
                )
            except StoreDown:
                if self._clock() + wait > gives_up:
                    raise
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)


class FarMailbox(MemoryMailbox):
    """A message stays in the box until it has reached its owner."""

    def __init__(self, boxes: Boxes, owner: str, heartbeat: float, link: Link) -> None:
        super().__init__(boxes, owner, heartbeat)
        self._link = link

    async def create(self) -> None:
        await self._link.ask(lambda: self._boxes.create(self.owner))

    async def run(self, on_message: Callable[[bytes], None]) -> None:
        while True:
            try:
                box = await self._link.ask(lambda: self._boxes.create(self.owner))
            except StoreDown:
                continue
            while box.messages:
                on_message(box.messages.popleft())
            box.news.clear()
            try:
                async with asyncio.timeout(self._heartbeat):
                    await box.news.wait()
            except TimeoutError:
                pass

    async def remove(self) -> None:
        await self._link.ask(lambda: self._boxes.remove(self.owner))


class FarCredits(MemoryCredits):
    def __init__(self, inner: MemoryCredits, link: Link) -> None:
        super().__init__(inner._lines, inner._zone)
        self._link = link

    async def take(self, model: str, block_seconds: float, abroad: Sequence[str] = ()) -> str | None:
        return await self._link.wait(super().take(model, block_seconds, abroad))

    async def post(self, model: str, slot: str, zone: str | None = None) -> bool:
        line = self._line(model, self._zone if zone is None else zone)
        return await self._link.ask(lambda: line.post(slot))

    async def withdraw(self, model: str, slot: str) -> bool:
        return await self._link.wait(super().withdraw(model, slot))


class FarRegistry(MemoryRegistry):
    _link: Link

    async def run(self) -> None:
        wait = FIRST_WAIT
        while True:
            try:
                await self.beat()
            except StoreDown:
                if self.reachable:
                    self.reachable = False
                    self.on_changed()
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
                continue
            wait = FIRST_WAIT
            await asyncio.sleep(self._pause())

    async def beat(self) -> None:
        await self._link.ask(self._say)
        came_back, self.reachable = not self.reachable, True
        self._listen()
        if came_back:
            self.on_changed()

    async def announce_model(self, name: str, announcement: Any) -> None:
        self.describe_model(name, announcement)
        await self._link.ask(self._say_news)

    async def leave(self) -> None:
        self._left = True
        await self._link.ask(lambda: self._shared.said[self._kind].pop(self._me, None))


class FarThing:
    """Records at the other end of a link: what is awaited goes there and back, and the rest is called here."""

    def __init__(self, inner: Any, link: Link, far: Sequence[str]) -> None:
        self._inner, self._link, self._far = inner, link, far

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._far:
            return found

        def call(*args: Any, **named: Any) -> Any:
            return self._link.wait(found(*args, **named))

        return call


class FarEndings:
    """Tries again while the bus is away, as the records over Redis do."""

    def __init__(self, inner: TaskEndings, link: Link, clock: Clock) -> None:
        self._inner, self._link, self._clock = inner, link, clock

    async def processing(self, tasks: Sequence[str]) -> None:
        await self._link.wait(self._inner.processing(tasks))

    async def settle(self, endings: Sequence[Ended], give_up_after: float = 30.0) -> Sequence[Ended]:
        wait, gives_up = FIRST_WAIT, self._clock() + give_up_after
        while self._clock() + wait <= gives_up:
            try:
                return await self._link.wait(self._inner.settle(endings))
            except StoreDown:
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
        return endings


TASK_CALLS = ("create", "placed", "forget", "find", "peek", "wait", "cancel")


class FarRecords:
    """Implements `ports.records.Records` for one process."""

    def __init__(self, records: Any, link: Link, clock: Clock) -> None:
        self._records, self._link = records, link
        self.answers: Any = FarThing(records.answers, link, ("fetch", "keep"))
        self.claims: Any = FarThing(records.claims, link, ("claim", "placed", "forget"))
        self.endings = FarEndings(records.endings, link, clock)
        self.letters: Any = FarThing(records.letters, link, ("add", "list", "show", "remove", "purge"))
        self.quotas, self.ended_tasks = records.quotas, records.ended_tasks

    def tasks(self, box: str) -> Any:
        return FarThing(self._records.tasks(box), self._link, TASK_CALLS)


class FarBus:
    """Implements `ports.bus.Bus` for one process."""

    where = "memory, far away"

    def __init__(self, bus: MemoryBus, link: Link, clock: Clock) -> None:
        self._bus, self._link, self._clock = bus, link, clock
        self.heartbeat, self.lease, self.aside = bus.heartbeat, bus.lease, bus.aside
        self.post = FarPost(bus._boxes, link, clock)
        self.leadership = bus.leadership

    def credits(self, zone: str = "") -> FarCredits:
        return FarCredits(self._bus.credits(zone), self._link)

    def mailbox(self, owner: str) -> FarMailbox:
        return FarMailbox(self._bus._boxes, owner, self.heartbeat, self._link)

    def registry(self, kind: Kind, me: str, describe: Callable[[], Heartbeat]) -> FarRegistry:
        registry = FarRegistry(
            self._bus._registry, kind, me, describe, self._clock, self.aside,
            heartbeat=self.heartbeat, lease=self.lease,
        )  # fmt: skip
        registry._link = self._link
        return registry

    async def open(self) -> None:
        await self._link.there()

    async def close(self) -> None:
        """Does nothing: there is no connection."""


def count_ages_anew(bus: MemoryBus, now: float) -> None:
    """The bus was away and is back: heartbeats are missing of which nobody is to blame."""
    for said in bus._registry.said.values():
        for name, last in said.items():
            said[name] = Said(now, last.text)


def left_in(shards: SharedShards) -> dict[int, int]:
    """How many envelopes lie in each shard."""
    return {number: len(shard.entries) for number, shard in enumerate(shards.every) if shard.entries}


def tasks_of(records: Any) -> SharedTasks:
    books: SharedTasks = records._books
    return books
