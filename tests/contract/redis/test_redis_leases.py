"""Batchers share the shards, and take over those of a dead one."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from penstock.adapters.redis.bus.leases import Leases
from penstock.adapters.redis.link.connect import RedisSettings, Store
from redis_servers import KINDS, Server, becomes, opened, redis_server, running

ALL = frozenset(range(16))


def quick(settings: RedisSettings, lease: float = 0.4) -> RedisSettings:
    return replace(settings, lease=lease, heartbeat=0.1, block=0.2)


def lasting(settings: RedisSettings) -> RedisSettings:
    """For leases that are not to run out, though the machine may stand still for a moment."""
    return quick(settings, lease=60.0)


class Batcher:
    """Holds leases, and keeps its own account of them from what it is told."""

    def __init__(self, store: Store, name: str, alive: set[str]) -> None:
        self.leases = Leases(store, name, lambda: alive)
        self.told: set[int] = set()
        self.leases.on_gained = self.told.add
        self.leases.on_lost = self.told.remove


def shared(batchers: Iterable[Batcher], counts: list[int]) -> bool:
    """Every shard has one owner, and each owner its number of them."""
    owned = [batcher.leases.owned for batcher in batchers]
    assert sum(map(len, owned)) == len(frozenset().union(*owned)), "a shard has two owners"
    return sorted(map(len, owned)) == counts


def test_one_batcher_has_all_shards_and_a_second_and_third_their_share(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(quick(redis_settings))
        alive = {"a"}
        a, b, c = (Batcher(store, name, alive) for name in "abc")
        async with running(a.leases.run()):
            await becomes(lambda: a.leases.owned == ALL)
            alive.add("b")
            async with running(b.leases.run()):
                await becomes(lambda: shared((a, b), [8, 8]))
                alive.add("c")
                async with running(c.leases.run()):
                    await becomes(lambda: shared((a, b, c), [5, 5, 6]))
                    assert all(batcher.told == batcher.leases.owned for batcher in (a, b, c))
                    alive.remove("c")
                    await c.leases.release_all()
                    await becomes(lambda: shared((a, b), [8, 8]))
                    assert not c.told
        await store.close()

    asyncio.run(body())


def test_once_shared_nothing_moves(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(lasting(redis_settings))
        alive = {"a", "b"}
        a, b = (Batcher(store, name, alive) for name in "ab")
        async with running(a.leases.run(), b.leases.run()):
            await becomes(lambda: shared((a, b), [8, 8]))
            owned = a.leases.owned
            fences = {shard: a.leases.fence(shard) for shard in owned}
            for _ in range(5):
                await a.leases.step()
                await b.leases.step()
            assert a.leases.owned == owned
            assert fences == {shard: a.leases.fence(shard) for shard in owned}
        await store.close()

    asyncio.run(body())


def test_the_shards_of_a_dead_batcher_are_taken_over_with_a_higher_fence(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        store, brief = await opened(lasting(redis_settings)), await opened(quick(redis_settings))
        alive = {"a", "b"}
        a, b = Batcher(store, "a", alive), Batcher(brief, "b", alive)
        async with running(a.leases.run()):
            async with running(b.leases.run()):
                await becomes(lambda: shared((a, b), [8, 8]))
            fences = {shard: b.leases.fence(shard) for shard in b.leases.owned}  # died without giving back
            alive.remove("b")
            await becomes(lambda: a.leases.owned == ALL)
            assert all(a.leases.fence(shard) > fence for shard, fence in fences.items())
            await b.leases.step()
            assert not b.leases.owned
        await store.close()
        await brief.close()

    asyncio.run(body())


def test_a_batcher_that_was_paused_learns_that_its_shards_are_gone(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        brief, store = await opened(quick(redis_settings)), await opened(lasting(redis_settings))
        a, b = Batcher(brief, "a", {"a"}), Batcher(store, "b", {"b"})
        await a.leases.step()
        assert a.leases.owned == ALL
        async with running(b.leases.run()):
            await becomes(lambda: b.leases.owned == ALL)
            await a.leases.step()
            assert not a.leases.owned
            assert not a.told
        await store.close()
        await brief.close()

    asyncio.run(body())


async def until_lost(server: Server, fault: str) -> None:
    if fault == "frozen":
        server.stop()
    else:
        await asyncio.to_thread(server.kill)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["frozen", "killed"])
def test_leases_end_on_time_without_redis_and_come_back_with_it(kind: str, fault: str) -> None:
    async def body(url: str) -> None:
        stores = [await opened(quick(RedisSettings(url, timeout=0.2))) for _ in range(2)]
        a, b = (Batcher(store, name, {"a", "b"}) for store, name in zip(stores, "ab", strict=True))
        async with running(a.leases.run(), b.leases.run()):
            await becomes(lambda: shared((a, b), [8, 8]))
            owned = a.leases.owned
            await until_lost(server, fault)
            await becomes(lambda: not a.leases.owned and not b.leases.owned)
            if fault == "frozen":
                server.cont()
            else:
                await asyncio.to_thread(server.start)
            await becomes(lambda: shared((a, b), [8, 8]))
            assert a.leases.owned == owned
        for store in stores:
            await store.close()

    with redis_server(kind) as server:
        asyncio.run(body(server.url))
