"""A crowd of clients that take their time: they open, send a little, then a byte at a time, and never finish."""

import asyncio
import time
from collections.abc import Awaitable

from wire import Address, post

STEP = 0.5  # seconds between two bytes
PATIENCE = 20.0  # seconds after which it is clear that nobody will ever close
OPENINGS = (
    b"",
    b"P",
    b"POST /v1/inference HTTP/1.1\r\nHost: test\r\nX-Slow: ",
    post(b'{"input": "', length=1000),
    b"POST /v1/inference HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
)


async def dawdle(address: Address, opening: bytes) -> float:
    """How long the server put up with it."""
    reader, writer = await asyncio.open_connection(*address)
    began = time.monotonic()
    try:
        writer.write(opening)
        while time.monotonic() - began < PATIENCE:
            try:
                if not await asyncio.wait_for(reader.read(65536), STEP):
                    break
            except TimeoutError:
                if len(opening) > 1:  # the first two say nothing more at all
                    writer.write(b"x")
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return time.monotonic() - began


def crowd(address: Address, number: int) -> "list[Awaitable[float]]":
    return [dawdle(address, OPENINGS[index % len(OPENINGS)]) for index in range(number)]
