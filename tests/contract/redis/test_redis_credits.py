"""Idle slots in line over a Redis: what is promised of every line is in `test_credits_contract`."""

import asyncio
from dataclasses import replace

from penstock.adapters.redis.bus.credits import Credits
from penstock.adapters.redis.link.connect import RedisSettings
from redis_servers import opened


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
