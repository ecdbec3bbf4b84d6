"""A stranger who says hello over TLS, lets the server sign for it, and leaves."""

import asyncio
import ssl
from urllib.parse import urlsplit

from aim import Aim, Attack, Withstands
from stage import ENCRYPTED


def hello() -> bytes:
    """What a client says first. To send it again costs nothing; to answer it costs a signature."""
    context = ssl.create_default_context()
    said = ssl.MemoryBIO()
    shaking = context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost")
    try:
        shaking.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return said.read()


async def send(aim: Aim) -> None:
    words, parts = hello(), urlsplit(aim.url)

    async def one() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(words)
        aim.tally["hellos"] += 1
        await reader.read(1)
        await asyncio.sleep(1.0)  # it keeps the server waiting
        writer.transport.abort()

    await aim.crowd(300, one)


HELLOS = Attack(
    "half handshakes", "A stranger begins 300 handshakes a second and ends none.", send, ENCRYPTED
)


def test_half_handshakes_cost_nobody_else(withstands: Withstands) -> None:
    withstands(HELLOS)
