"""Small parts for tests over a real Redis: requests, open stores, loops in the background."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from time import monotonic
from typing import Any

import psutil

import redis_servers
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.runtime.collapse.passenger import Passenger
from penstock.words.envelopes import Envelope, decode_envelope
from penstock.words.messages import task_name

_numbers = count()


def ask(text: bytes = b'"x"', *, now: float = 0.0, limit: float = 100.0, task: bool = False) -> Passenger:
    """A request that arrives now."""
    key = f"k{next(_numbers)}"
    return Passenger(key, "model", text, now, now + limit, now + limit, key, length=len(text), task=task)


@asynccontextmanager
async def opened(settings: RedisSettings) -> AsyncIterator[Store]:
    store = await redis_servers.opened(settings)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def running(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """The loops run while the block does; one that fails, fails the test."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop) for loop in loops]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def until(holds: Callable[[], bool | Awaitable[bool]], seconds: float = 60.0) -> None:
    """For what can be seen from outside only."""
    ends = monotonic() + seconds
    while True:
        seen = holds()
        if seen if isinstance(seen, bool) else await seen:
            return
        assert monotonic() < ends, "it never came to hold"
        await asyncio.sleep(0.005)


def run_encrypted(scene: Coroutine[Any, Any, Any], port: int) -> None:
    """TLS takes leave over the wire: the loop must not end before, or its sockets are missed."""

    async def to_the_end() -> None:
        try:
            await scene
        finally:
            await until(lambda: port not in connected_to())

    asyncio.run(to_the_end())


def connected_to() -> set[int]:
    return {each.raddr.port for each in psutil.Process().net_connections("tcp") if each.raddr}


async def envelopes(store: Store, shard: int) -> list[Envelope]:
    """What lies in a shard, the oldest first."""
    entries = await store.commands.execute_command("XRANGE", store.keys.shard(shard), "-", "+")
    return [decode_envelope(fields[b"e"]) for _, fields in entries]


async def all_envelopes(store: Store) -> list[Envelope]:
    return [each for shard in range(store.settings.shards) for each in await envelopes(store, shard)]


def named(request: Passenger) -> str:
    """As a task is called between processes."""
    return task_name(request.tenant, request.request_id)
