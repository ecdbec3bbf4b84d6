"""A stranger sends HTTP/2 frames that carry next to nothing, as fast as they are taken."""

import pytest
from hpack import Encoder
from hyperframe.frame import DataFrame, HeadersFrame, RstStreamFrame, SettingsFrame

from aim import Aim, Attack, Withstands
from stage import ENCRYPTED

CLIENTS = 4
BURST = 250_000  # bytes: about what one read of the server takes
HEAD = [
    (":method", "POST"), (":scheme", "https"), (":authority", "test"), (":path", "/v1/inference"),
    ("content-type", "application/json"),
]  # fmt: skip
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize()


def begin(*more: tuple[str, str]) -> bytes:
    return HELLO + HeadersFrame(1, data=Encoder().encode([*HEAD, *more]), flags=["END_HEADERS"]).serialize()


def piece(data: bytes, *, padded: bool = False) -> bytes:
    frame = DataFrame(1, data=data)
    if padded:
        frame.flags.add("PADDED")
    return frame.serialize()


async def flood(aim: Aim, first: bytes, frame: bytes) -> None:
    burst = frame * (BURST // len(frame))

    async def one() -> None:
        reader, writer = await aim.open("h2")
        writer.write(first)
        for _ in range(4):
            writer.write(burst)
            await writer.drain()
        aim.tally["frames"] += 4 * len(burst) // len(frame)
        while await reader.read(65536):
            pass  # until the server has had enough

    await aim.crowd(CLIENTS, one)


async def small(aim: Aim) -> None:
    """With a key, for a stranger's request ends with its head."""
    await flood(aim, begin(("authorization", f"Bearer {aim.key}")), piece(b"x"))


async def padded(aim: Aim) -> None:
    await flood(aim, begin(("authorization", f"Bearer {aim.key}")), piece(b"", padded=True))


async def closed(aim: Aim) -> None:
    await flood(aim, begin() + RstStreamFrame(1, error_code=8).serialize(), piece(b"x" * 300))


SMALL = Attack(
    "frames of one byte", "A client sends a body one byte at a time, each in a frame.", small, ENCRYPTED
)
PADDED = Attack("padded frames", "A client sends frames with padding and nothing else.", padded, ENCRYPTED)
CLOSED = Attack(
    "frames for what ended", "A stranger sends pieces for a stream it has reset.", closed, ENCRYPTED
)


@pytest.mark.parametrize("attack", [SMALL, PADDED, CLOSED], ids=lambda attack: attack.name)
def test_frames_that_carry_nothing_cost_nobody_else(attack: Attack, withstands: Withstands) -> None:
    withstands(attack)
