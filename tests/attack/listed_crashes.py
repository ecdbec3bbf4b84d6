"""A tenant whose inputs end the worker's process, or hang it."""

import asyncio

from aim import Aim, Attack
from stage import KEYED


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
