"""The load of `benchmarks.soak`: the kinds of requests that real traffic has, mixed by a seed, in an open loop.

Each kind leaves something behind for a while: a task its result, an Idempotency-Key its outcome, a client that
leaves a request that nobody wants. What grows without bound grows here.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from time import monotonic

import aiohttp

from benchmarks.echo import text_of

KEYS, REPEATED = 2000, 50  # different Idempotency-Keys, and inputs that come again and again
LEAVES_AFTER = 0.005  # seconds
SIZES = (20, 200, 2048, 20_000)  # characters of an input
JSON = {"content-type": "application/json"}

Kind = Callable[[aiohttp.ClientSession, str, Random, int], Awaitable[str]]


async def plain(session: aiohttp.ClientSession, url: str, random: Random, number: int) -> str:
    return await _asked(session, url, _new(random, number))


async def again(session: aiohttp.ClientSession, url: str, random: Random, number: int) -> str:
    return await _asked(session, url, {"input": f"again {random.randrange(REPEATED)}"})


async def keyed(session: aiohttp.ClientSession, url: str, random: Random, number: int) -> str:
    key = random.randrange(KEYS)
    return await _asked(session, url, {"input": f"keyed {key}"}, {"idempotency-key": f"key-{key}"})


async def task(session: aiohttp.ClientSession, url: str, random: Random, number: int) -> str:
    body = json.dumps(_new(random, number))
    async with session.post(
        f"{url}/v1/inference", data=body, headers=JSON | {"prefer": "respond-async"}
    ) as accepted:
        said = await accepted.json()
        if accepted.status != 202:
            return f"task {accepted.status}"
    async with session.get(f"{url}/v1/result/{said['task_id']}?wait_ms=10000") as result:
        return f"task {(await result.json())['status']}"


async def leaver(session: aiohttp.ClientSession, url: str, random: Random, number: int) -> str:
    with suppress(TimeoutError):
        async with asyncio.timeout(LEAVES_AFTER):
            await _asked(session, url, _new(random, number))
    return "left"


async def wrong(session: aiohttp.ClientSession, url: str, random: Random, number: int) -> str:
    return await _asked(session, url, {"inputs": number})


async def hurried(session: aiohttp.ClientSession, url: str, random: Random, number: int) -> str:
    return await _asked(session, url, {**_new(random, number), "timeout_ms": 1})


# How often each comes, in a hundred.
MIX: Sequence[tuple[Kind, int]] = (
    (plain, 60), (again, 10), (keyed, 10), (task, 10), (leaver, 5), (wrong, 3), (hurried, 2),
)  # fmt: skip
# What each may come to. Anything else is a failure.
EXPECTED = {
    "plain 200", "again 200", "keyed 200", "task SUCCESS", "leaver left", "wrong 422",
    "hurried 200", "hurried 503", "hurried 504",
}  # fmt: skip


async def load(urls: Sequence[str], rate: float, seconds: float, seed: int = 1) -> Counter[str]:
    """Asks for so long, at each URL in turn. Returns how often what came of it."""
    random, endings = Random(seed), Counter[str]()
    kinds, weights = zip(*MIX, strict=True)
    began, due = monotonic(), 0.0
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(60)) as session,
        asyncio.TaskGroup() as group,
    ):
        number = 0
        while (due := due + random.expovariate(rate)) < seconds:
            await asyncio.sleep(max(0.0, began + due - monotonic()))
            (kind,) = random.choices(kinds, weights)
            group.create_task(_counted(kind, session, urls[number % len(urls)], random, number, endings))
            number += 1
    return endings


async def _counted(
    kind: Kind, session: aiohttp.ClientSession, url: str, random: Random, number: int, endings: Counter[str]
) -> None:
    try:
        ending = await kind(session, url, random, number)
    except (aiohttp.ClientError, TimeoutError) as error:
        ending = type(error).__name__
    name = getattr(kind, "__name__", "")
    endings[ending if ending.startswith(name) else f"{name} {ending}"] += 1


async def _asked(
    session: aiohttp.ClientSession,
    url: str,
    body: dict[str, object],
    headers: dict[str, str] | None = None,
) -> str:
    async with session.post(
        f"{url}/v1/inference", data=json.dumps(body), headers=JSON | (headers or {})
    ) as answer:
        await answer.read()
        return str(answer.status)


def _new(random: Random, number: int) -> dict[str, object]:
    return {"input": f"{number} {text_of(random.choice(SIZES))}"}
