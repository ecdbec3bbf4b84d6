"""A stranger opens connections and sends a head byte by byte."""

import asyncio

from aim import Aim, Attack, Withstands
from stage import KEYED

CLIENTS = 200


async def send(aim: Aim) -> None:
    async def dawdle() -> None:
        _, writer = await aim.open()
        writer.write(b"POST /v1/inference HTTP/1.1\r\nHost: test\r\nX-Slow: ")
        while not writer.is_closing():
            writer.write(b"x")
            await asyncio.sleep(0.2)

    await aim.crowd(CLIENTS, dawdle)


SLOW_HEADERS = Attack(
    "slow headers", "A stranger opens many connections and sends a head byte by byte.", send, KEYED
)


def test_heads_that_never_end_cost_nobody_else(withstands: Withstands) -> None:
    withstands(SLOW_HEADERS)
