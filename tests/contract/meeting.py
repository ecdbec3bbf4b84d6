"""Where processes meet: bus, shards and records, in memory and over a Redis. The contract tests run on each."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic, time
from typing import Protocol
from uuid import uuid4

from penstock.adapters.memory.bus import MemoryBus, MemoryShards
from penstock.adapters.memory.records import MemoryRecords
from penstock.adapters.redis.bus.bus import RedisBus
from penstock.adapters.redis.bus.shards import RedisShards
from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.records import holdings
from penstock.adapters.redis.records.records import Keep, RedisRecords
from penstock.core.ratelimit import RateLimiter
from penstock.ports.bus import Bus
from penstock.ports.records import Records
from penstock.ports.shards import Shards
from redis_servers import KINDS, opened, patient

MEMORY = "memory"
EVERYWHERE = (MEMORY, *KINDS, "cluster")
LONG = 60.0  # seconds of a lease that no machine is slow enough to miss


@dataclass
class Meeting:
    bus: Bus
    shards: Shards
    records: Records


Meet = Callable[..., AbstractAsyncContextManager[Meeting]]
Scene = Callable[[Meeting], Awaitable[None]]


def meet_at(url: str) -> Meet:
    """`url` is empty for a bus in memory. What is made then takes seconds: `ttl` for what is kept, `lease` and
    `heartbeat` for members."""

    @asynccontextmanager
    async def meet(
        *, ttl: float = 60.0, lease: float = LONG, heartbeat: float = 0.1
    ) -> AsyncIterator[Meeting]:
        if not url:
            bus = MemoryBus(monotonic, heartbeat=heartbeat, lease=lease)
            records = MemoryRecords(bus, monotonic, time, RateLimiter(), ttl=ttl)
            yield Meeting(bus, MemoryShards(bus, monotonic), records)
            return
        settings = patient(url, namespace=f"test-{uuid4().hex[:8]}")
        store = await opened(replace(settings, lease=lease, heartbeat=heartbeat, block=0.2))
        try:
            yield meeting_over(store, ttl)
        finally:
            await store.close()

    return meet


def meeting_over(store: Store, ttl: float = 60.0) -> Meeting:
    bus = RedisBus(store)
    keep = Keep(
        tasks=holdings.tasks(),
        keyed=holdings.keyed(),
        letters=holdings.letters(),
        results=ttl,
        keys=ttl,
        dead=ttl,
    )
    return Meeting(bus, RedisShards(store), RedisRecords(store, bus.post, keep))


class Play(Protocol):
    def __call__(self, scene: Scene, *, ttl: float = ..., lease: float = ..., heartbeat: float = ...) -> None:
        """Plays it to its end."""
        ...


def player(meet: Meet) -> Play:
    def play(scene: Scene, **seconds: float) -> None:
        async def body() -> None:
            async with meet(**seconds) as meeting:
                await scene(meeting)

        asyncio.run(body())

    return play
