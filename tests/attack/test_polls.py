"""A tenant that waits for results by the thousand: of tasks that are not there, and of one that is not done."""

import asyncio

from aim import Aim, Attack, Withstands
from stage import KEYED

CLIENTS = 500


async def send(aim: Aim) -> None:
    proof = "".join(f"{line}\r\n" for line in aim.proof)

    def get(task: str) -> bytes:
        return f"GET /v1/result/{task}?wait_ms=30000 HTTP/1.1\r\nHost: test\r\n{proof}\r\n".encode()

    async def one() -> None:
        streams = await aim.open()
        while True:
            # A task that takes its time, and all that wait for it are told at once.
            await aim.ask(streams, aim.post(b'{"input": "x"}', "Prefer: respond-async", "X-Request-Id: one"))
            await aim.ask(streams, get("one"))
            await aim.ask(streams, get("none"))
            await asyncio.sleep(1.0)

    await aim.crowd(CLIENTS, one)


POLLS = Attack(
    "long polls", "A tenant waits for one task on 500 connections, and makes it anew.", send, KEYED
)


def test_long_polls_cost_nobody_else(withstands: Withstands) -> None:
    withstands(POLLS)
