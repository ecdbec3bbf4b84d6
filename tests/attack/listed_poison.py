"""A tenant whose inputs no worker can take."""

import asyncio

from aim import Aim, Attack
from stage import INSTALLED, KEYED

BAD = (b'{"input": 1e999}', b'{"input": ' + b"7" * 5000 + b"}")


async def _each(aim: Aim, bodies: tuple[bytes, ...], every: float, clients: int, *headers: str) -> None:
    async def one() -> None:
        streams = await aim.open()
        while True:
            for body in bodies:
                await aim.ask(streams, aim.post(body, *headers))
                await asyncio.sleep(every * clients)

    await aim.crowd(clients, one)


async def undecodable(aim: Aim) -> None:
    await _each(aim, BAD, 0.02, 20)


async def failing(aim: Aim) -> None:
    await _each(aim, (b'{"input": "raise:"}',), 0.02, 20)


async def letters(aim: Aim) -> None:
    await _each(aim, (b'{"input": "raise:%s"}' % (b"x" * (2**20 - 100)),), 0.04, 8)


async def tasks(aim: Aim) -> None:
    await _each(aim, (b'{"input": "%s"}' % (b"x" * (2**20 - 100)),), 0.04, 8, "Prefer: respond-async")


UNDECODABLE = Attack(
    "inputs no worker can read",
    "A tenant sends 50 infinities and huge integers a second.",
    undecodable,
    KEYED,
)
UNDECODABLE_UP = Attack(
    "inputs no worker can read, over Redis", "The same over Redis.", undecodable, INSTALLED
)
FAILING = Attack("inputs that fail", "A tenant sends 50 failing inputs a second.", failing, KEYED)
FAILING_UP = Attack("inputs that fail, over Redis", "The same over Redis.", failing, INSTALLED)
LETTERS = Attack("dead letters of 1 MiB", "A tenant makes 25 dead letters of 1 MiB a second.", letters, KEYED)
LETTERS_UP = Attack("dead letters of 1 MiB, over Redis", "The same over Redis.", letters, INSTALLED)
TASKS = Attack("tasks of 1 MiB", "A tenant sends 25 tasks of 1 MiB a second.", tasks, KEYED)
TASKS_UP = Attack("tasks of 1 MiB, over Redis", "The same over Redis.", tasks, INSTALLED)
