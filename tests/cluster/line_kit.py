"""The line of free workers, without a Redis: it can be watched, and it can go away."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from penstock.errors import StoreDown


class FakeLine:
    """The first come is the first taken; a second posting of the same slot changes nothing."""

    def __init__(self, *slots: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.slots = list(slots)
        self.down = False
        self.seconds = 0.0  # that it takes to enter or leave the line
        self.takers = 0  # who stand at the line now
        self.takes = 0
        self.posted: list[tuple[float, str]] = []
        self.withdrawn: Counter[str] = Counter()
        self._news = asyncio.Event()

    async def take(self, model: str, block_seconds: float, abroad: Sequence[str] = ()) -> str | None:
        self.takes += 1
        self._reach(model)
        self.takers += 1
        try:
            async with asyncio.timeout(block_seconds):
                while not self.slots:
                    self._news.clear()
                    await self._news.wait()
                    self._reach(model)
            return self.slots.pop(0)
        except TimeoutError:
            return None
        finally:
            self.takers -= 1

    async def post(self, model: str, slot: str, zone: str | None = None) -> bool:
        self._reach(model)
        await asyncio.sleep(self.seconds)
        self.posted.append((self._loop.time(), slot))
        new = slot not in self.slots
        if new:
            self.slots.append(slot)
        self._news.set()
        return new

    async def withdraw(self, model: str, slot: str) -> bool:
        self._reach(model)
        self.withdrawn[slot] += 1
        await asyncio.sleep(self.seconds)
        found = slot in self.slots
        if found:
            self.slots.remove(slot)
        return found

    def go_down(self) -> None:
        """Whoever stands at it is told so."""
        self.down = True
        self._news.set()

    def _reach(self, model: str) -> None:
        assert model == "model"
        if self.down:
            raise StoreDown("the line is away")
