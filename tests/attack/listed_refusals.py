"""A tenant whose requests are refused, dearly; and a stranger who takes the probes' connections."""

import asyncio

from aim import Aim, Attack
from stage import KEYED

MIB = 2**20


def _filled(begin: bytes, item: bytes, end: bytes) -> bytes:
    return begin + item * ((MIB - len(begin) - len(end)) // len(item)) + end


BODIES = {
    "controls": _filled(b'{"input": [', b'"\\u0001",', b"1]}"),
    "objects": _filled(b'{"input": [', b'{"a":"\\t"},', b'"\\u0001"]}'),
    "brackets": _filled(b'{"input": [', b"[],", b"[" * 65 + b"]" * 65 + b"]}"),
    "fields": _filled(b'{"x": [', b"{},", b"1]}"),
}


async def _refused(aim: Aim, bodies: list[bytes]) -> None:
    async def one() -> None:
        streams = await aim.open()
        while True:
            for body in bodies:
                await aim.ask(streams, aim.post(body))
                await asyncio.sleep(0.05)

    await aim.crowd(4, one)


async def refused_text(aim: Aim) -> None:
    await _refused(
        aim, [_filled(b'{"input": "', b"\\u0001", b'"}'), _filled(b'{"input": "', b"\\t", b'\\u0001"}')]
    )


async def refused_json(aim: Aim) -> None:
    await _refused(aim, list(BODIES.values()))


async def idle_admin(aim: Aim) -> None:
    async def one() -> None:
        reader, writer = await aim.open(admin=True)
        await reader.read()
        writer.transport.abort()

    await aim.crowd(1100, one)


TEXT = Attack("1 MiB refused: text", "A tenant sends texts of 1 MiB that end in 422.", refused_text, KEYED)
JSON = Attack("1 MiB refused: JSON", "A tenant sends values of 1 MiB that end in 422.", refused_json, KEYED)
IDLE = Attack(
    "idle admin connections", "Somebody opens 1,100 connections to the admin plane and says nothing.",
    idle_admin, KEYED,
)  # fmt: skip
