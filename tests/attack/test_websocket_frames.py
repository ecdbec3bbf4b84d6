"""Somebody sends WebSocket frames that carry next to nothing, half messages, or nothing but wishes for it."""

import asyncio

import pytest
from websockets.frames import Frame, Opcode

from aim import Aim, Attack, Streams, Withstands
from stage import KEYED

CLIENTS = 10
BURST = 250_000  # bytes: about what one read of the server takes
WISH = (
    b"GET /v1/stream HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
PING = Frame(Opcode.PING, b"").serialize(mask=True)
EMPTY = Frame(Opcode.CONT, b"", fin=False).serialize(mask=True)
BEGIN = Frame(Opcode.TEXT, b"", fin=False).serialize(mask=True)
WRONG = Frame(Opcode.TEXT, b'{"id":1}').serialize(mask=True)
HALF = Frame(Opcode.TEXT, b"x" * 1_000_000).serialize(mask=True)[:-1]


async def speak(aim: Aim, *, known: bool = True) -> Streams:
    reader, writer = await aim.open()
    proof = "".join(f"{each}\r\n" for each in aim.proof) if known else ""
    writer.write(WISH + proof.encode() + b"\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    aim.tally[head.split(None, 2)[1].decode()] += 1
    return reader, writer


async def flood(aim: Aim, first: bytes, frame: bytes) -> None:
    burst = frame * (BURST // len(frame))

    async def one() -> None:
        reader, writer = await speak(aim)
        writer.write(first)
        try:
            async with asyncio.timeout(1.0):
                for _ in range(4):
                    writer.write(burst)
                    await writer.drain()
                    aim.tally["frames"] += len(burst) // len(frame)
                while await reader.read(65536):
                    pass
        except TimeoutError:
            pass
        writer.transport.abort()

    await aim.crowd(CLIENTS, one)


async def pings(aim: Aim) -> None:
    await flood(aim, b"", PING)


async def pieces(aim: Aim) -> None:
    await flood(aim, BEGIN, EMPTY)


async def refused(aim: Aim) -> None:
    await flood(aim, b"", WRONG)


async def halves(aim: Aim) -> None:
    """As many as there is time for, each held until the server has had enough."""

    async def one() -> None:
        reader, writer = await speak(aim)
        writer.write(HALF)
        await writer.drain()
        aim.tally["halves"] += 1
        while await reader.read(65536):
            pass
        writer.transport.abort()

    await aim.crowd(100, one)


async def wishes(aim: Aim) -> None:
    """A stranger's: each is granted, and says nothing more."""

    async def one() -> None:
        _, writer = await speak(aim, known=False)
        writer.transport.abort()

    await aim.crowd(100, one)


PINGS = Attack("WebSocket pings", "A client sends nothing but pings.", pings, KEYED, 1.0)
PIECES = Attack("WebSocket pieces", "A client sends a message in pieces of no bytes.", pieces, KEYED, 1.0)
REFUSED = Attack("WebSocket refusals", "A client sends what is refused, and reads it.", refused, KEYED, 1.0)
HALVES = Attack("half messages", "100 WebSockets send all of a message but its end.", halves, KEYED, 1.0)
WISHES = Attack("WebSocket wishes", "A stranger opens WebSockets, and says nothing.", wishes, KEYED, 1.0)


@pytest.mark.parametrize("attack", [PINGS, PIECES, REFUSED, HALVES, WISHES], ids=lambda attack: attack.name)
def test_a_websocket_costs_nobody_else(attack: Attack, withstands: Withstands) -> None:
    withstands(attack)
