"""What every store of answers promises, in memory and over Redis, Valkey and a cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from os import urandom
from time import monotonic
from uuid import uuid4

import pytest
from redis_kit import opened, until

from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.records.answer_cache import RedisAnswers
from penstock.errors import StoreDown
from penstock.ports.records import AnswerStore
from penstock.runtime.collapse.shared_answers import SharedAnswers
from penstock.testing import MockAnswerStore
from redis_servers import KINDS, VALKEY, patient, redis_server, running

MEMORY = "memory"

Play = Callable[[AnswerStore], Awaitable[None]]


@pytest.fixture(params=[MEMORY, *KINDS, "cluster"])
def play(request: pytest.FixtureRequest, redis_urls: dict[str, str]) -> Callable[[Play], None]:
    """Runs a scene with a store of each kind."""
    url = "" if request.param == MEMORY else redis_urls[request.param]

    async def body(scene: Play) -> None:
        async with made(url) as answers:
            await scene(answers)

    return lambda scene: asyncio.run(body(scene))


@asynccontextmanager
async def made(url: str) -> AsyncIterator[AnswerStore]:
    if not url:
        yield MockAnswerStore(monotonic)
        return
    async with opened(patient(url, namespace=f"test-{uuid4().hex[:8]}")) as store:
        yield RedisAnswers(store)


def test_what_was_kept_is_found_and_nothing_else(play: Callable[[Play], None]) -> None:
    async def scene(answers: AnswerStore) -> None:
        kept = {urandom(32): urandom(200) for _ in range(100)}
        await answers.keep([(fingerprint, value, 60.0) for fingerprint, value in kept.items()])
        asked = [urandom(32), *kept, urandom(32)]
        assert list(await answers.fetch(asked)) == [None, *kept.values(), None]
        assert list(await answers.fetch([])) == []
        await answers.keep([])

    play(scene)


def test_a_value_may_hold_any_bytes_or_none_and_the_last_one_counts(play: Callable[[Play], None]) -> None:
    async def scene(answers: AnswerStore) -> None:
        one, two = urandom(32), b"\x00\r\n}{" + bytes(27)
        await answers.keep([(one, b"", 60.0), (two, b"first", 60.0)])
        await answers.keep([(two, b"\r\n\x00\xff", 60.0)])
        assert list(await answers.fetch([one, two])) == [b"", b"\r\n\x00\xff"]

    play(scene)


def test_what_is_kept_is_gone_when_its_time_is_over(play: Callable[[Play], None]) -> None:
    async def scene(answers: AnswerStore) -> None:
        short, long = urandom(32), urandom(32)
        await answers.keep([(short, b"1", 0.05), (long, b"2", 600.0)])

        async def only_the_long() -> bool:
            return list(await answers.fetch([short, long])) == [None, b"2"]

        await until(only_the_long)

    play(scene)


def test_installations_that_share_a_redis_do_not_share_answers(redis_urls: dict[str, str]) -> None:
    async def body() -> None:
        fingerprint = urandom(32)
        async with made(redis_urls[VALKEY]) as one, made(redis_urls[VALKEY]) as two:
            await one.keep([(fingerprint, b"1", 60.0)])
            assert list(await two.fetch([fingerprint])) == [None]

    asyncio.run(body())


def test_whatever_redis_has_against_a_command_only_means_that_there_is_no_cache() -> None:
    async def scene(store: Store, answers: RedisAnswers) -> None:
        fingerprint = urandom(32)
        await store.commands.execute_command("CONFIG SET", "maxmemory", "1")
        with pytest.raises(StoreDown):  # unlike what keeps the books, it is not written when memory is full
            await answers.keep([(fingerprint, b"1", 60.0)])
        await store.commands.execute_command("CONFIG SET", "maxmemory", "0")
        await store.commands.execute_command("ACL SETUSER", "default", "-mget", "-evalsha", "-eval")
        with pytest.raises(StoreDown):
            await answers.fetch([fingerprint])
        with pytest.raises(StoreDown):
            await answers.keep([(fingerprint, b"1", 60.0)])

    async def body() -> None:
        with redis_server(VALKEY) as server:
            async with opened(patient(server.url)) as store:
                await scene(store, RedisAnswers(store))

    asyncio.run(body())


def test_while_redis_is_dead_or_stopped_lookups_are_bypassed_and_then_served_again() -> None:
    async def body() -> None:
        with redis_server(VALKEY) as server:
            async with opened(patient(server.url)) as store:
                shared = SharedAnswers[object](
                    RedisAnswers(store), monotonic, max_entries=100, max_bytes=1 << 20, has_room=lambda: True
                )
                seen: list[tuple[bytes | None, bool]] = []
                shared.on_looked_up = lambda lookups, *, bypassed: seen.append((lookups[0][1], bypassed))
                fingerprint = urandom(32)

                async def look_up() -> tuple[bytes | None, bool]:
                    seen.clear()
                    await until(lambda: not shared.resting)
                    shared.look_up(fingerprint, "who")
                    await until(lambda: bool(seen))
                    return seen[0]

                async def found() -> bool:
                    shared.keep(
                        fingerprint, b"1", 600.0
                    )  # what could not be written in time is not written later
                    return await look_up() == (b"1", False)

                async with running(shared.run()):
                    await until(found)
                    server.stop()
                    assert await look_up() == (None, True)
                    server.cont()
                    await until(found)
                    server.kill()
                    assert await look_up() == (None, True)

    asyncio.run(body())
