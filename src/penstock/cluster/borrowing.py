"""How a batcher gets slots that it shares with other batchers: it borrows one when something waits, and gives it
back. Each model of a batcher has a `Borrower`. It runs as a loop beside the model's pump, which says when a worker
is wanted.

A free slot stands in the model's line, which all batchers share. Taking it from there is atomic, so that no two
batchers have the same slot. It is taken only when something waits, so batches are bound to slots late. The slot
stays with the batcher, idle, until the batch is due. If nothing waits any more, the slot goes back into the line.
"""

import asyncio
import logging
from collections.abc import Callable

from penstock.core.queued import Sealed
from penstock.errors import StoreDown
from penstock.loops import Loops
from penstock.ports import Clock
from penstock.ports.bus import Credits
from penstock.runtime.pump import Pump
from penstock.types import WorkerId

log = logging.getLogger("penstock.batcher")

HELD = 0.25  # seconds between two looks for workers that nothing waits for, which are given back
PATIENCE = 1.0  # seconds that one look into the line may take
AFTER_OUTAGE = 0.1  # seconds until the next try if the line cannot be reached


class Borrower:
    """Borrows workers for one model."""

    def __init__(
        self,
        model: str,
        pump: Pump,
        line: Credits,
        send: Callable[[WorkerId, Sealed], None],
        is_gone: Callable[[str], bool],
        clock: Clock,
        zone_of: Callable[[str], str | None] = lambda slot: None,
    ) -> None:
        """`is_gone`: says whether a slot is known to have gone, though it still stood in the line.
        `zone_of`: says into which zone's line a slot goes back; None: into that at home."""
        self._model = model
        self._pump = pump
        self._line = line
        self._send = send
        self._is_gone, self._zone_of = is_gone, zone_of
        self._clock = clock
        self._wanted = asyncio.Event()  # set when something waits for a worker
        pump.on_wants = self._wanted.set

    async def run(self) -> None:
        """Borrow and give back until cancelled."""
        async with Loops() as loops:
            loops.keep("borrowing", self._borrow)
            loops.keep("giving back", self._give_back)

    async def _borrow(self) -> None:
        batcher = self._pump.batcher
        self._wanted.set()  # an earlier run that failed may have missed that a worker is wanted
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while batcher.wants_worker(self._clock()):
                try:
                    slot = await self._line.take(self._model, PATIENCE)
                except (StoreDown, OSError) as error:
                    log.debug("no worker can be borrowed", extra={"error": str(error)})
                    await asyncio.sleep(AFTER_OUTAGE)
                    continue
                if slot is not None and not self._is_gone(slot):
                    await self._take(WorkerId(slot))
                    break  # the next step of the batcher decides, and says if it wants another

    async def _take(self, worker: WorkerId) -> None:
        """Hold a slot from the line, or give it back at once: what it was wanted for may have gone elsewhere."""
        self._hold(worker)
        if not self._pump.batcher.has_work(self._clock()):
            await self._lend(worker)

    def _hold(self, worker: WorkerId) -> None:
        self._pump.attach(worker, lambda batch: self._send(worker, batch))
        self._pump.ready(worker)

    async def _give_back(self) -> None:
        """Give back the slots that nothing has waited for at two looks in a row. A request that comes before finds
        them here."""
        idle: set[WorkerId] = set()
        while True:
            await asyncio.sleep(HELD)
            spare = set(self._pump.batcher.spare(self._clock()))
            for worker in idle & spare:
                await self._lend(worker)
            idle = spare - idle

    async def _lend(self, worker: WorkerId) -> None:
        self._pump.lent(worker)
        try:
            await self._line.post(self._model, worker, self._zone_of(worker))
        except (StoreDown, OSError) as error:  # the worker's slot will say again that it is free
            log.debug("a worker could not be given back", extra={"error": str(error)})
