"""Large bodies are looked through one at a time, and the loop rests between two.

To look through a mebibyte can take 30 ms, and nothing else runs meanwhile. So the next one waits three times as
long as the last one took: all large bodies together have a quarter of the loop's time, however many there are.
Tenants take turns, and nobody waits for all that another one has sent.
"""

import asyncio
import ctypes
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from penstock.ports import Clock

LARGE = 32 * 1024  # bytes of a body that waits for its turn
REST = 3.0  # times as long as the last one took
CALM = 1.0  # seconds without a large body, after which the memory that they took is given back
WORTH_A_TRIM = 16  # large bodies


class LargeBodies:
    def __init__(self, clock: Clock, trim: Callable[[], object] | None = None) -> None:
        self._clock = clock
        self._trim = trim or _give_memory_back
        self._calm: asyncio.TimerHandle | None = None
        self._looked = 0  # at so many since memory was given back
        self._taken = False
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}  # of each tenant, the next one first

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        if self._taken:
            await self._wait(tenant)
        self._taken = True
        if self._calm is not None:
            self._calm.cancel()
            self._calm = None
        self._looked += 1
        began = self._clock()
        try:
            yield
        finally:
            asyncio.get_running_loop().call_later(REST * (self._clock() - began), self._next)

    async def _wait(self, tenant: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was its turn already
                self._next()
            raise

    def _next(self) -> None:
        while self._lines:
            tenant = next(iter(self._lines))
            line = self._lines.pop(tenant)
            waiter = line.popleft()
            if line:
                self._lines[tenant] = line  # behind the others
            if not waiter.done():  # else its client has gone
                waiter.set_result(None)
                return
        self._taken = False
        if self._looked >= WORTH_A_TRIM:
            self._calm = asyncio.get_running_loop().call_later(CALM, self._give_back)

    def _give_back(self) -> None:
        self._looked = 0
        self._trim()


def _give_memory_back() -> None:
    """What it took to look through a large body lies in pieces that may be of no use to others."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
