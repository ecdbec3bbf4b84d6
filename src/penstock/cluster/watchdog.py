"""Ends batches of whose end nobody has told. A living worker ends every batch within its time limit, so if no
message comes for long after that, it was lost. A batcher runs its `Watchdog` as a loop, which looks through the
pumps, and asks it how late the message of a batch's end came."""

import asyncio
import logging
from collections.abc import Mapping

from penstock.ports import Clock
from penstock.runtime.pump import Pump
from penstock.types import WorkerId
from penstock.words.messages import Finished

log = logging.getLogger("penstock.batcher")


class Watchdog:
    def __init__(self, pumps: Mapping[str, Pump], heartbeat: float, lease: float, clock: Clock) -> None:
        """`pumps`: by the name of the model."""
        self._pumps = pumps
        self._heartbeat, self._lease = heartbeat, lease
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled, look for batches of which nothing was heard for their limit and a lease. Their requests
        are tried again, and their workers count as healthy."""
        while True:
            await asyncio.sleep(self._heartbeat)
            now = self._clock()
            for pump in self._pumps.values():
                for worker in list(pump.batcher.fleet.workers.values()):
                    if worker.batch is None or worker.loading:
                        continue
                    if now - worker.started > worker.batch.limit + self._lease:
                        log.warning(
                            "no word of a batch", extra={"worker": worker.id, "batch": worker.batch.id}
                        )
                        _give_up(pump, worker.id)

    def unsent(self, slot: str, batch: int) -> None:
        """Give up a batch that may not have reached its slot, since the bus was away. No word of it would come, and
        its limit may be long. `batch`: its number."""
        for pump in self._pumps.values():
            worker = pump.batcher.fleet.workers.get(WorkerId(slot))
            if worker is not None and worker.batch is not None and worker.batch.id == batch:
                log.warning("a batch was not sent", extra={"worker": slot, "batch": batch})
                _give_up(pump, worker.id)

    def held_up(self, pump: Pump, message: Finished) -> float:
        """How many seconds the message of a batch's end was on its way; 0 if that is less than a heartbeat. If it
        took longer, the bus was away, and that time must not count as the worker's."""
        worker = pump.batcher.fleet.workers.get(WorkerId(message.slot))
        if worker is None or worker.batch is None:
            return 0.0
        way = self._clock() - worker.started - message.seconds
        return way if way > self._heartbeat else 0.0


def _give_up(pump: Pump, worker: WorkerId) -> None:
    """Have the requests of the worker's batch tried again. The worker counts as healthy."""
    pump.gone(worker, None)
    pump.known(worker)
