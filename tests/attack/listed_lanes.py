"""A tenant whose requests can share no batch: each has `parameters` of its own, and is in a hurry."""

import asyncio

from aim import Aim, Attack
from stage import FUNCTION, Stage

CLIENTS = 300  # more than `limits.max_lanes`
REFUSED = 0.2  # seconds until one that was refused comes again: this is no flood of requests
STAGE = Stage(keys=True, target=FUNCTION.replace("batchstring", "with_options"))


async def send(aim: Aim) -> None:
    number = 0

    async def one() -> None:
        nonlocal number
        streams = await aim.open()
        while True:
            number += 1
            body = b'{"input": "x", "parameters": {"p": %d}, "timeout_ms": 1000}' % number
            status, _ = await aim.ask(streams, aim.post(body))
            if status == 503:
                await asyncio.sleep(REFUSED)

    await aim.crowd(CLIENTS, one)


LANES = Attack(
    "a lane for each request", "A tenant sends each request with parameters of its own.", send, STAGE
)
