"""A stranger whose body comes in chunks of one byte, or in chunks whose heads never end."""

from aim import Aim, Attack
from stage import KEYED

HEAD = b"POST /v1/inference HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"1\r\nx\r\n" * 100_000
EXTENSION = b"y" * 600_000


async def _pour(aim: Aim, opening: bytes, more: bytes) -> None:
    _, writer = await aim.open()
    writer.write(opening)
    while True:
        writer.write(more)
        await writer.drain()
        aim.tally["bursts"] += 1


async def chunks(aim: Aim) -> None:
    await aim.crowd(2, lambda: _pour(aim, HEAD, CHUNKS))


async def extensions(aim: Aim) -> None:
    await aim.crowd(2, lambda: _pour(aim, HEAD + b"1;", EXTENSION))


CHUNKED = Attack("chunks of one byte", "A stranger sends bodies in chunks of one byte.", chunks, KEYED)
EXTENDED = Attack(
    "endless chunk heads", "A stranger sends chunks whose extensions never end.", extensions, KEYED
)
