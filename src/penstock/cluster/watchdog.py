"""Ends batches of which no word comes. A living worker ends every batch within its limit, so such a word is
lost."""

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
        """Give up batches without a word, and count their workers as idle, until cancelled."""
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
                        pump.gone(worker.id, None)
                        pump.known(worker.id)

    def held_up(self, pump: Pump, message: Finished) -> float:
        """Seconds that the word of a batch's end was on its way, if that is more than a heartbeat. So long a way
        means that the bus was away, and must not count as the worker's time."""
        worker = pump.batcher.fleet.workers.get(WorkerId(message.slot))
        if worker is None or worker.batch is None:
            return 0.0
        way = self._clock() - worker.started - message.seconds
        return way if way > self._heartbeat else 0.0
