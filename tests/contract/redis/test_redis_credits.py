"""Idle slots in line."""

import asyncio
from dataclasses import replace

from penstock.adapters.redis.bus.credits import Credits
from penstock.adapters.redis.link.connect import RedisSettings
from redis_servers import opened


def test_the_slot_that_has_waited_longest_is_taken_first(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        credit = Credits(store)
        for slot in ("c", "a", "b"):
            assert await credit.post("echo", slot)
        assert await credit.waiting("echo") == 3
        assert [await credit.take("echo", 1) for _ in range(3)] == ["c", "a", "b"]
        assert await credit.take("echo", 0.01) is None
        await store.close()

    asyncio.run(body())


def test_a_slot_that_posts_again_keeps_its_place(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        credit = Credits(store)
        await credit.post("echo", "a")
        await credit.post("echo", "b")
        assert not await credit.post("echo", "a")
        assert await credit.take("echo", 1) == "a"
        await credit.post("echo", "a")
        assert [await credit.take("echo", 1) for _ in range(2)] == ["b", "a"]
        await store.close()

    asyncio.run(body())


def test_whoever_waits_for_a_slot_gets_the_one_that_comes(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(replace(redis_settings, block=20.0))
        credit = Credits(store)
        waiters = [asyncio.create_task(credit.take(model, 20)) for model in ("echo", "other")]
        await credit.post("other", "b")
        await credit.post("echo", "a")
        assert await asyncio.gather(*waiters) == ["a", "b"]
        await store.close()

    asyncio.run(body())


def test_a_withdrawn_slot_is_not_taken(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        credit = Credits(store)
        await credit.post("echo", "a")
        await credit.post("echo", "b")
        assert await credit.withdraw("echo", "a")
        assert not await credit.withdraw("echo", "a")
        assert await credit.take("echo", 1) == "b"
        await store.close()

    asyncio.run(body())


def test_a_wait_that_is_given_up_leaves_its_connection_fit_for_the_next(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        store = await opened(replace(redis_settings, block=20.0))
        credit = Credits(store)
        waiter = asyncio.create_task(credit.take("echo", 20))
        while not any(info["blocked_clients"] for info in await store.infos()):
            continue
        waiter.cancel()
        await asyncio.gather(waiter, return_exceptions=True)
        while any(info["blocked_clients"] for info in await store.infos()):
            continue  # until Redis has noticed too: it would give the credit to the one that left
        await credit.post("echo", "a")
        assert await credit.take("echo", 1) == "a"
        await store.close()

    asyncio.run(body())
