"""The same house built thrice: gateways, the way to a batcher and back.

In one process, over a bus in memory, and over a Redis.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from time import monotonic, time
from typing import Protocol

from meeting import Meeting, meet_at

from penstock.adapters.memory import MemoryBroker
from penstock.adapters.redis.bus.bus import RedisBus
from penstock.adapters.redis.link.connect import Store
from penstock.cluster.idempotency import KeyedDesk
from penstock.cluster.tasks import TaskDesk
from penstock.errors import Refused
from penstock.idempotency import Keyed, KeyedRequests
from penstock.ports import Asker, Broker, Leaving, Task, Tasks
from penstock.ports.tasks import Ended
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.desk import Desk
from penstock.runtime.idempotency import KeyedStore
from penstock.runtime.reservation import Reserved
from penstock.runtime.tasks import TaskStore
from penstock.runtime.waiters import Waiter, Waiters
from penstock.runtime.wheel import Wheel
from penstock.types import Failure, Outcome, Reply
from penstock.words.messages import Notice, decode, task_name
from redis_servers import KINDS, becomes, running

_numbers = count()


def ask(text: bytes = b'"x"', *, tenant: str = "", limit: float = 100.0, task: bool = False) -> Passenger:
    """A request that arrives now."""
    key, now = f"k{next(_numbers)}", monotonic()
    return Passenger(
        key,
        "model",
        text,
        now,
        now + limit,
        now + limit,
        f"id-{key}",
        tenant=tenant,
        length=len(text),
        task=task,
    )


def named(request: Passenger) -> str:
    """As a task is called between processes."""
    return task_name(request.tenant, request.request_id)


class Inbox:
    """Where a batcher would be: it notes what it is told."""

    def __init__(self) -> None:
        self.requests: list[Passenger] = []
        self.withdrawn: list[Passenger] = []

    def take(self, request: Passenger) -> None:
        request.waiting = True
        self.requests.append(request)

    def give_up(self, request: Passenger) -> None:
        self.withdrawn.append(request)

    @property
    def keys(self) -> list[str]:
        return [request.key for request in self.requests]

    async def gets(self, number: int) -> None:
        await becomes(lambda: len(self.requests) >= number)

    async def gives_up(self, *requests: Passenger) -> None:
        wanted = {request.key for request in requests}
        await becomes(lambda: {request.key for request in self.withdrawn} >= wanted)


class KeyedDoor:
    """Where one gateway is asked with an Idempotency-Key."""

    def __init__(self, keyed: KeyedRequests, broker: Broker[Passenger], waiters: Waiters) -> None:
        self._keyed = keyed
        self._waiters = waiters
        self.refusal: Refused | None = None
        self._desk = Desk(
            model="model", kind="text", broker=broker, admit=lambda request, now: self.refusal,
            backlog_seconds=lambda: 7.0, cost=None, takes_parameters=lambda: False,
            time_limits=[(2.0, 4.0)] * 3, longest_limit=60.0,
        )  # fmt: skip

    def ask(self, keyed: Keyed, request: Passenger, asker: Asker) -> Leaving:
        return self._keyed.ask(keyed, self.reserve(request), asker)

    async def ask_task(self, keyed: Keyed, request: Passenger) -> tuple[Task, bool]:
        return await self._keyed.ask_task(keyed, self.reserve(request))

    def reserve(self, request: Passenger) -> Reserved:
        return Reserved(request, self._desk, self._waiters, monotonic)


class Reservation(Reserved):
    """Of a task that nobody waits for here: its gateway may be gone by the time it is over."""

    def __init__(self, request: Passenger, heard: list[str] | None = None) -> None:
        """`heard`: it is in flight until its end is told there."""
        loop = asyncio.get_running_loop()
        broker = MemoryBroker[Passenger]()
        desk = Desk(
            model="model", kind="text", broker=broker, admit=lambda request, now: None,
            backlog_seconds=lambda: 1.0, cost=None, takes_parameters=lambda: False,
            time_limits=[(2.0, 4.0)] * 3, longest_limit=60.0,
        )  # fmt: skip
        waiters = Waiters(Wheel(loop, monotonic), lambda request: None)
        super().__init__(request, desk, waiters, monotonic, in_flight=heard is not None)
        self.heard = [] if heard is None else heard

    def enter(self, asker: Asker) -> Waiter:
        raise AssertionError("nobody waits at this gateway")

    def over(self, code: str) -> None:
        self.heard.append(code)


class House(Protocol):
    inbox: Inbox
    broker: Broker[Passenger]
    tasks: Tasks
    elsewhere: Tasks  # at another gateway, where there are several
    door: KeyedDoor
    back_door: KeyedDoor  # at that other gateway

    async def accept(self, request: Passenger) -> Task: ...

    async def begin(self, request: Passenger) -> None:
        """It has gone to a worker."""
        ...

    async def end(
        self, request: Passenger, outcome: Outcome, output: bytes, failure: Failure | None
    ) -> None: ...


Build = Callable[..., AbstractAsyncContextManager[House]]


class MemoryHouse:
    def __init__(self, ttl: float) -> None:
        loop = asyncio.get_running_loop()
        self.inbox = Inbox()
        self.wheel = Wheel(loop, monotonic)
        broker = MemoryBroker[Passenger]()
        broker.subscribe(self.inbox.take, self.inbox.give_up)
        self.broker: Broker[Passenger] = broker
        self._waiters = Waiters(self.wheel, self.broker.withdraw)
        self.tasks: Tasks = TaskStore(
            self.wheel, monotonic, time, max_tasks=100, max_bytes=1_000_000, ttl=ttl
        )
        self.elsewhere: Tasks = self.tasks
        keyed = KeyedStore(monotonic, time, max_keys=100, max_bytes=1_000_000, ttl=ttl)
        self.door = self.back_door = KeyedDoor(keyed, self.broker, self._waiters)

    async def accept(self, request: Passenger) -> Task:
        return await self.tasks.accept(self.door.reserve(request))

    async def begin(self, request: Passenger) -> None:
        request.waiting = False

    async def end(self, request: Passenger, outcome: Outcome, output: bytes, failure: Failure | None) -> None:
        self._waiters.settle([Reply(request, outcome, output, failure)])


class Gate:
    """One gateway's way into the house."""

    def __init__(self, meeting: Meeting, name: str) -> None:
        self.mailbox = meeting.bus.mailbox(name)
        self.publisher = meeting.shards.publisher(name, monotonic, 65_536, 1 << 28)
        self._tasks = meeting.records.tasks(name)
        self.wheel = Wheel(asyncio.get_running_loop(), monotonic)
        self.desk = TaskDesk(self._tasks, self.publisher, monotonic, time, self.wheel)
        self.keyed = KeyedDesk(self.desk, meeting.records.claims, monotonic)
        waiters = Waiters(self.wheel, self.publisher.withdraw)
        self.door = KeyedDoor(self.keyed, self.publisher, waiters)

    async def close(self) -> None:
        await self.keyed.close()
        await self.desk.close()
        self.wheel.close()

    def hear(self, payload: bytes) -> None:
        message = decode(payload)
        assert isinstance(message, Notice)
        self._tasks.notice(message)
        self.desk.over(message)


