"""Crowds send bodies up to the last byte, and wait."""

import asyncio

from aim import Aim, Attack, Withstands
from stage import KEYED
from wire import post

SIZE = 2**20  # limits.max_body
BODY = b"x" * (SIZE - 1)
ROOM = 256 * 2**20  # limits.max_unfinished_bytes
BESIDES = 96 * 2**20  # what the allocator has in hand meanwhile
PIECE, PAUSE = 2**17, 0.1


async def wait_there(aim: Aim, head: bytes, clients: int) -> None:
    async def one() -> None:
        reader, writer = await aim.open()
        writer.write(head)
        answer = asyncio.ensure_future(reader.read(65536))
        for at in range(
            0, len(BODY), PIECE
        ):  # not all at once, or the machine itself has no time for anybody
            if not answer.done():
                writer.write(BODY[at : at + PIECE])
                await asyncio.sleep(PAUSE)
        await answer
        aim.tally["refused"] += 1
        writer.transport.abort()

    await aim.crowd(clients, one)


async def strangers(aim: Aim) -> None:
    await wait_there(aim, post(b"", length=SIZE), 400 if aim.long else 50)


async def a_tenant(aim: Aim) -> None:
    """More than limits.max_unfinished_bytes has room for."""
    await wait_there(aim, aim.post(b"", length=SIZE), 2000 if aim.long else 300)


STRANGERS = Attack("strangers' bodies", "Strangers send bodies up to the last byte.", strangers, KEYED)
TENANT = Attack(
    "a tenant's bodies", "A tenant sends bodies up to the last byte.", a_tenant, KEYED, 3.0, until="refused"
)


def test_strangers_bodies_cost_nobody_else(withstands: Withstands) -> None:
    withstands(STRANGERS)


def test_a_tenants_bodies_take_no_more_memory_than_there_is_for_them_and_cost_nobody_else(
    withstands: Withstands,
) -> None:
    verdict = withstands(TENANT)
    assert verdict.tally["refused"] > 0
    assert verdict.memory.peak - verdict.memory.before < ROOM + BESIDES
