"""Idle slots in line over a Redis: what is promised of every line is in `test_credits_contract`."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from penstock.adapters.redis.bus.credits import Credits
from penstock.adapters.redis.link.connect import RedisSettings
from penstock.adapters.redis.link.hearing import LONG
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


class Late(Credits):
    """The answer to its first ask is on its way until it is let go."""

    def __init__(self, store: Any) -> None:
        self.asks = 0
        self.let_go = asyncio.Event()
        super().__init__(store)

    async def _pop(self, lines: Sequence[str], seconds: float) -> Any:
        self.asks += 1
        number, answer = self.asks, await super()._pop(lines, seconds)
        if number == 1:
            await self.let_go.wait()
        return answer


@pytest.mark.parametrize("is_taken", [True, False], ids=["the next take gets it", "it goes back"])
def test_on_a_long_link_a_late_answer_holds_up_nobody_and_its_slot_is_not_lost(
    redis_settings: RedisSettings, *, is_taken: bool
) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        store.link._mean = LONG
        credit = Late(store)
        for slot in ("first", "second"):
            await credit.post("echo", slot)
        assert await credit.take("echo", 1) == "second"
        assert credit.asks == 2
        if is_taken:
            taking = asyncio.create_task(credit.take("echo", 1))
            await asyncio.sleep(0)
            credit.let_go.set()
            assert await taking == "first"
        else:
            credit.let_go.set()
            line = store.keys.idle("echo", "")
            for _ in range(1000):
                if await store.commands.execute_command("ZCARD", line):
                    break
            store.link._mean = 0.0
            assert await credit.take("echo", 1) == "first"
        await store.close()

    asyncio.run(body())


def test_on_a_short_link_a_line_is_asked_once(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        store.link._mean = 0.9 * LONG
        credit = Late(store)
        credit.let_go.set()
        assert await credit.take("echo", LONG) is None
        assert credit.asks == 1
        await store.close()

    asyncio.run(body())
