"""A stranger who asks for open pages faster than they can be read, and one who has a new wrong key each time."""

import asyncio

from aim import Aim, Attack, Withstands
from stage import KEYED
from wire import post

PAGE = b"GET /openapi.json HTTP/1.1\r\nHost: test\r\n\r\n"
LEGION = 1000


async def pages(aim: Aim) -> None:
    async def one() -> None:
        _, writer = await aim.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(PAGE * LEGION)
        await asyncio.sleep(60)

    await aim.crowd(100, one)


async def nobody(aim: Aim) -> None:
    """Each with another key, so that nothing of it is remembered, and each answer read."""
    body = b'{"input": "x"}'
    crowd = b"".join(
        post(body, f"Authorization: Bearer pk_{number:016x}_{'A' * 43}", f"X-Junk: {'j' * 1500}")
        for number in range(LEGION)
    )

    async def one() -> None:
        reader, writer = await aim.open()
        writer.write(crowd)
        while await reader.read(2**20):
            aim.tally["read"] += 1

    await aim.crowd(2, one)


PAGES = Attack(
    "unread pages", "A stranger asks 100,000 times for /openapi.json, and reads nothing.", pages, KEYED
)
NOBODY = Attack(
    "wrong keys", "A stranger sends requests with a new wrong key each, without a pause.", nobody, KEYED
)


def test_pages_that_nobody_reads_cost_nobody_else(withstands: Withstands) -> None:
    withstands(PAGES)


def test_wrong_keys_cost_nobody_else(withstands: Withstands) -> None:
    withstands(NOBODY)
