"""A stranger who asks for an open page faster than it can be read, and reads nothing."""

import asyncio

from aim import Aim, Attack, Withstands
from stage import KEYED

PAGE = b"GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n"
KEEPS = 8 * 2**20  # Python keeps the room of 10,000 requests that were read ahead, for the next ones


async def send(aim: Aim) -> None:
    async def one() -> None:
        _, writer = await aim.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(PAGE * 1000)
        await asyncio.sleep(60)

    await aim.crowd(100, one)


PAGES = Attack(
    "unread pages",
    "A stranger asks 100,000 times for /openapi.json, and reads nothing.",
    send,
    KEYED,
    keeps=KEEPS,
)


def test_pages_that_nobody_reads_cost_nobody_else(withstands: Withstands) -> None:
    withstands(PAGES)
