"""A tenant that asks with a new Idempotency-Key each time and leaves: its requests go on without it."""

import asyncio

from aim import Aim, Attack, Withstands
from stage import FUNCTION, Stage

STAGE = Stage(keys=True, target=FUNCTION.replace("batchstring", "slow"), options=("--max-batch", "8"))


async def send(aim: Aim) -> None:
    number = 0

    async def one() -> None:
        nonlocal number
        _, writer = await aim.open()
        for _ in range(10):  # pipelined: the client has gone before the second is looked at
            number += 1
            writer.write(aim.post(b'{"input": "x", "timeout_ms": 60000}', f"Idempotency-Key: k{number}"))
        await asyncio.sleep(0.01)
        writer.transport.abort()
        aim.tally["left"] += 1

    await aim.crowd(20, one)


LEAVERS = Attack(
    "leave behind keyed requests", "A tenant sends keyed requests and leaves at once.", send, STAGE
)


def test_those_who_leave_their_requests_behind_cost_nobody_else(withstands: Withstands) -> None:
    withstands(LEAVERS)
