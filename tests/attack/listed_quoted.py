"""A tenant whose inputs make the function fail with a message that quotes them, and they are large."""

import asyncio

from aim import Aim, Attack
from stage import KEYED

WORDS = b" ".join(b"w%06d" % number for number in range(120_000))  # 960 KB, and no two alike
BODY = b'{"input": "quote:%s"}' % WORDS


async def send(aim: Aim) -> None:
    async def one() -> None:
        streams = await aim.open()
        while True:
            await aim.ask(streams, aim.post(BODY))
            await asyncio.sleep(0.5)

    await aim.crowd(2, one)


LETTERS = int(0.4 * 64 * 2**20)  # limits.tenant_share of max_dead_letter_bytes: each failure is a letter
HEAPS = 16 * 2**20  # what the two processes of the function keep of messages of 1 MB
QUOTED = Attack(
    "failures that quote",
    "A tenant makes the function fail with messages of 1 MB.",
    send,
    KEYED,
    keeps=LETTERS + HEAPS,
)
