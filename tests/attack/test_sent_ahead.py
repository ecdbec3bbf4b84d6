"""A stranger sends hundreds of small things in one breath: requests, wishes for another protocol, chunks, lines."""

import asyncio

import pytest

from aim import Aim, Attack, Withstands
from stage import KEYED

CLIENTS = 10
READ = 250_000  # bytes: about what one read of the server takes
GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
WISH = b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
CHUNKED = b"POST /v1/inference HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"


async def repeat(aim: Aim, first: bytes, data: bytes) -> None:
    async def one() -> None:
        reader, writer = await aim.open()
        writer.write(first + data)
        aim.tally["bytes"] += len(data)
        try:
            async with asyncio.timeout(1.0):
                while await reader.read(65536):
                    pass
        except TimeoutError:
            pass  # it leaves, with requests that are not answered yet
        writer.transport.abort()

    await aim.crowd(CLIENTS, one)


async def requests(aim: Aim) -> None:
    await repeat(aim, b"", GET * (READ // len(GET)))


async def wishes(aim: Aim) -> None:
    await repeat(aim, b"", WISH * (READ // len(WISH)))


async def chunks(aim: Aim) -> None:
    """With a key: a stranger's body is not read."""
    head = CHUNKED + f"Authorization: Bearer {aim.key}\r\nContent-Type: application/json\r\n\r\n".encode()
    await repeat(aim, head, b"2\r\nxy\r\n" * (READ // 7))


async def lines(aim: Aim) -> None:
    await repeat(aim, b"", b"\r\n" * (READ // 2))


async def trailers(aim: Aim) -> None:
    await repeat(aim, CHUNKED + b"\r\n1\r\nx\r\n0\r\nx: ", b"y" * 2**19)


PIPELINED = Attack(
    "pipelined requests", "A stranger sends 9,000 requests at once, and leaves.", requests, KEYED
)
WISHES = Attack(
    "wishes to upgrade", "A stranger asks for another protocol 3,900 times at once.", wishes, KEYED
)
CHUNKS = Attack("tiny chunks", "A client sends its body two bytes at a time.", chunks, KEYED)
LINES = Attack("empty lines", "A stranger sends nothing but line ends.", lines, KEYED)
TRAILERS = Attack("endless trailers", "A stranger sends a trailer without an end.", trailers, KEYED)


@pytest.mark.parametrize(
    "attack", [PIPELINED, WISHES, CHUNKS, LINES, TRAILERS], ids=lambda attack: attack.name
)
def test_what_is_sent_ahead_costs_nobody_else(attack: Attack, withstands: Withstands) -> None:
    withstands(attack)
