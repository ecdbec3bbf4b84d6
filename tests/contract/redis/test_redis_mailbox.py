"""Messages between processes, whatever happens to the connection or to Redis."""

import asyncio

import pytest

from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.link.connect import RedisSettings
from penstock.errors import StoreDown
from redis_servers import KINDS, VALKEY, becomes, opened, patient, redis_server, running


async def until_sent(post: Post, box: str, payload: bytes) -> None:
    """For a box that is about to be made anew."""
    async with asyncio.timeout(60):
        while not await post.send(box, payload):
            continue


def test_what_was_handled_is_trimmed_and_the_rest_is_kept(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        box, post, got = Mailbox(store, "g1"), Post(store), list[bytes]()
        await box.create()
        async with running(box.run(got.append)):
            await post.send_all([("g1", b"%d" % number) for number in range(10)])
            await becomes(lambda: len(got) == 10)
        await post.send("g1", b"unread")
        await box.touch()
        assert await store.commands.execute_command("XLEN", store.keys.box("g1")) == 1
        assert 0 < await store.commands.execute_command("PTTL", store.keys.box("g1")) <= 60_000
        async with running(box.run(got.append)):
            await becomes(lambda: got[-1] == b"unread")
        await store.close()

    asyncio.run(body())


def test_a_box_that_vanished_is_made_anew(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        box, got = Mailbox(store, "g1"), list[bytes]()
        await box.create()
        async with running(box.run(got.append)):
            await Post(store).send("g1", b"before")
            await becomes(lambda: got == [b"before"])
            await store.commands.execute_command("DEL", store.keys.box("g1"))
            await until_sent(Post(store), "g1", b"after")
            await becomes(lambda: got == [b"before", b"after"])
        await store.close()

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS)
def test_broken_connections_lose_nothing(kind: str) -> None:
    async def body(url: str) -> None:
        store = await opened(patient(url))
        box, got = Mailbox(store, "g1"), list[bytes]()
        await box.create()
        async with running(box.run(got.append)):
            for number in range(50):
                await Post(store).send("g1", b"%d" % number)
                if number % 10 == 5:
                    server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await becomes(lambda: bool(got) and got[-1] == b"49")
        assert list(dict.fromkeys(got)) == [b"%d" % number for number in range(50)]
        await store.close()

    with redis_server(kind) as server:
        asyncio.run(body(server.url))


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_with_a_log_loses_nothing(kind: str) -> None:
    async def body(url: str) -> None:
        store = await opened(patient(url))
        box, post, got = Mailbox(store, "g1"), Post(store), list[bytes]()
        await box.create()
        await post.send("g1", b"before")
        await asyncio.to_thread(server.kill)
        async with running(box.run(got.append)):
            waiting = asyncio.create_task(post.send("g1", b"meanwhile"))
            await asyncio.to_thread(server.start)
            assert await waiting
            await post.send("g1", b"after")
            await becomes(lambda: got == [b"before", b"meanwhile", b"after"])
        await store.close()

    with redis_server(kind, "--appendonly", "yes", "--appendfsync", "always") as server:
        asyncio.run(body(server.url))


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_restart_without_its_data_messages_arrive_again(kind: str) -> None:
    async def body(url: str) -> None:
        store = await opened(patient(url))
        box, post, got = Mailbox(store, "g1"), Post(store), list[bytes]()
        await box.create()
        async with running(box.run(got.append)):
            await asyncio.to_thread(server.restart)
            await until_sent(post, "g1", b"after")
            await becomes(lambda: got == [b"after"])
        await store.close()

    with redis_server(kind) as server:
        asyncio.run(body(server.url))


def test_messages_wait_out_a_frozen_redis_and_are_given_up_when_it_stays_so() -> None:
    async def body(url: str) -> None:
        store = await opened(RedisSettings(url, timeout=0.1, block=0.1))
        box, post, got = Mailbox(store, "g1"), Post(store), list[bytes]()
        async with running(box.run(got.append)):
            await until_sent(post, "g1", b"while all is well")
            server.stop()
            with pytest.raises(StoreDown):
                await post.send("g1", b"given up", give_up_after=0.2)
            waiting = asyncio.create_task(post.send_all([("g1", b"1"), ("g1", b"2")]))
            await asyncio.sleep(0.3)  # frozen for longer than a command may take
            server.cont()
            assert await waiting == [True, True]
            await becomes(lambda: {b"1", b"2"} <= set(got))
        await store.close()

    with redis_server(VALKEY) as server:
        asyncio.run(body(server.url))
