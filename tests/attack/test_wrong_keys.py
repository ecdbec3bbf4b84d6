"""A stranger who has a new wrong key each time, and asks without a pause."""

from aim import Aim, Attack, Withstands
from stage import KEYED
from wire import post

KEYS = 300  # on one connection, at once


async def send(aim: Aim) -> None:
    """Each head is new, so that nothing of it is remembered, and each answer is read."""
    crowd = b"".join(
        post(b'{"input": "x"}', f"Authorization: Bearer pk_{number:016x}_{'A' * 43}", f"X-Junk: {'j' * 1500}")
        for number in range(KEYS)
    )

    async def one() -> None:
        reader, writer = await aim.open()
        writer.write(crowd)
        while await reader.read(2**20):
            aim.tally["read"] += 1

    await aim.crowd(2, one)


WRONG_KEYS = Attack(
    "wrong keys", "A stranger sends requests with a new wrong key each, without a pause.", send, KEYED
)


def test_wrong_keys_cost_nobody_else(withstands: Withstands) -> None:
    withstands(WRONG_KEYS)
