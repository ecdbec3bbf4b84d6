"""A tenant that waits for one task on many connections: all of them are told at once, and wait for the next."""

import asyncio

from aim import Aim, Attack, Withstands
from stage import FUNCTION, Stage

STAGE = Stage(keys=True, target=FUNCTION.replace("batchstring", "slow"), options=("--max-batch", "8"))
CLIENTS = 300


async def send(aim: Aim) -> None:
    proof = "".join(f"{line}\r\n" for line in aim.proof)
    leader = await aim.open()
    crowd = [await aim.open() for _ in range(CLIENTS)]
    number = 0
    while True:
        number += 1
        await aim.ask(
            leader, aim.post(b'{"input": "x"}', "Prefer: respond-async", f"X-Request-Id: t{number}")
        )
        get = f"GET /v1/result/t{number}?wait_ms=30000 HTTP/1.1\r\nHost: test\r\n{proof}\r\n".encode()
        await asyncio.gather(*(aim.ask(streams, get) for streams in crowd))
        await asyncio.sleep(0.2)


POLLS = Attack("long polls", "A tenant waits for one task after the other, on 300 connections.", send, STAGE)


def test_long_polls_cost_nobody_else(withstands: Withstands) -> None:
    withstands(POLLS)
