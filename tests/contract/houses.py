"""The same house built twice: gateways, the way to a batcher and back; in one process, and over a Redis."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from time import monotonic, time
from typing import Protocol
from uuid import uuid4

from penstock.adapters.memory import MemoryBroker
from penstock.adapters.redis.bus.intake import Intake
from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.bus.publisher import Publisher
from penstock.adapters.redis.bus.wire import Notice, decode
from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.link.names import task_name
from penstock.adapters.redis.records.idempotency import RedisClaims
from penstock.adapters.redis.records.task_endings import Ended, Outcomes
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.cluster.idempotency import KeyedDesk
from penstock.cluster.tasks import TaskDesk
from penstock.errors import Refused
from penstock.idempotency import Keyed, KeyedRequests
from penstock.ports import Asker, Broker, Leaving, Task, Tasks
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.desk import Desk
from penstock.runtime.idempotency import KeyedStore
from penstock.runtime.reservation import Reserved
from penstock.runtime.tasks import TaskStore
from penstock.runtime.waiters import Waiter, Waiters
from penstock.runtime.wheel import Wheel
from penstock.types import Failure, Outcome, Reply
from redis_servers import becomes, patient, running

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
    """One gateway's connection to the house."""

    def __init__(self, store: Store, name: str, ttl: float) -> None:
        self.store = store
        self.mailbox = Mailbox(store, name)
        self.publisher = Publisher(store, name, monotonic)
        self._tasks = RedisTasks(store, name, Post(store), ttl)
        self.wheel = Wheel(asyncio.get_running_loop(), monotonic)
        self.desk = TaskDesk(self._tasks, self.publisher, monotonic, self.wheel)
        self.keyed = KeyedDesk(self.desk, RedisClaims(store, Post(store), ttl, ttl), monotonic)
        waiters = Waiters(self.wheel, self.publisher.withdraw)
        self.door = KeyedDoor(self.keyed, self.publisher, waiters)

    async def close(self) -> None:
        await self.keyed.close()
        self.wheel.close()

    def hear(self, payload: bytes) -> None:
        message = decode(payload)
        assert isinstance(message, Notice)
        self._tasks.notice(message)
        self.desk.over(message)


class RedisHouse:
    owned: Sequence[int] = range(16)

    def __init__(self, store: Store, ttl: float) -> None:
        self.inbox = Inbox()
        self.gates = [Gate(store, name, ttl) for name in ("here", "there")]
        self.broker: Broker[Passenger] = self.gates[0].publisher
        self.tasks: Tasks = self.gates[0].desk
        self.elsewhere: Tasks = self.gates[1].desk
        self.door, self.back_door = (gate.door for gate in self.gates)
        self.intake = Intake(store, "batcher", monotonic, self, lambda: {"batcher"}, Passenger)
        self.intake.subscribe(self.inbox.take, self.inbox.give_up)
        self._outcomes = Outcomes(store, Post(store))

    async def accept(self, request: Passenger) -> Task:
        return await self.tasks.accept(Reservation(request))

    async def begin(self, request: Passenger) -> None:
        await self._outcomes.processing([named(request)])

    async def end(self, request: Passenger, outcome: Outcome, output: bytes, failure: Failure | None) -> None:
        await self._outcomes.settle([Ended(named(request), outcome, output, failure)])


@asynccontextmanager
async def memory_house(ttl: float = 60.0) -> AsyncIterator[House]:
    house = MemoryHouse(ttl)
    try:
        yield house
    finally:
        house.wheel.close()


def redis_house(url: str) -> Build:
    @asynccontextmanager
    async def build(ttl: float = 60.0) -> AsyncIterator[House]:
        store = Store(patient(url, namespace=f"test-{uuid4().hex[:8]}"))
        await store.open()
        try:
            house = RedisHouse(store, ttl)
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
        finally:
            await store.close()

    return build
