"""Inputs that spoil the batch they are in: those that nobody can read, and those for which the function raises."""

import asyncio
from itertools import count

from aim import Aim, Attack, Withstands
from stage import INSTALLED, KEYED, SERVED

CLIENTS = 25
EVERY = 0.25  # seconds between two requests of one client: a hundred a second in all

UNREADABLE = (b'{"input": 1e999}', b'{"input": ' + b"7" * 5000 + b"}", b'{"input": [[1, -2E400]]}')


async def _steadily(aim: Aim, bodies: "list[bytes] | None" = None) -> None:
    """These, again and again; or something new each time that the function cannot compute."""
    numbers = count()

    async def one() -> None:
        streams = await aim.open()
        while True:
            number = next(numbers)
            body = bodies[number % len(bodies)] if bodies else b'{"input": "raise:%d"}' % number
            await aim.ask(streams, aim.post(body))
            await asyncio.sleep(EVERY)

    await aim.crowd(CLIENTS, one)


async def unreadable(aim: Aim) -> None:
    await _steadily(aim, list(UNREADABLE))


async def raising(aim: Aim) -> None:
    await _steadily(aim)


async def raising_alike(aim: Aim) -> None:
    await _steadily(aim, [b'{"input": "raise:always"}'])


NUMBERS = Attack(
    "unreadable numbers", "Anybody sends numbers that no float and no integer can hold.", unreadable, SERVED
)
TENANT = Attack("poison", "One tenant sends inputs for which the function raises.", raising, KEYED)
TENANT_UP = Attack(
    "poison over Redis", "One tenant sends inputs for which the function raises.", raising, INSTALLED
)
ANYBODY = Attack(
    "poison without keys", "Somebody repeats an input for which the function raises.", raising_alike, SERVED
)


def test_numbers_that_nobody_can_read_cost_nobody_else(withstands: Withstands) -> None:
    told = withstands(NUMBERS).tally
    assert told["422"] > 0
    assert not {"200", "500", "502", "503", "504"} & set(told)


def test_inputs_that_spoil_their_batch_cost_no_other_tenant(withstands: Withstands) -> None:
    withstands(TENANT)


def test_nor_do_they_over_redis(withstands: Withstands) -> None:
    withstands(TENANT_UP)


def test_an_input_that_is_known_to_spoil_batches_costs_nobody_else(withstands: Withstands) -> None:
    withstands(ANYBODY)
