"""A tenant that asks for a large result again and again, and reads none of it.

A result that is kept costs no execution, and no body to ask for it.
"""

import asyncio

import pytest

from aim import Aim, Attack, Withstands
from http2_frames_kit import OPENING, SETTINGS, frame, head
from stage import ENCRYPTED, KEYED

MIB = 2**20
LARGE = b'{"input": "%s"}' % (b"x" * (MIB - 100))
PATH = "/v1/result/large?wait_ms=1000"
AGAIN = 500  # pipelined requests on a connection: 500 MiB of answers for it
NO_WINDOW = (4).to_bytes(2, "big") + (0).to_bytes(4, "big")  # SETTINGS_INITIAL_WINDOW_SIZE
STREAMS = range(1, 501, 2)  # of one connection
BOUND = 256 * MIB  # limits.max_unsent_bytes
ROOM = (
    128 * MIB
)  # for the result itself in four processes, and for pages that the allocator has not given back


async def keep(aim: Aim) -> None:
    await aim.ask(await aim.open(), aim.post(LARGE, "Prefer: respond-async", "X-Request-Id: large"))


async def pipelined(aim: Aim) -> None:
    await keep(aim)
    proof = "".join(f"{line}\r\n" for line in aim.proof)
    again = f"GET {PATH} HTTP/1.1\r\nHost: test\r\n{proof}\r\n".encode() * AGAIN

    async def one() -> None:
        _, writer = await aim.open()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(again)
        await asyncio.sleep(60)

    await aim.crowd(30 if aim.authority else 100, one)  # handshakes are another attack


async def behind_windows(aim: Aim) -> None:
    await keep(aim)
    asked = b"".join(head(stream, key=aim.key, last=True, path=PATH, method="GET") for stream in STREAMS)

    async def one() -> None:
        reader, writer = await aim.open("h2")
        try:
            writer.write(OPENING + frame(SETTINGS, 0, 0, NO_WINDOW) + asked)
            aim.tally["streams"] += len(STREAMS)
            while await reader.read(65536):
                pass
        finally:
            writer.transport.abort()

    await aim.crowd(4, one)


RESULTS = Attack(
    "unread results",
    "A tenant asks 50,000 times for a result of 1 MiB, and reads none.",
    pipelined,
    KEYED,
    keeps=ROOM // 4,
)
ENCRYPTED_RESULTS = Attack(
    "unread results over TLS",
    "A tenant asks 15,000 times for it over TLS.",
    pipelined,
    ENCRYPTED,
    keeps=ROOM // 4,
)
WINDOWS = Attack(
    "HTTP/2: shut windows",
    "A tenant asks for a result of 1 MiB on 1,000 streams with their windows shut.",
    behind_windows,
    ENCRYPTED,
    seconds=3.0,
    keeps=ROOM // 4,
)


@pytest.mark.parametrize("attack", [RESULTS, ENCRYPTED_RESULTS, WINDOWS], ids=lambda attack: attack.name)
def test_results_that_nobody_reads_cost_nobody_else(attack: Attack, withstands: Withstands) -> None:
    memory = withstands(attack).memory
    assert memory.peak - memory.before < BOUND + ROOM
