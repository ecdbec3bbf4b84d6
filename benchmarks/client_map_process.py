"""One client: `python -m benchmarks.client_map_process KIND URL INPUTS CONCURRENCY`. `client_map` runs it, and
reads how many answers were good and how many seconds they took.

All kinds send the same texts, and check that each answer is the one for its text."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import aiohttp
import uvloop

from benchmarks.echo import TEXT
from penstock.client import AsyncClient, Client
from penstock.client.async_client import Transport

WARM_UP = 500  # inputs


def texts(count: int) -> Iterator[str]:
    for index in range(count):
        yield f"{index:08d}{TEXT[8:]}"


def by_map(url: str, count: int, concurrency: int) -> tuple[int, float]:
    with Client(url) as client:
        for _ in client.map(texts(WARM_UP), concurrency=concurrency):
            pass
        began = time.perf_counter()
        good = sum(
            done.output == done.input
            for done in client.map(texts(count), concurrency=concurrency, output=str)
        )
        return good, time.perf_counter() - began


async def by_async_map(
    url: str, count: int, concurrency: int, transport: Transport = "http"
) -> tuple[int, float]:
    async with AsyncClient(url, transport=transport) as client:
        async for _ in client.map(texts(WARM_UP), concurrency=concurrency):
            pass
        began, good = time.perf_counter(), 0
        async for done in client.map(texts(count), concurrency=concurrency, output=str):
            good += done.output == done.input
        return good, time.perf_counter() - began


async def by_websocket(url: str, count: int, concurrency: int) -> tuple[int, float]:
    return await by_async_map(url, count, concurrency, "websocket")


async def by_infer(url: str, count: int, concurrency: int) -> tuple[int, float]:
    async with AsyncClient(url) as client:

        async def work(source: Iterator[str]) -> int:
            return sum([(await client.infer(text, output=str)).output == text for text in source])

        return await _in_tasks(work, count, concurrency)


async def by_aiohttp(url: str, count: int, concurrency: int) -> tuple[int, float]:
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def work(source: Iterator[str]) -> int:
            good = 0
            for text in source:
                async with session.post(f"{url}/v1/inference", json={"input": text}) as response:
                    good += (await response.json())["output"] == text
            return good

        return await _in_tasks(work, count, concurrency)


async def _in_tasks(
    work: Callable[[Iterator[str]], Coroutine[Any, Any, int]], count: int, concurrency: int
) -> tuple[int, float]:
    source = texts(WARM_UP)
    await asyncio.gather(*(work(source) for _ in range(concurrency)))
    source, began = texts(count), time.perf_counter()
    good = sum(await asyncio.gather(*(work(source) for _ in range(concurrency))))
    return good, time.perf_counter() - began


def main() -> None:
    kind, url, count, concurrency = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if kind == "map":
        good, seconds = by_map(url, count, concurrency)
    else:
        run = {
            "map_async": by_async_map,
            "websocket": by_websocket,
            "infer": by_infer,
            "aiohttp": by_aiohttp,
        }[kind]
        good, seconds = uvloop.run(run(url, count, concurrency))
    print(json.dumps({"good": good, "seconds": seconds}))


if __name__ == "__main__":
    main()
