"""A tenant whose inputs end the worker's process, or hang it."""

import asyncio

import pytest

from aim import Aim, Attack, Withstands
from stage import INSTALLED, KEYED


async def _each_second(aim: Aim, body: bytes) -> None:
    async def one() -> None:
        streams = await aim.open()
        while True:
            await aim.ask(streams, aim.post(body))
            await asyncio.sleep(1.0)

    await aim.crowd(1, one)


async def crash(aim: Aim) -> None:
    await _each_second(aim, b'{"input": "crash:"}')


async def hang(aim: Aim) -> None:
    await _each_second(aim, b'{"input": "sleep:"}')


CRASH = Attack(
    "inputs that crash", "A tenant sends an input that ends its worker, each second.", crash, KEYED
)
HANG = Attack("inputs that hang", "A tenant sends an input that hangs its worker, each second.", hang, KEYED)
OVER_REDIS = Attack("inputs that crash, over Redis", CRASH.says, crash, INSTALLED)


@pytest.mark.parametrize("attack", [CRASH, HANG, OVER_REDIS], ids=lambda attack: attack.name)
def test_inputs_that_end_a_worker_cost_nobody_else(attack: Attack, withstands: Withstands) -> None:
    withstands(attack)
