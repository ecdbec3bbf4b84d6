"""The lines of idle slots in memory, one for each model and zone. A line holds the idle slots in their order or,
while there are none, the batchers that wait for one. `bus.py` makes the `MemoryCredits`, for tests in which workers
post their slots here and batchers take them."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence


class Line:
    """The line of one model in one zone."""

    def __init__(self) -> None:
        self.slots: OrderedDict[str, None] = OrderedDict()
        # Batchers that wait for a slot, here and perhaps in other lines too. Each is told from which line it came.
        self.takers: deque[asyncio.Future[tuple[str, Line]]] = deque()

    def post(self, slot: str, *, first: bool = False) -> bool:
        """Give the slot to a batcher that waits for one, or put it into the line: at its end, or `first`. Returns
        False if it stood in the line already."""
        while self.takers:
            taker = self.takers.popleft()
            if not taker.done():
                taker.set_result((slot, self))
                return True
        new = slot not in self.slots
        self.slots[slot] = None
        if first:
            self.slots.move_to_end(slot, last=False)
        return new


class MemoryCredits:
    """Implements `ports.bus.Credits`."""

    def __init__(self, lines: dict[tuple[str, str], Line], zone: str = "") -> None:
        """`lines`: by model and zone. `zone`: whose line is the one at home."""
        self._lines, self._zone = lines, zone

    async def take(self, model: str, block_seconds: float, abroad: Sequence[str] = ()) -> str | None:
        lines = [self._line(model, zone) for zone in abroad or (self._zone,)]
        for line in lines:
            if line.slots:
                return line.slots.popitem(last=False)[0]
        taker: asyncio.Future[tuple[str, Line]] = asyncio.get_running_loop().create_future()
        for line in lines:
            line.takers.append(taker)
        try:
            await asyncio.wait([taker], timeout=block_seconds)
        except asyncio.CancelledError:
            if taker.done():  # the batcher was given a slot in the very moment in which it left
                slot, line = taker.result()
                line.post(slot, first=True)
            raise
        finally:
            for line in lines:
                if taker in line.takers:
                    line.takers.remove(taker)
        return taker.result()[0] if taker.done() else None

    async def post(self, model: str, slot: str, zone: str | None = None) -> bool:
        return self._line(model, self._zone if zone is None else zone).post(slot)

    async def withdraw(self, model: str, slot: str) -> bool:
        slots = self._line(model, self._zone).slots
        if slot not in slots:
            return False
        del slots[slot]
        return True

    def _line(self, model: str, zone: str) -> Line:
        line = self._lines.get((model, zone))
        if line is None:
            line = self._lines[model, zone] = Line()
        return line
