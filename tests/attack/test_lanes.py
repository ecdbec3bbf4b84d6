"""A tenant whose requests can share no batch: each has `parameters` of its own, and is in a hurry."""

from aim import Aim, Attack, Withstands
from stage import FUNCTION, Stage

CLIENTS = 300  # more than `limits.max_lanes`
STAGE = Stage(keys=True, target=FUNCTION.replace("batchstring", "with_options"))


async def send(aim: Aim) -> None:
    number = 0

    async def one() -> None:
        nonlocal number
        streams = await aim.open()
        while True:
            number += 1
            body = b'{"input": "x", "parameters": {"p": %d}, "timeout_ms": 1000}' % number
            await aim.ask(streams, aim.post(body))

    await aim.crowd(CLIENTS, one)


LANES = Attack(
    "a lane for each request", "A tenant sends each request with parameters of its own.", send, STAGE
)


def test_many_lanes_cost_nobody_else(withstands: Withstands) -> None:
    withstands(LANES)
