"""The runtime's loops on a virtual clock, put together as small as each test needs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from penstock.adapters.memory import MemoryBroker
from penstock.core.batcher import Batcher
from penstock.core.ladder import ladder
from penstock.core.ratelimit import RateLimiter
from penstock.core.rules import BatchingRules
from penstock.core.sizes import ANY, Sizes
from penstock.errors import BackendError, Overloaded, Refused
from penstock.ports import Observer
from penstock.quota import Limits
from penstock.runtime.collapse.once_each import Sameness
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.desk import Desk
from penstock.runtime.gateway import Gateway
from penstock.runtime.idempotency import KeyedStore
from penstock.runtime.padding import Padding
from penstock.runtime.pump import Pump
from penstock.runtime.slot import Slot
from penstock.runtime.tasks import TaskStore
from penstock.runtime.warm_up import Warmer
from penstock.runtime.wheel import Wheel
from penstock.testing import MockBackend, Recorder
from penstock.types import Ask, Batch, Execution, Failure, GivenUp, Outcome, Refusal, Reply, WorkerId

WORKER = WorkerId("model/0")
_keys = count()


def ask(now: float = 0.0, *, limit: float = 100.0, text: bytes = b'"x"', tenant: str = "") -> Passenger:
    """A request that arrives now."""
    key = f"k{next(_keys)}"
    return Passenger(key, "model", text, now, now + limit, now + limit, key, tenant=tenant, length=len(text))


def answer(request: Passenger, output: bytes = b"1") -> Reply:
    return Reply(request, Outcome.SUCCESS, output)


@dataclass
class Observed(Observer):
    """An observer that remembers."""

    batches: list[Batch] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    gone: list[GivenUp] = field(default_factory=list)
    endings: list[tuple[Batch, Execution, Failure | None]] = field(default_factory=list)

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        self.batches.append(batch)

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        self.endings.append((batch, execution, failure))

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        self.replies += replies

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        self.gone += replies

    def refused(self, refusal: Refusal) -> None:
        self.refusals.append((refusal.model, refusal.code))


class Station:
    """One model's pump and one worker slot; replies are kept with the time they came."""

    def __init__(
        self,
        backend: MockBackend,
        *,
        policy: str = "greedy",
        processing_limit: float = 3.0,
        first_batch_limit: float = 120.0,
        warm: bool = True,
        start_limit: float = 120.0,
        health_interval: float = 5.0,
        max_cost: float = float("inf"),
        sameness: Sameness | None = None,
        sizes: Sizes = ANY,
        warm_up: Sequence[bytes] | None = None,  # inputs
        idle_sizes: Sequence[int] = (),
        max_batch: int = 64,
        ahead: bool = False,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.backend = backend
        self.observed = Observed()
        self.replies: list[tuple[float, Reply]] = []
        self.deliver: Callable[[Sequence[Reply]], None] = self._deliver
        self.starts: list[BackendError | None] = []
        rules = BatchingRules(
            policy=policy,
            max_cost=max_cost,
            max_batch=max_batch,
            processing=processing_limit,
            sizes=sizes,
            ahead=ahead,
        )
        self.pump = Pump(
            Batcher(rules),
            lambda replies: self.deliver(replies), self.observed, self.loop, self.loop.time, timer_grain=0.0,
        )  # fmt: skip
        warmer = Warmer("model", "app.py:f", warm_up, ladder((), max_batch), start_limit, self.loop.time)
        self.slot = Slot(
            WORKER, backend, self.pump, self.loop.time, processing_limit=processing_limit,
            first_batch_limit=first_batch_limit, start_limit=start_limit, health_interval=health_interval,
            on_started=lambda worker, error: self.starts.append(error), sameness=sameness, warm=warm,
            padding=Padding(sizes, per_item=False) if sizes.allowed else None,
            warmer=warmer, idle_sizes=idle_sizes,
        )  # fmt: skip

    def _deliver(self, replies: Sequence[Reply]) -> None:
        self.replies += [(self.loop.time(), reply) for reply in replies]

    def send(self, *requests: Passenger) -> None:
        for request in requests:
            self.pump.offer(request)

    def ask(self, **options: object) -> Passenger:
        request = ask(self.loop.time(), **options)  # type: ignore[arg-type]
        self.send(request)
        return request

    @property
    def ready(self) -> bool:
        return self.pump.batcher.fleet.healthy == 1

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[Station]":
        task = asyncio.create_task(self.slot.run())
        await asyncio.sleep(0.001)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])
            self.pump.close()


class Door:
    """A gateway with one desk whose requests go nowhere until the test answers them."""

    def __init__(
        self,
        *,
        max_tasks: int = 10,
        max_bytes: int = 100_000,
        ttl: float = 60.0,
        share: float = 0.4,
        takes_parameters: bool = False,
        limits: Limits | None = None,  # of each tenant
        room: int = 10**6,  # for so many more of one call, once the first of them is in
    ) -> None:
        full = Overloaded("there is no room for them all")
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.published: list[Passenger] = []
        self.withdrawn: list[Passenger] = []
        self.refusal: Refused | None = None
        self.observed = Observed()
        self.wheel = Wheel(loop, loop.time)
        self.tasks = TaskStore(
            self.wheel, loop.time, loop.time, max_tasks=max_tasks, max_bytes=max_bytes, ttl=ttl, share=share
        )
        self.keyed = KeyedStore(
            loop.time, loop.time, max_keys=max_tasks, max_bytes=max_bytes, ttl=ttl, share=share
        )
        broker = MemoryBroker[Passenger]()
        broker.subscribe(self.published.append, self.withdrawn.append)
        self.desk = Desk(
            model="model", kind="text", broker=broker, admit=lambda request, now: self.refusal,
            admit_more=lambda request, number, now: full if number > room else None,
            backlog_seconds=lambda: 7.0, cost=None, takes_parameters=lambda: takes_parameters,
            time_limits=[(1.0, 1.5), (2.0, 4.0), (0.2, 0.3)], longest_limit=60.0,
        )  # fmt: skip
        self.gateway = Gateway(
            {"model": self.desk}, lambda client, identity: (client or "", 2 if client == "hurried" else 1),
            self.tasks, self.wheel, self.observed, loop.time, map("id-{}".format, count(1)), RateLimiter(),
            [limits] * 3, keyed_requests=self.keyed,
        )  # fmt: skip

    @property
    def remaining(self) -> int:
        """Of the quota of whoever asked last."""
        account = self.published[-1].account
        assert account is not None
        return account.remaining

    def submit(self, ask: Ask) -> Recorder:
        recorder = Recorder()
        self.gateway.submit(ask, recorder)
        return recorder

    def answer(self, number: int = -1, output: bytes = b"1") -> None:
        self.gateway.waiters.settle([answer(self.published[number], output)])
