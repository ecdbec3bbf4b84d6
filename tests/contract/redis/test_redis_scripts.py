"""Each script on its own, on every kind of server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from penstock.adapters.redis.bus import scripts
from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.link.scripts import Script
from penstock.errors import StoreDown
from redis_servers import KINDS, patient, redis_server


def over(settings: RedisSettings, body: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        store = Store(settings)
        try:
            await store.open()
            await body(store)
        finally:
            await store.close()

    asyncio.run(run())


def test_a_script_runs_before_and_after_the_server_has_seen_it(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        script = Script("return {KEYS[1], ARGV[1]}")
        key = store.keys.task("1")
        for _ in range(2):
            assert await script(store.commands, [key], ["x"]) == [key.encode(), b"x"]
        await store.commands.execute_command("SCRIPT FLUSH")
        assert await script(store.commands, [key], ["x"]) == [key.encode(), b"x"]

    over(redis_settings, body)


def test_many_calls_are_answered_in_order_wherever_their_keys_are(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        script = Script("return ARGV[1]")
        calls = [([store.keys.lease(shard)], [shard]) for shard in range(16)]
        for _ in range(2):
            assert await script.each(store, calls) == [str(shard).encode() for shard in range(16)]
        assert await script.each(store, []) == []

    over(redis_settings, body)


def test_one_call_of_many_that_fails_leaves_the_others_their_answers(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        script = Script("return redis.call('INCR', KEYS[1])")
        await store.commands.execute_command("SET", store.keys.lease(1), "no number")
        first, second, third = await script.each(
            store, [([store.keys.lease(shard)], []) for shard in range(3)]
        )
        assert (first, third) == (1, 1)
        assert isinstance(second, Exception)

    over(redis_settings, body)


async def beat(store: Store, kind: int, me: str, text: str = "{}", lease: int = 2000) -> list[Any]:
    keys = [store.keys.registry(name) for name in ("pulse", "models", "gateways", "batchers", "workers")]
    answer: list[Any] = await scripts.BEAT(store.commands, keys, [kind, me, text, lease, 60_000])
    return answer[:-1]


def test_a_beat_tells_the_members_of_every_kind(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        await store.commands.execute_command("HSET", store.keys.registry("models"), "echo", "[]")
        await beat(store, 1, "g1", '{"a": 1}')
        _, models, gateways, batchers, workers = await beat(store, 3, "w1")
        assert models == [b"echo", b"[]"]
        assert (gateways[0], gateways[2]) == (b"g1", b'{"a": 1}')
        assert gateways[1] >= 0
        assert batchers == []
        assert (workers[0], workers[2]) == (b"w1", b"{}")

    over(redis_settings, body)


async def server_now(store: Store) -> int:
    seconds, micros = await Script("return redis.call('TIME')")(
        store.commands, [store.keys.registry("pulse")]
    )
    return int(seconds) * 1000 + int(micros) // 1000


async def pretend(store: Store, *, last: int, since: int, stamp: int) -> None:
    """A member `w1` that has beaten at `stamp`, in a service with this pulse."""
    await store.commands.execute_command("HSET", store.keys.registry("pulse"), "last", last, "since", since)
    await store.commands.execute_command("HSET", store.keys.registry("workers"), "w1", f"{stamp} {{}}")


def test_a_silent_member_ages_while_others_beat(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        now = await server_now(store)
        await pretend(store, last=now - 400, since=now - 20_000, stamp=now - 5_000)
        unbroken, _, _, _, workers = await beat(store, 1, "g1", lease=60_000)
        assert unbroken >= 20_000
        assert workers[1] >= 5_000

    over(redis_settings, body)


@pytest.mark.parametrize("gap", [5_000, 3_600_000, -3_600_000])
def test_when_nobody_could_beat_all_ages_begin_anew(redis_settings: RedisSettings, gap: int) -> None:
    """Stopped for a while, a clock an hour ahead on the next primary, and one an hour behind."""

    async def body(store: Store) -> None:
        then = await server_now(store) - gap
        await pretend(store, last=then, since=then - 20_000, stamp=then)
        unbroken, _, _, _, workers = await beat(store, 1, "g1")
        assert unbroken == 0
        assert workers[:2] == [b"w1", 0]

    over(redis_settings, body)


def test_a_member_silent_for_a_minute_is_forgotten(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        now = await server_now(store)
        await pretend(store, last=now, since=now - 90_000, stamp=now - 61_000)
        assert (await beat(store, 1, "g1", lease=60_000))[4] == []
        assert await store.commands.execute_command("EXISTS", store.keys.registry("workers")) == 0

    over(redis_settings, body)


def test_only_the_owner_renews_and_releases_and_the_fence_grows(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        client, lease, fence = store.commands, store.keys.lease(0), store.keys.fence(0)
        assert await scripts.LEASE_TAKE(client, [lease, fence], ["a:1", 50_000]) == 1
        assert await scripts.LEASE_TAKE(client, [lease, fence], ["a:1", 50_000]) == 1
        assert await scripts.LEASE_TAKE(client, [lease, fence], ["b", 50_000]) == 0
        assert await scripts.LEASE_RENEW(client, [lease], ["b", 1, 5000]) == 0
        assert await scripts.LEASE_RENEW(client, [lease], ["a:1", 1, 90_000]) == 1
        assert await client.execute_command("PTTL", lease) > 50_000
        assert await scripts.LEASE_RELEASE(client, [lease], ["b", 1]) == 0
        assert await scripts.LEASE_RELEASE(client, [lease], ["a:1", 1]) == 1
        assert await scripts.LEASE_RENEW(client, [lease], ["a:1", 1, 5000]) == 0
        assert await scripts.LEASE_TAKE(client, [lease, fence], ["b", 50_000]) == 2
        assert await client.execute_command("GET", lease) == b"b:2"

    over(redis_settings, body)


def test_a_consumer_with_pending_entries_is_not_dropped(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        client, stream = store.commands, store.keys.shard(0)
        assert await scripts.DROP_CONSUMER(client, [stream], ["batchers", "b1"]) == 0
        await client.execute_command("XGROUP CREATE", stream, "batchers", "0", "MKSTREAM")
        entry = await client.execute_command("XADD", stream, "*", "e", "1")
        where = await store.at(client, stream)
        read = ("XREADGROUP", "GROUP", "batchers", "b1", "STREAMS", stream, ">")
        assert await client.execute_command(*read, **where)
        assert await scripts.DROP_CONSUMER(client, [stream], ["batchers", "b1"]) == 0
        assert await scripts.ACK(client, [stream], ["batchers", entry]) == 1
        assert await scripts.DROP_CONSUMER(client, [stream], ["batchers", "b1"]) == 1
        assert await client.execute_command("XINFO CONSUMERS", stream, "batchers") == []

    over(redis_settings, body)


def test_acknowledged_entries_leave_the_stream_however_many(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        client, stream = store.commands, store.keys.shard(0)
        await client.execute_command("XGROUP CREATE", stream, "batchers", "0", "MKSTREAM")
        filled = Script(
            "local ids = {} for i = 1, 2500 do ids[i] = redis.call('XADD', KEYS[1], '*', 'e', i) end return ids"
        )
        ids = await filled(client, [stream])
        where = await store.at(client, stream)
        await client.execute_command("XREADGROUP", "GROUP", "batchers", "b1", "STREAMS", stream, ">", **where)
        assert await scripts.ACK(client, [stream], ["batchers", *ids]) == 2500
        assert await client.execute_command("XLEN", stream) == 0
        assert (await client.execute_command("XPENDING", stream, "batchers"))["pending"] == 0

    over(redis_settings, body)


@pytest.mark.parametrize("kind", KINDS)
def test_the_books_are_kept_while_the_memory_is_full(kind: str) -> None:
    async def body(store: Store) -> None:
        client = store.commands
        await client.execute_command("CONFIG SET", "maxmemory", "100kb")  # less than it uses already
        with pytest.raises(OutOfMemoryError):
            await client.execute_command("SET", "one", "more")
        assert len((await beat(store, 3, "w1"))[4]) == 3
        taken = [store.keys.lease(0), store.keys.fence(0)]
        assert await scripts.LEASE_TAKE(client, taken, ["b1", 50_000]) == 1
        assert await scripts.LEASE_RENEW(client, taken[:1], ["b1", 1, 50_000]) == 1
        assert await scripts.CREDIT_POST(client, [store.keys.idle("echo")], ["w1/0"]) == 1
        assert await scripts.BOX_CREATE(client, [store.keys.box("g1")], [60_000])
        with pytest.raises(StoreDown):
            await Post(store).send("g1", b"x", give_up_after=0)

    with redis_server(kind) as server:
        over(patient(server.url), body)
