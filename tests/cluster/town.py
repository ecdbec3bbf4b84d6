"""An installation in one process: real gateways, batchers and workers over a bus in memory, in virtual time."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.adapters.memory.bus import MemoryBus, MemoryShards
from penstock.adapters.memory.records import MemoryRecords
from penstock.adapters.observe.ended import Ended
from penstock.adapters.observe.timeline import Clocks
from penstock.cluster.batcher import BatcherMember
from penstock.cluster.gateway import GatewayMember
from penstock.cluster.member import Member
from penstock.cluster.worker import WorkerMember
from penstock.config import Config, Level, Limits, Model, Redis, Server, Tiers
from penstock.core.ratelimit import RateLimiter
from penstock.loops import for_ever
from penstock.ports import Backend, Observer
from penstock.ports.bus import Post
from penstock.testing import Answer, MockBackend, Recorder, VirtualLoop
from penstock.types import Ask, Batch, Reply

WALL = 1_700_000_000.0  # what time of day it was when the loop began
SECONDS = 0.05  # that a batch takes

M = TypeVar("M", bound=Member)


class OwnPost:
    """The post as one process has it: once it has died, nothing that it still does is heard of."""

    apart = False

    def __init__(self, post: Post, seconds: float) -> None:
        self._post = post
        self._seconds = seconds
        self.dead = self.cleared_away = False

    async def send(self, box: str, payload: bytes, *, give_up_after: float = 30.0) -> bool:
        [sent] = await self.send_all([(box, payload)], give_up_after=give_up_after)
        return sent

    async def send_all(
        self, messages: Sequence[tuple[str, bytes]], *, give_up_after: float = 30.0
    ) -> list[bool]:
        if self.cleared_away:
            raise asyncio.CancelledError
        if self.dead:
            try:
                await for_ever()
            finally:  # the test is over: whoever still tells something in its last moments must not wait again
                self.cleared_away = True
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return await self._post.send_all(messages, give_up_after=give_up_after)


class OwnBus:
    """The bus of all, with a post of its own."""

    def __init__(self, bus: MemoryBus, post_seconds: float) -> None:
        self.where, self.heartbeat, self.lease = bus.where, bus.heartbeat, bus.lease
        self.aside = bus.aside
        self.post = OwnPost(bus.post, post_seconds)
        self.credits, self.mailbox, self.registry = bus.credits, bus.mailbox, bus.registry
        self.leadership = bus.leadership
        self.open, self.close = bus.open, bus.close


def doubled(batch: Batch) -> Answer:
    """Each input twice, so that an answer tells whose it is."""
    return Answer(SECONDS, tuple(each.input[:-1] + each.input[1:] for each in batch.requests))


@dataclass
class Town:
    """Members come with `add_…`, and go as processes do: they stop, or vanish without a word."""

    script: Callable[[Batch], Answer] = doubled
    lease: float = 1.0
    # The one model, `double`.
    model: Model = field(default_factory=lambda: Model(target="sim:1ms", max_batch=16, workers=2))
    batch_sizes: str | tuple[int, ...] = "any"
    max_queue: int = Limits().max_queue
    level: Level = field(default_factory=lambda: Level(0))  # of every tenant
    runs_ahead: bool = True  # whether backends take a batch while they run one
    post_seconds: float = 0.0  # that each message is on its way
    gateways: list[GatewayMember] = field(default_factory=list)
    batchers: list[BatcherMember] = field(default_factory=list)
    workers: list[WorkerMember] = field(default_factory=list)
    backends: list[MockBackend] = field(default_factory=list)
    by_process: dict[str, list[MockBackend]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop, self.clock = loop, loop.time
        redis = Redis(lease=self.lease)
        self.config = Config(
            models={"double": replace(self.model, batch_sizes=self.batch_sizes)},
            redis=redis,
            limits=Limits(max_queue=self.max_queue),
            tiers=Tiers(default="all", levels={"all": self.level}),
        )
        self.bus = MemoryBus(self.clock, heartbeat=redis.heartbeat, lease=redis.lease)
        self.shards = MemoryShards(self.bus, self.clock)
        self.records = MemoryRecords(self.bus, self.clock, self.wall_clock, RateLimiter())

    def wall_clock(self) -> float:
        return WALL + self.clock()

    def config_in(self, zone: str) -> Config:
        return replace(self.config, server=Server(zone=zone)) if zone else self.config

    async def add_gateway(self, zone: str = "") -> GatewayMember:
        remembered = Ended(Clocks(self.clock, self.wall_clock))
        member = GatewayMember(
            self.config_in(zone), self._own_bus(), self.shards, self.records, remembered, lambda model: None,
            remembered, self.loop, self.clock, self.wall_clock,
        )  # fmt: skip
        return await self._add(member, self.gateways)

    async def add_batcher(self, zone: str = "") -> BatcherMember:
        member = BatcherMember(
            self.config_in(zone), self._own_bus(), self.shards, self.records, Observer(), lambda model: None,
            self.loop, self.clock, self.wall_clock,
        )  # fmt: skip
        return await self._add(member, self.batchers)

    async def add_worker(self, zone: str = "") -> WorkerMember:
        member = WorkerMember(
            self.config_in(zone),
            self._own_bus(),
            self.records.endings,
            self._backends,
            Observer(),
            self.loop,
            self.clock,
        )
        return await self._add(member, self.workers)

    def _own_bus(self) -> OwnBus:
        return OwnBus(self.bus, self.post_seconds)

    def _backends(self, model: str, process: str) -> Callable[[int], Backend]:
        def make(number: int) -> Backend:
            backend = MockBackend(self.script, runs_ahead=self.runs_ahead)
            self.backends.append(backend)
            self.by_process.setdefault(process, []).append(backend)
            return backend

        return make

    async def _add(self, member: M, among: list[M]) -> M:
        member.start()
        await member.started
        among.append(member)
        return member

    async def settle_down(self) -> None:
        """Everybody knows everybody, and the shards are shared out."""
        await asyncio.sleep(4 * self.bus.heartbeat)

    async def vanish(self, member: Member) -> None:
        """As if its process were killed: all its loops end, and it says nothing to anybody."""
        assert isinstance(member.bus, OwnBus)
        member.bus.post.dead = True
        if isinstance(member, BatcherMember):
            member._models.close()
        await member.loops.close()

    async def stop(self) -> None:
        for member in (*self.gateways, *self.batchers, *self.workers):
            await member.stop()

    def send(self, gateway: GatewayMember, number: int, timeout: float | None = None) -> Recorder:
        asker = Recorder()
        gateway.gateway.submit(Ask(b'"%d"' % number, "double", timeout=timeout), asker)
        return asker

    def executions(self, worker: WorkerMember | None = None) -> list[bytes]:
        """The inputs that backends were given: all, or those of one worker."""
        backends = self.backends if worker is None else self.by_process[worker.name]
        return [each.input for backend in backends for batch in backend.batches for each in batch.requests]


def right_answer(number: int) -> bytes:
    return b'"%d%d"' % (number, number)


async def replies(askers: list[Recorder]) -> list[Reply]:
    return list(await asyncio.gather(*(asker.answer for asker in askers)))
