"""A tenant that asks for large answers again and again, and reads none."""

import asyncio

from aim import Aim, Attack
from stage import KEYED

LARGE = b'{"input": "%s"}' % (b"x" * (2**20 - 100))
AGAIN = 500  # pipelined requests on a connection: 500 MiB of answers for it


async def replays(aim: Aim) -> None:
    """A result that is kept costs no execution, and no body to ask for it."""
    await aim.ask(await aim.open(), aim.post(LARGE, "Prefer: respond-async", "X-Request-Id: large"))
    proof = "".join(f"{line}\r\n" for line in aim.proof)
    again = f"GET /v1/result/large?wait_ms=1000 HTTP/1.1\r\nHost: test\r\n{proof}\r\n".encode() * AGAIN

    async def one() -> None:
        _, writer = await aim.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(again)
        await asyncio.sleep(60)

    await aim.crowd(100, one)


async def executed(aim: Aim) -> None:
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


REPLAYS = Attack(
    "unread results", "A tenant asks 50,000 times for a result of 1 MiB, and reads none.", replays, KEYED
)
EXECUTED = Attack(
    "unread answers", "A tenant asks for 300 answers of 1 MiB, and reads none.", executed, KEYED
)
