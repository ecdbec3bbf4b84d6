"""The line of idle slots (places of workers that can take a batch) in memory. For each model it holds the idle
slots in their order or, while there are none, the batchers that wait for one. In tests, workers post their slots
here and batchers take them."""

import asyncio
from collections import OrderedDict, deque


class Line:
    """The line of one model."""

    def __init__(self) -> None:
        self.slots: OrderedDict[str, None] = OrderedDict()
        self.takers: deque[asyncio.Future[str]] = deque()  # batchers that wait for a slot

    def post(self, slot: str, *, first: bool = False) -> bool:
        """Give the slot to a batcher that waits for one, or put it into the line: at its end, or `first`. Returns
        False if it stood in the line already."""
        while self.takers:
            taker = self.takers.popleft()
            if not taker.done():
                taker.set_result(slot)
                return True
        new = slot not in self.slots
        self.slots[slot] = None
        if first:
            self.slots.move_to_end(slot, last=False)
        return new


class MemoryCredits:
    """Implements `ports.bus.Credits`."""

    def __init__(self, lines: dict[str, Line]) -> None:
        self._lines = lines

    async def take(self, model: str, block_seconds: float) -> str | None:
        line = self._line(model)
        if line.slots:
            return line.slots.popitem(last=False)[0]
        taker: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        line.takers.append(taker)
        try:
            await asyncio.wait([taker], timeout=block_seconds)
        except asyncio.CancelledError:
            if taker.done():  # the batcher was given a slot in the very moment in which it left
                line.post(taker.result(), first=True)
            raise
        finally:
            if not taker.done():
                line.takers.remove(taker)
        return taker.result() if taker.done() else None

    async def post(self, model: str, slot: str) -> bool:
        return self._line(model).post(slot)

    async def withdraw(self, model: str, slot: str) -> bool:
        slots = self._line(model).slots
        if slot not in slots:
            return False
        del slots[slot]
        return True

    def _line(self, model: str) -> Line:
        line = self._lines.get(model)
        if line is None:
            line = self._lines[model] = Line()
        return line
