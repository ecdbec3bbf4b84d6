"""Strangers over HTTP/1.1: requests that recurse, heads and bodies that never end."""

import asyncio

from aim import Aim, Attack
from stage import KEYED
from wire import post

MIB = 2**20
UPGRADE = b"GET /health HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
CHUNKED = b"POST /v1/inference HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"


async def upgrades(aim: Aim) -> None:
    async def one() -> None:
        reader, writer = await aim.open()
        writer.write(UPGRADE * 600)
        while await reader.read(65536):
            pass

    await aim.crowd(20, one)


async def trailers(aim: Aim) -> None:
    more = b"y" * 60_000

    async def one() -> None:
        _, writer = await aim.open()
        writer.write(CHUNKED + b"0\r\nx-a: ")
        while True:
            writer.write(more)
            await writer.drain()
            aim.tally["pieces"] += 1

    await aim.crowd(1, one)


async def unfinished(aim: Aim) -> None:
    body = post(b"x" * (MIB - 1), length=MIB)
    number = 2000 if aim.long else 300
    few = asyncio.Semaphore(20)

    async def one() -> None:
        reader, writer = await aim.open()
        async with few:
            writer.write(body)
            await writer.drain()
        aim.tally["bodies"] += 1
        await reader.read()
        writer.transport.abort()

    await aim.crowd(number, one)


async def empty_lines(aim: Aim) -> None:
    """Empty lines may stand before a request, and on a connection that is kept open too."""

    async def one() -> None:
        reader, writer = await aim.open()
        began = asyncio.get_running_loop().time()
        writer.write(b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n")
        try:
            while not reader.at_eof() and not writer.is_closing():
                writer.write(b"\r\n")
                await asyncio.sleep(0.25)
                if asyncio.get_running_loop().time() - began > 8.0:
                    aim.tally["not closed in 8 s"] += 1
                    return
        finally:
            writer.transport.abort()

    await aim.crowd(500, one)


UPGRADES = Attack("pipelined upgrades", "A stranger sends 600 requests to upgrade at once.", upgrades, KEYED)
TRAILERS = Attack(
    "endless trailers", "A stranger ends a body with a trailer that never ends.", trailers, KEYED
)
UNFINISHED = Attack(
    "unfinished bodies", "A stranger begins 2,000 bodies of 1 MiB and ends none.", unfinished, KEYED
)
EMPTY_LINES = Attack("empty lines", "A stranger sends nothing but empty lines, slowly.", empty_lines, KEYED)
