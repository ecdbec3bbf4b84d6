"""Dead letters."""

import asyncio
import time

import pytest
from redis_kit import ask, opened, until

from penstock.adapters.redis.link.connect import RedisSettings
from penstock.adapters.redis.records.dead_letters import RedisLetters
from penstock.adapters.redis.records.holdings import letters as bounds
from penstock.core.dead_letters import letter_of
from penstock.errors import NotFound, StoreDown
from penstock.types import Attempt, DeadLetter, Failure, GivenUp, Outcome
from redis_servers import VALKEY, patient, redis_server

BROKEN = Failure("BACKEND_CRASHED", "it died", "over this input")


def given_up(text: bytes = b'"x"', *, task: bool = False, tenant: str = "anna") -> DeadLetter:
    request = ask(text, task=task)
    request.tenant, request.tier = tenant, 2
    request.parameters, request.cost = b"{}", 7.0
    history = (Attempt(time.monotonic(), "BACKEND_FAILED", "no", "", "w/0", 4, splittable=True),)
    return letter_of(
        GivenUp(request, Outcome.FAILED, failure=BROKEN, executions=3, history=history),
        time.time() - time.monotonic(),
    )


@pytest.mark.parametrize("letter_id", ["", "-", "+", "1", "1-", "(1-1", "1-x", "x-1", "1-1-1", "9-9"])
def test_what_is_no_letters_id_is_not_found(letter_id: str, redis_urls: dict[str, str]) -> None:
    async def body() -> None:
        async with opened(patient(redis_urls[VALKEY], namespace="letters")) as store:
            letters = RedisLetters(store)
            await letters.add([given_up()])
            for attempt in (letters.show(letter_id), letters.remove(letter_id)):
                with pytest.raises(NotFound):
                    await attempt

    asyncio.run(body())


def test_the_oldest_make_room(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            letters = RedisLetters(store, bounds(3))
            written = [given_up() for _ in range(5)]
            for letter in written:
                await letters.add([letter])
            assert [each.key for each in await letters.list()] == [each.key for each in written[:1:-1]]

    asyncio.run(body())


KIB = 1024


async def die(letters: RedisLetters, tenant: str, size: int, number: int = 1) -> int:
    """Letters of so many bytes, one after the other. How many made room for them."""
    return sum([await letters.add([given_up(b"x" * size, tenant=tenant)]) for _ in range(number)])


async def tenants(letters: RedisLetters) -> list[str]:
    return [letter.tenant for letter in await letters.list(1000)]


def test_a_tenants_oldest_letters_make_room_for_its_own_and_for_nobody_elses(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            letters = RedisLetters(store, bounds(100, 100 * KIB, 0.4))
            assert await die(letters, "modest", 100) == 0
            assert await die(letters, "greedy", 9 * KIB, 20) == 17  # of 10 KiB and a little each
            assert await tenants(letters) == ["greedy"] * 3 + ["modest"]
            assert await die(letters, "modest", 100) == 0

    asyncio.run(body())


def test_many_tenants_together_stay_within_the_bounds(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            letters = RedisLetters(store, bounds(10, 1000 * KIB, 0.4))
            for number in range(15):
                await die(letters, f"tenant {number}", 100)
            assert await tenants(letters) == [f"tenant {number}" for number in range(14, 4, -1)]

    asyncio.run(body())


def test_what_is_removed_purged_or_deleted_by_hand_makes_room(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            letters, redis = RedisLetters(store, bounds(100, 100 * KIB, 0.4)), store.commands
            assert await die(letters, "anna", 9 * KIB, 3) == 0
            first, second, _ = await letters.list()
            await letters.remove(first.id)
            assert await die(letters, "anna", 9 * KIB) == 0
            await redis.execute_command("XDEL", store.keys.dlq, second.id)
            assert await die(letters, "anna", 9 * KIB) == 0
            assert await die(letters, "anna", 9 * KIB) == 1
            assert await letters.purge() == 3
            assert await die(letters, "anna", 9 * KIB, 3) == 0
            await redis.execute_command("DEL", store.keys.dlq)
            assert await die(letters, "anna", 9 * KIB, 4) == 1
            await redis.execute_command("DEL", store.keys.letters_held)
            assert await die(letters, "anna", 9 * KIB) == 1

    asyncio.run(body())


def test_letters_of_the_version_before_are_listed_and_counted(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            letters = RedisLetters(store, bounds(100, 100 * KIB))
            await die(letters, "", 90 * KIB)
            [entry] = await store.commands.execute_command("XRANGE", store.keys.dlq, "-", "+")
            await letters.purge()
            await store.commands.execute_command("XADD", store.keys.dlq, "*", "d", entry[1][b"d"])
            assert await tenants(letters) == [""]
            assert await die(letters, "anna", 9 * KIB) == 1
            assert await tenants(letters) == ["anna"]

    asyncio.run(body())


def test_a_letter_goes_when_its_time_is_over(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            letters = RedisLetters(store, ttl=0.05)
            await die(letters, "anna", 10)

            async def none() -> bool:
                return await letters.list() == []

            await until(none)
            await die(letters, "bert", 10)
            left = await store.commands.execute_command("PTTL", store.keys.dlq)
            assert left <= 50  # so that nothing is left behind where nobody dies and nobody looks

    asyncio.run(body())


def test_what_a_newer_version_wrote_is_passed_over(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            letters = RedisLetters(store)
            for text in (b"\x02new", b"\x01cut", b""):
                await store.commands.execute_command("XADD", store.keys.dlq, "*", "d", text)
            await letters.add([given_up()])
            assert len(await letters.list()) == 1

    asyncio.run(body())


def test_a_redis_that_is_away_is_said_to_be() -> None:
    async def body() -> None:
        with redis_server(VALKEY) as server:
            async with opened(patient(server.url)) as store:
                letters = RedisLetters(store)
                server.kill()
                for attempt in (letters.add([given_up()]), letters.list(), letters.purge()):
                    with pytest.raises(StoreDown):
                        await attempt

    asyncio.run(body())
