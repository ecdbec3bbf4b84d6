"""A tenant that fills the queue with tasks, each with a minute of time, faster than they are done."""

import asyncio

from aim import Aim, Attack, Withstands
from stage import FUNCTION, Stage

STAGE = Stage(keys=True, target=FUNCTION.replace("batchstring", "slow"), options=("--max-batch", "8"))
TASKS = 100  # in one write
RESULTS = 32 * 2**20  # bytes of some 15,000 tasks, far below a tenant's share of limits.max_task_bytes


async def send(aim: Aim) -> None:
    tasks = aim.post(b'{"input": "x", "timeout_ms": 60000}', "Prefer: respond-async") * TASKS

    async def one() -> None:
        reader, writer = await aim.open()
        while True:
            writer.write(tasks)
            for _ in range(TASKS):
                head = await reader.readuntil(b"\r\n\r\n")
                aim.tally[head[9:12].decode()] += 1
                size = next(
                    int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")
                )
                await reader.readexactly(size)
            await asyncio.sleep(0.2)

    await aim.crowd(4, one)


QUEUE = Attack(
    "a queue full of tasks",
    "A tenant sends 2,000 tasks a second with a minute each.",
    send,
    STAGE,
    keeps=RESULTS,
)


def test_a_full_queue_costs_nobody_else(withstands: Withstands) -> None:
    withstands(QUEUE)