class AllShards:
    """Leases that nobody contests."""

    on_gained: Callable[[int], None]
    on_lost: Callable[[int], None]

    def __init__(self, number: int) -> None:
        self.owned = frozenset(range(number))

    def fence(self, shard: int) -> int:
        return 1

    def batchers_changed(self) -> None: ...

    async def release_all(self) -> None: ...

    async def run(self) -> None: ...


class BusHouse:
    """Over a bus, in memory or over a Redis."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting
        self.inbox = Inbox()
        self.gates = [Gate(meeting, name) for name in ("here", "there")]
        self.broker: Broker[Passenger] = self.gates[0].publisher
        self.tasks: Tasks = self.gates[0].desk
        self.elsewhere: Tasks = self.gates[1].desk
        self.door, self.back_door = (gate.door for gate in self.gates)
        leases = AllShards(meeting.shards.number)
        self.intake = meeting.shards.intake("batcher", monotonic, leases, lambda: {"batcher"}, Passenger)
        self.intake.subscribe(self.inbox.take, self.inbox.give_up)
        self._endings = meeting.records.endings

    @property
    def store(self) -> Store:
        """Of a house over a Redis."""
        assert isinstance(self.meeting.bus, RedisBus)
        return self.meeting.bus.store

    async def accept(self, request: Passenger) -> Task:
        return await self.tasks.accept(Reservation(request))

    async def begin(self, request: Passenger) -> None:
        await self._endings.processing([named(request)])

    async def end(self, request: Passenger, outcome: Outcome, output: bytes, failure: Failure | None) -> None:
        await self._endings.settle([Ended(named(request), outcome, output, failure)])


@asynccontextmanager
async def memory_house(ttl: float = 60.0) -> AsyncIterator[House]:
    house = MemoryHouse(ttl)
    try:
        yield house
    finally:
        house.wheel.close()


def house_at(url: str) -> Build:
    """Empty: over a bus in memory."""

    @asynccontextmanager
    async def build(ttl: float = 60.0) -> AsyncIterator[House]:
        async with meet_at(url)(ttl=ttl) as meeting:
            house = BusHouse(meeting)
            for gate in house.gates:
                await gate.mailbox.create()
            loops = [gate.mailbox.run(gate.hear) for gate in house.gates]
            loops += [gate.publisher.run() for gate in house.gates]
            async with running(house.intake.run(), *loops):
                try:
                    yield house
                finally:
                    for gate in house.gates:
                        await gate.close()

    return build


ONE_PROCESS, MEMORY_BUS = "one process", "a bus in memory"
EVERY_HOUSE = (ONE_PROCESS, MEMORY_BUS, *KINDS, "cluster")


def house_of(kind: str, redis_urls: dict[str, str]) -> Build:
    """One of `EVERY_HOUSE`."""
    if kind == ONE_PROCESS:
        return memory_house
    return house_at("" if kind == MEMORY_BUS else redis_urls[kind])
