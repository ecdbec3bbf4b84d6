"""Lets large bodies be read one at a time, in steps, with breaks in which the event loop does other things.

To read and check a mebibyte can take 30 ms, which would hold up everything else. So there is a break after each few
milliseconds, and a rest at the end: in all, three times as long as the work. So all bodies in one line together
have a quarter of the loop's time, however many they are, and a body that comes alone does not wait long. Tenants
take turns, so that none waits for all that another has sent.

There are three lines: for bodies (`data_plane.py`), for large results of tasks (`results.py`), and for the pages
that are open to all (`document.py`). To write a result of a mebibyte takes less than 0.1 ms. In the line of the
bodies it would wait 120 ms for each mebibyte before it, and a tenant's result would wait for all bodies that this
tenant has sent.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from penstock.doors.steps import Steps
from penstock.edge.held import give_memory_back
from penstock.ports import Clock

LARGE = 32 * 1024  # bytes; a larger body waits for its turn
AT_A_TIME = 0.002  # seconds of steps without a break; the last step may take a little longer
BREAK = 1.0  # the length of a break, as a multiple of the steps before it
REST = 3.0  # the length of the rest, as a multiple of what a body took in all, its breaks included
CALM = 1.0  # seconds without a large body, after which their memory is given back to the system
WORTH_A_TRIM = 16  # after fewer large bodies no memory is given back

T = TypeVar("T")


class LargeBodies:
    """One line of large bodies, or of large answers, that wait for their turn."""

    def __init__(self, clock: Clock, trim: Callable[[], object] | None = None) -> None:
        self._clock = clock
        self._trim = trim or give_memory_back
        self._calm: asyncio.TimerHandle | None = None
        self._looked = 0  # bodies looked through since memory was given back
        self._taken = False
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}  # who waits, by tenant; the next one first

    async def look(self, tenant: str, steps: Steps[T]) -> T:
        await self._begin(tenant)
        began, owed = self._clock(), 0.0  # seconds of rest that are left for the end
        try:
            while True:
                next(steps)
                took = self._clock() - began
                if took >= AT_A_TIME:
                    owed += (REST - BREAK) * took
                    await asyncio.sleep(BREAK * took)
                    began = self._clock()
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            self._rest(owed + REST * (self._clock() - began))

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """Wait for a turn. The work within it is one step."""
        await self._begin(tenant)
        began = self._clock()
        try:
            yield
        finally:
            self._rest(REST * (self._clock() - began))

    async def _begin(self, tenant: str) -> None:
        if self._taken:
            await self._wait(tenant)
        self._taken = True
        if self._calm is not None:
            self._calm.cancel()
            self._calm = None
        self._looked += 1

    def _rest(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._next)

    async def _wait(self, tenant: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # the waiter already had its turn
                self._next()
            raise

    def _next(self) -> None:
        while self._lines:
            tenant = next(iter(self._lines))
            line = self._lines.pop(tenant)
            waiter = line.popleft()
            if line:
                self._lines[tenant] = line  # this tenant gets in line behind the others
            if not waiter.done():  # otherwise its client has gone
                waiter.set_result(None)
                return
        self._taken = False
        if self._looked >= WORTH_A_TRIM:
            self._calm = asyncio.get_running_loop().call_later(CALM, self._give_back)

    def _give_back(self) -> None:
        self._looked = 0
        self._trim()
