"""Somebody at the port for gRPC opens streams and leaves, sends messages that ask for nothing, or watches and does
not read. The victim asks over HTTP."""

import asyncio

import pytest

from aim import Aim, Attack, Streams, Withstands
from http2_frames_kit import DATA, END_STREAM, PREFACE, SETTINGS, WINDOW, frame, head
from stage import SPEAKS_GRPC

STREAM, WATCH = "/penstock.v1.Inference/InferStream", "/grpc.health.v1.Health/Watch"
LARGEST = 2**31 - 1  # bytes of a window
# So that the server may answer whatever there is, without a word more from the client.
WIDE = (4).to_bytes(2, "big") + LARGEST.to_bytes(4, "big")
OPENING = PREFACE + frame(SETTINGS, 0, 0, WIDE) + frame(WINDOW, 0, 0, (LARGEST - 65_535).to_bytes(4, "big"))
NOTHING = bytes(5)  # a message of no bytes
HALF = b"\0" + (1000).to_bytes(4, "big") + bytes(900)
STREAMS = 100  # on one connection
MESSAGES = 64  # of one stream


def streams(path: str, message: bytes, *, key: str | None, last: bool) -> bytes:
    """A connection with many streams, each of which has sent this."""
    said = [
        head(stream, key=key, path=path, kind="application/grpc")
        + frame(DATA, END_STREAM if last else 0, stream, message)
        for stream in range(1, 2 * STREAMS, 2)
    ]
    return OPENING + b"".join(said)


async def opened(aim: Aim) -> Streams:
    host, _, port = aim.grpc.rpartition(":")
    aim.tally["connections"] += 1
    return await asyncio.open_connection(host, int(port))


async def all_ended(reader: asyncio.StreamReader) -> None:
    """Read until each stream has ended."""
    open_streams = STREAMS
    while open_streams:
        size, kind, flags = (begin := await reader.readexactly(9))[:3], begin[3], begin[4]
        await reader.readexactly(int.from_bytes(size, "big"))
        open_streams -= kind != SETTINGS and bool(flags & END_STREAM)


async def left(aim: Aim) -> None:
    """Each stream has half a message when its client goes."""
    said = streams(STREAM, HALF, key=aim.key, last=False)

    async def one() -> None:
        reader, writer = await opened(aim)
        writer.write(said)
        await writer.drain()
        await reader.read(65536)
        aim.tally["streams"] += STREAMS
        writer.transport.abort()

    await aim.crowd(10, one)


async def empty(aim: Aim) -> None:
    said = streams(STREAM, NOTHING * MESSAGES, key=aim.key, last=True)

    async def one() -> None:
        reader, writer = await opened(aim)
        writer.write(said)
        await all_ended(reader)
        aim.tally["refused"] += STREAMS * MESSAGES
        writer.transport.abort()

    await aim.crowd(4, one)


async def watching(aim: Aim) -> None:
    """Nobody is asked who they are here."""
    said = streams(WATCH, NOTHING, key=None, last=True)

    async def one() -> None:
        _, writer = await opened(aim)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(said)
        aim.tally["watchers"] += STREAMS
        await asyncio.sleep(1.0)
        writer.transport.abort()

    await aim.crowd(50, one)


LEFT = Attack(
    "gRPC: streams left", "A client opens streams, and leaves.", left, SPEAKS_GRPC, 1.0, until="streams"
)
EMPTY = Attack(
    "gRPC: no messages", "A client sends messages of no bytes.", empty, SPEAKS_GRPC, 1.0, until="refused"
)
WATCHING = Attack(
    "gRPC: watchers", "A stranger watches, and does not read.", watching, SPEAKS_GRPC, 1.0, until="watchers"
)


@pytest.mark.parametrize("attack", [LEFT, EMPTY, WATCHING], ids=lambda attack: attack.name)
def test_what_comes_to_the_port_for_grpc_costs_nobody_else(attack: Attack, withstands: Withstands) -> None:
    assert withstands(attack).tally[attack.until]
