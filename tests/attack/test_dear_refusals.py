"""A tenant sends bodies of 1 MiB that are refused, each in a shape that takes long to look through."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from aim import Aim, Attack, Withstands
from stage import KEYED, Stage

CLIENTS = 4
SIZE = 2**20 - 128


def shape(unit: bytes, before: bytes, after: bytes) -> bytes:
    """As many of the unit as fit."""
    return before + unit * ((SIZE - len(before) - len(after)) // len(unit)) + after


DEEP = b"[" * 70 + b"]" * 70 + b"]}"
SHAPES = (
    shape(b"\\u0001", b'{"input": "', b'"}'),
    shape(b"\\u000a", b'{"input": "', b'\\u0001"}'),
    shape(b"\\n", b'{"input": "', b'\\b"}'),
    shape(b"\x7f", b'{"input": "', b'"}'),
    shape(b"\xc2\xa0", b'{"input": "', b'\xc2\x85"}'),
    shape(b"[],", b'{"input": [', b'"\\u0001"]}'),
    shape(b"{},", b'{"input": [', b'"\\u0001"]}'),
    shape(b'"",', b'{"input": [', b'"\\u0001"]}'),
    shape(b"1,", b'{"input": [', b'"\\u0001"]}'),
    shape(b'"a":0,', b'{"input": {', b'"\\u0001":0}}'),
    shape(b"[],", b'{"input": [', DEEP),
    shape(b'["["],', b'{"input": [', DEEP),
    shape(b"[" * 60 + b"]" * 60 + b",", b'{"input": [', DEEP),
    shape(b'"input":"",', b"{", b'"x":0}'),
    shape(b"a", b'{"', b'":0}'),
    shape(b"9", b'{"input": "a", "timeout_ms": ', b"}"),
    shape(b'"a":0,', b'{"input": "a", "parameters": {', b'"b":0}}'),
    shape(b"a", b'{"input": "a", "model": "', b'"}'),
    shape(b" ", b"{", b'"input": "a"'),
)

# For a model that takes any JSON: these are looked through to their ends.
HUGE = b"1e999]}"
JSON_SHAPES = (
    *(shape(unit, b'{"input": [1e100,', HUGE) for unit in (b"[],", b"{},", b'["["],', b'{"a":[]},', b"1,")),
    *(shape(unit, b'{"input": [', HUGE) for unit in (b"1e100,", b"1E+099,", b'"\\"",', b"9" * 4000 + b",")),
    shape(b"[" * 60 + b"]" * 60 + b",", b'{"input": [1e100,', HUGE),
    shape(b"0", b'{"input": [0.', b"1]}"),
    shape(b"9", b'{"input": [', b"]}"),
    *(each for each in SHAPES if each.startswith((b'{"input": [', b'{"input": {'))),
)


async def send(aim: Aim) -> None:
    await send_each(aim, SHAPES)


async def send_json(aim: Aim) -> None:
    await send_each(aim, JSON_SHAPES)


async def send_each(aim: Aim, shapes: Sequence[bytes]) -> None:
    turn = itertools.cycle([aim.post(body) for body in shapes])

    async def one() -> None:
        streams = await aim.open()
        while True:
            await aim.ask(streams, next(turn))

    await aim.crowd(CLIENTS, one)


DEAR_REFUSALS = Attack(
    "dear refusals", "A tenant sends bodies of 1 MiB that are refused in every way.", send, KEYED
)
DEAR_JSON = Attack(
    "dear JSON",
    "A tenant sends JSON of 1 MiB in which one number, bracket or character is wrong.",
    send_json,
    Stage(keys=True, target=f"{Path(__file__).with_name('model.py')}:anything"),
)


def test_what_is_refused_costs_nobody_else(withstands: Withstands) -> None:
    withstands(DEAR_REFUSALS)


def test_json_that_is_refused_at_its_end_costs_nobody_else(withstands: Withstands) -> None:
    withstands(DEAR_JSON)
