"""What has happened when a request counts as accepted."""

import asyncio
from dataclasses import replace
from functools import partial
from time import monotonic

import pytest
from redis_kit import all_envelopes, ask, opened, running

from penstock.adapters.redis.bus import publisher as publisher_module
from penstock.adapters.redis.bus.durability import Appender
from penstock.adapters.redis.bus.publisher import Publisher
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.errors import StoreDown
from redis_servers import REDIS, VALKEY, Server, patient, redis_server

LOGGED = ("--appendonly", "yes")


def calls(server: Server, command: str) -> int:
    with server.client() as client:
        return int(client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])


async def length(store: Store, key: str) -> int:
    return int(await store.commands.execute_command("XLEN", key))


async def append(store: Store, *bodies: bytes, seconds: float = 20.0) -> int:
    """How many entries there are afterwards."""
    key = store.keys.shard(3)
    await Appender(store, seconds).append(key, bodies)
    return await length(store, key)


def test_memory_asks_for_nothing_but_the_entry(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            assert await append(store, b"a") == 1
            assert await append(store, b"b", b"c") == 3

    asyncio.run(body())


def test_fsync_waits_for_the_disk() -> None:
    async def body(server: Server) -> None:
        async with opened(patient(server.url, durability="fsync")) as store:
            assert await append(store, b"a", b"b") == 2
        assert calls(server, "waitaof") == 1

    with redis_server(VALKEY, *LOGGED) as server:
        asyncio.run(body(server))


@pytest.mark.parametrize("kind", [VALKEY, REDIS])
def test_fsync_needs_no_waiting_where_every_write_is_synced_before_its_answer(kind: str) -> None:
    async def body(server: Server) -> None:
        async with opened(patient(server.url, durability="fsync")) as store:
            assert await append(store, b"a") == 1
        assert calls(server, "waitaof") == 0

    with redis_server(kind, *LOGGED, "--appendfsync", "always") as server:
        asyncio.run(body(server))


def test_a_log_that_was_switched_off_meanwhile_is_no_acceptance() -> None:
    async def body(server: Server) -> None:
        async with opened(patient(server.url, durability="fsync")) as store:
            server.command("CONFIG", "SET", "appendonly", "no")
            with pytest.raises(StoreDown):
                await append(store, b"a")

    with redis_server(VALKEY, *LOGGED) as server:
        asyncio.run(body(server))


def test_replica_waits_until_another_server_has_it(redis_urls: dict[str, str]) -> None:
    async def body() -> None:
        settings = patient(redis_urls["cluster"], namespace="replicated", durability="replica")
        async with opened(settings) as store:
            assert await append(store, b"a", b"b") == 2
            appender = Appender(store, 20.0)
            for shard in range(settings.shards):  # on every node of the cluster
                await appender.append(store.keys.shard(shard), [b"x"])

    asyncio.run(body())


@pytest.mark.parametrize("kind", [VALKEY, REDIS])
def test_too_few_replicas_in_time_is_no_acceptance(kind: str, redis_urls: dict[str, str]) -> None:
    async def body() -> None:
        settings = patient(redis_urls[kind], namespace="lonely", durability="replica")
        async with opened(settings) as store:
            with pytest.raises(StoreDown):
                await append(store, b"a", seconds=0.05)

    asyncio.run(body())


def test_more_replicas_than_a_cluster_has_are_never_reached(redis_urls: dict[str, str]) -> None:
    async def body() -> None:
        settings = patient(redis_urls["cluster"], namespace="greedy", durability="replica")
        async with opened(replace(settings, replicas=2)) as store:
            with pytest.raises(StoreDown):
                await append(store, b"a", seconds=0.05)

    asyncio.run(body())


def test_a_publisher_does_not_stand_still_while_it_waits_for_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publisher_module, "Appender", partial(Appender, seconds=20.0))  # a disk may be slow

    async def body(server: Server) -> None:
        async with opened(patient(server.url, durability="fsync")) as store:
            publisher = Publisher(store, "gateway", monotonic)
            async with running(publisher.run()):
                sent = [ask() for _ in range(200)]
                waiting = []
                for request in sent:
                    waiting.append(asyncio.ensure_future(publisher.accepted(request)))
                    await asyncio.sleep(0.0005)
                await asyncio.gather(*waiting)
                keys = [wire.key for each in await all_envelopes(store) for wire in each.requests]
                assert sorted(keys) == sorted(request.key for request in sent)

    with redis_server(VALKEY, *LOGGED) as server:
        asyncio.run(body(server))


def test_a_publisher_whose_requests_are_not_safe_in_time_is_down(redis_urls: dict[str, str]) -> None:
    async def body() -> None:
        settings = patient(
            redis_urls[VALKEY], namespace="unsafe", durability="replica", block=0.05, timeout=0.3
        )
        async with opened(settings) as store:
            publisher = Publisher(store, "gateway", monotonic)
            async with running(publisher.run()):
                with pytest.raises(StoreDown):
                    await publisher.accepted(ask())
                assert publisher.down

    asyncio.run(body())
