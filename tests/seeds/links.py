"""The way between a process and the bus: it takes time, and it can be cut in either direction. A call whose way
there is cut was never made. If the way back is cut, it was made, and the process does not know."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from penstock.errors import StoreDown
from seeds.processes import Process, at_the_bus

T = TypeVar("T")

SILENCE = 0.1  # seconds after which a process takes the bus for away
QUICK = 0.0005  # seconds of one way, at most, when all is well


class Sea:
    """What lies between all processes and the bus."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.away = False  # whether the bus answers nobody


class Link:
    """The way of one process."""

    def __init__(self, sea: Sea, process: Process) -> None:
        self._sea, self._process = sea, process
        self.there_cut = self.back_cut = False
        self.slow = 0.0  # seconds that each way may take longer

    @property
    def well(self) -> bool:
        return not (self.there_cut or self.back_cut or self.slow)

    def mend(self) -> None:
        self.there_cut = self.back_cut = False
        self.slow = 0.0

    async def there(self) -> None:
        await self._pass()
        if self.there_cut or self._sea.away:
            await self._silence()

    async def back(self) -> None:
        if self.slow or self._sea.rng.random() < 0.5:  # else the answer is there at once
            await self._pass()
        if self.back_cut or self._sea.away:
            await self._silence()

    async def ask(self, what: Callable[[], T]) -> T:
        """Have something done at the bus, and return what came of it. Raises StoreDown."""
        await self.there()
        answer = what()
        await self.back()
        return answer

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done at the bus that takes its time there. Raises StoreDown."""
        try:
            await self.there()
        except BaseException:
            work.close()
            raise
        waiting = await at_the_bus(work)
        self._process.on_killed.append(waiting.cancel)
        try:
            answer: T = await asyncio.shield(waiting)
        finally:
            waiting.cancel()
            self._process.on_killed.remove(waiting.cancel)
        await self.back()
        return answer

    async def _pass(self) -> None:
        if not self._process.alive:
            raise asyncio.CancelledError  # it is being buried
        await asyncio.sleep(self._sea.rng.uniform(0.0, QUICK + self.slow))

    async def _silence(self) -> None:
        await asyncio.sleep(SILENCE)
        raise StoreDown("the bus does not answer", retry_after=1.0)
