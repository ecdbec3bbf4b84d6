"""How a batcher gets slots of other zones, when the workers of its own cannot do in time what waits (`core.spill`).
Each model of a batcher has a `Spiller`, once another zone has workers of it (`cluster/batched_models.py`). It runs
beside the borrower, which takes slots at home.

A slot from abroad is used for one batch. Its worker then stands in the line of its own zone again, as after any
batch. If the slot is not wanted any more when it comes, it goes back at once.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from penstock.cluster.borrowing import AFTER_OUTAGE, PATIENCE
from penstock.core.queued import Sealed
from penstock.errors import StoreDown
from penstock.ports import Clock
from penstock.ports.bus import Credits
from penstock.runtime.pump import Pump
from penstock.types import WorkerId

log = logging.getLogger("penstock.batcher")


class Spiller:
    """Borrows workers of other zones, for one model."""

    def __init__(
        self,
        model: str,
        pump: Pump,
        line: Credits,
        send: Callable[[WorkerId, Sealed], None],
        is_gone: Callable[[str], bool],
        zone_of: Callable[[str], str],
        clock: Clock,
    ) -> None:
        self._model, self._pump, self._line, self._clock = model, pump, line, clock
        self._send, self._is_gone, self._zone_of = send, is_gone, zone_of
        self._zones: Sequence[str] = ()  # the zones that are asked, the first one first
        self._wanted = asyncio.Event()  # set when the workers at home cannot do in time what waits
        pump.on_wants_abroad = self._wanted.set

    def ask(self, zones: Sequence[str]) -> None:
        """Ask these zones from now on, the first one first."""
        if zones != self._zones:
            self._zones = zones
            self._wanted.set()  # whoever found nobody to ask looks again

    async def run(self) -> None:
        """Borrow until cancelled."""
        batcher = self._pump.batcher
        self._wanted.set()  # an earlier run that failed may have missed that a worker is wanted
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._zones and batcher.wants_abroad(self._clock()):
                try:
                    slot = await self._line.take(self._model, PATIENCE, self._zones)
                    if slot is None or self._is_gone(slot):
                        continue
                    if batcher.wants_abroad(self._clock()):
                        self._hold(WorkerId(slot))
                        break  # the next step of the batcher decides, and says if it wants another
                    await self._line.post(self._model, slot, self._zone_of(slot))
                except (StoreDown, OSError) as error:
                    log.debug("no worker abroad can be borrowed", extra={"error": str(error)})
                    await asyncio.sleep(AFTER_OUTAGE)

    def _hold(self, worker: WorkerId) -> None:
        self._pump.attach(worker, lambda batch: self._send(worker, batch))
        self._pump.ready(worker)
