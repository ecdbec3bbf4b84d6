"""Where nobody is asked who they are: somebody who is another client, with another request id, each time."""

from aim import Aim, Attack, Withstands
from stage import SERVED
from wire import post

REQUESTS = 100


async def send(aim: Aim) -> None:
    number = 0

    async def one() -> None:
        nonlocal number
        reader, writer = await aim.open()
        number += REQUESTS
        writer.write(
            b"".join(
                post(b'{"input": "x", "client_id": "%0128d"}' % each, f"X-Request-Id: {each:0128d}")
                for each in range(number, number + REQUESTS)
            )
        )
        left = REQUESTS
        while left > 0:
            left -= (await reader.read(2**20)).count(b"HTTP/1.1 ")
        writer.transport.abort()
        aim.tally["names"] += REQUESTS

    await aim.crowd(4, one)


NAMES = Attack("a new name each time", "Somebody sends each request under a new client_id.", send, SERVED)


def test_new_names_cost_nobody_else(withstands: Withstands) -> None:
    withstands(NAMES)
