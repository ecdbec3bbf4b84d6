"""An installation of a simulation: real gateways, batchers and workers, each a process of its own that can be
killed, stand still or be cut off, over a bus in memory and in virtual time."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from penstock.adapters.memory.bus import MemoryBus, MemoryShards
from penstock.adapters.memory.records import MemoryRecords
from penstock.adapters.observe.ended import Ended
from penstock.adapters.observe.timeline import Clocks
from penstock.cluster.batcher import BatcherMember
from penstock.cluster.gateway import GatewayMember
from penstock.cluster.member import Member
from penstock.cluster.worker import WorkerMember
from penstock.config import Redis, Server
from penstock.core.ratelimit import RateLimiter
from penstock.ports import Backend, Observer
from penstock.ports.observers import RequestObserver
from penstock.types import Batch, WorkerId
from penstock.words.messages import Departed, encode
from seeds.backends import SeededBackend
from seeds.draw import Drawn
from seeds.far_bus import FarBus, FarRecords, count_ages_anew
from seeds.far_shards import FarShards
from seeds.history import History, Sent
from seeds.links import Link, Sea
from seeds.processes import Process, ProcessLoop

WALL = 1_700_000_000.0  # what time of day it was when the loop began
KINDS = {"gateway": GatewayMember, "batcher": BatcherMember, "worker": WorkerMember}


@dataclass(slots=True, eq=False)
class House:
    """One process of the installation."""

    role: str
    zone: str
    process: Process
    link: Link
    member: Any  # once its process has begun
    leaving: bool = False  # whether it was told to end
    over: bool = False  # whether it has ended

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def well(self) -> bool:
        return self.process.alive and not self.leaving

    @property
    def open(self) -> bool:
        """Whether it has started and can be asked."""
        return self.well and self.member is not None and self.member.started.done()


class Watcher(Observer):
    """Notes which batches a batcher sends."""

    def __init__(self, history: History, batcher: str) -> None:
        self._history, self._batcher = history, batcher

    def handed(self, batch: Batch, now: float) -> None:
        """A batch that is handed over, also one that the worker gets ahead."""
        keys = tuple(each.key for each in batch.requests)
        members = tuple((each.tenant, each.input) for each in batch.requests)
        self._history.sent.append(Sent(now, self._batcher, keys, members, batch.ahead))

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        pass


class City:
    def __init__(self, drawn: Drawn, loop: ProcessLoop, rng: Random, history: History) -> None:
        self.drawn, self.loop, self.rng, self.history = drawn, loop, rng, history
        self.clock: Callable[[], float] = loop.time
        redis = drawn.config.redis
        self.bus = MemoryBus(self.clock, heartbeat=redis.heartbeat, lease=redis.lease)
        self.shards = MemoryShards(self.bus, self.clock)._shards
        self.records = MemoryRecords(self.bus, self.clock, self.wall_clock, RateLimiter())
        self.sea = Sea(rng)
        self.houses: list[House] = []
        self.backends: list[SeededBackend] = []
        self.begins_at: float | None = None  # when clients begin to come; None: as the seed says
        self.keeper: Callable[[City], Coroutine[None, None, None]] | None = None  # looks after the processes
        self.calm = False  # whether no backend may fail any more
        self._numbers = count(1)

    def wall_clock(self) -> float:
        return WALL + self.clock()

    def of(self, role: str, *, open_only: bool = True) -> list[House]:
        return [each for each in self.houses if each.role == role and (each.open if open_only else each.well)]

    # ---- who comes -----------------------------------------------------------------------------------------

    def build(self) -> None:
        zones = self.drawn.zones or ("",)
        numbers = {
            "worker": self.drawn.workers, "batcher": self.drawn.batchers, "gateway": self.drawn.gateways,
        }  # fmt: skip
        for role, number in numbers.items():
            for each in range(number):
                self.add(role, zones[each % len(zones)])

    def add(self, role: str, zone: str = "") -> House:
        name = f"{role}{next(self._numbers)}"
        process = Process(self.loop, name)
        house = House(role, zone, process, Link(self.sea, process), None)
        self.houses.append(house)
        process.soon(self._begin, house)
        return house

    def _begin(self, house: House) -> None:
        member: Member = getattr(self, f"_make_{house.role}")(house)
        house.member = member
        # A name that no other process ever had, and that is the same in every replay.
        member.start()

    def _config(self, house: House) -> Any:
        redis: Redis = replace(self.drawn.config.redis, name=house.name)
        return replace(self.drawn.config, redis=redis, server=Server(zone=house.zone))

    def _parts(self, house: House) -> tuple[FarBus, FarShards, FarRecords]:
        bus = FarBus(self.bus, house.link, self.clock)
        shards = FarShards(self.shards, house.link, self.clock, bus.aside, self.bus.heartbeat, self.bus.lease)
        return bus, shards, FarRecords(self.records, house.link, self.clock)

    def _make_gateway(self, house: House) -> GatewayMember:
        bus, shards, records = self._parts(house)
        remembered: RequestObserver = Ended(Clocks(self.clock, self.wall_clock))
        return GatewayMember(
            self._config(house), bus, shards, records, remembered, lambda model: None,
            remembered, self.loop, self.clock, self.wall_clock,  # type: ignore[arg-type]
        )  # fmt: skip

    def _make_batcher(self, house: House) -> BatcherMember:
        bus, shards, records = self._parts(house)
        return BatcherMember(
            self._config(house), bus, shards, records, Watcher(self.history, house.name), lambda model: None,
            self.loop, self.clock, self.wall_clock,
        )  # fmt: skip

    def _make_worker(self, house: House) -> WorkerMember:
        bus, _, records = self._parts(house)
        return WorkerMember(
            self._config(house), bus, records.endings, lambda model, process: self._backends(house),
            Observer(), self.loop, self.clock,
        )  # fmt: skip

    def _backends(self, house: House) -> Callable[[int], Backend]:
        def make(number: int) -> Backend:
            backend = SeededBackend(self.drawn, self.rng, self.history, house.name, number)
            backend.troubled = not self.calm
            self.backends.append(backend)
            return backend

        return make

    # ---- who goes ------------------------------------------------------------------------------------------

    def kill(self, house: House) -> None:
        self.history.trouble(0.0, house.name, "killed")
        house.process.kill()
        if self.drawn.obituaries and house.member is not None:
            self._tell_of(house)

    def _tell_of(self, house: House) -> None:
        """What a supervisor does that saw a process die."""
        kind: Any = f"{house.role}s"
        name = house.member.name
        self.bus._registry.said[kind].pop(name, None)
        self.bus._boxes.remove(name)
        for shard in self.shards.every:
            if shard.owner == name:
                shard.release(name, shard.fence)
        word = encode(Departed(kind, name))
        for other in self.houses:
            if other.process.alive and other.member is not None:
                self.bus._boxes.put(other.member.name, word)

    def drain(self, house: House) -> None:
        """SIGTERM."""
        house.leaving = True
        self.history.note(f"{house.name}: told to end")
        house.process.spawn(self._end(house))

    async def _end(self, house: House) -> None:
        member: Member = house.member
        if member.started.done():
            member.retire()
            if not await member.drain(30.0):
                self.history.note(f"{house.name}: not drained in time")
                member.abandon()
        await member.stop()
        house.over = True
        self.history.note(f"{house.name}: has ended")

    def bus_away(self, away: bool) -> None:
        self.sea.away = away
        if not away:
            count_ages_anew(self.bus, self.clock())
