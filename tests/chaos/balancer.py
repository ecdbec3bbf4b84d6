"""What stands before several gateways: each new request goes to the next one that says it is ready."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol
from urllib.parse import urlsplit

from history import Ask, History
from open_loop import drive

EVERY = 0.05  # seconds between two looks at a gateway
HUNG = 30.0  # seconds: one that is gone refuses at once, and one that is late is still as ready as it was


class Gateway(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def admin_url(self) -> str: ...

    @property
    def alive(self) -> bool: ...


class Balancer:
    def __init__(self, gateways: Sequence[Gateway]) -> None:
        self._gateways = gateways
        self._ready: dict[int, str] = {}  # by the gateway's number: where it serves
        self._turn = 0

    def __call__(self) -> str | None:
        """Where the next request goes; None when nobody is ready."""
        self._turn += 1
        ready = list(self._ready.values())
        return ready[self._turn % len(ready)] if ready else None

    async def look(self, number: int) -> None:
        gateway = self._gateways[number]
        if gateway.alive and await _is_ready(gateway.admin_url):
            self._ready[number] = gateway.url
        else:
            self._ready.pop(number, None)


async def _is_ready(url: str) -> bool:
    host, _, port = urlsplit(url).netloc.rpartition(":")
    try:
        async with asyncio.timeout(HUNG):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(b"GET /readyz HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
                return (await reader.readline()).split(b" ")[1:2] == [b"200"]
            finally:
                writer.close()
    except OSError:  # a TimeoutError is one too
        return False


@asynccontextmanager
async def balancing(gateways: Sequence[Gateway]) -> AsyncIterator[Balancer]:
    balancer = Balancer(gateways)

    async def watch(number: int) -> None:
        while True:
            await balancer.look(number)
            await asyncio.sleep(EVERY)

    numbers = range(len(gateways))
    await asyncio.gather(*map(balancer.look, numbers))
    tasks = [asyncio.create_task(watch(number)) for number in numbers]
    try:
        yield balancer
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def drive_all(
    gateways: Sequence[Gateway],
    schedule: Sequence[Ask],
    seed: int,
    fault: Callable[[], Coroutine[None, None, None]] | None = None,
    *,
    retry: bool = False,
    keyed: bool = False,
    keys: Mapping[str, str] | None = None,
) -> History:
    """Send the schedule to all of them in turn, while the fault takes its course."""
    async with balancing(gateways) as balancer, asyncio.TaskGroup() as group:
        if fault is not None:
            group.create_task(fault())
        return await drive(balancer, schedule, seed, retry=retry, keyed=keyed, keys=keys)
