"""Notices that the first batch of a backend takes long, or its warm-up: it may have to load or to compile. Each
slot has one `Loading` (`slot.py`). The batcher is told after a second, so that nobody counts on the slot
meanwhile."""

import asyncio
import logging

from penstock.ports import Clock
from penstock.runtime.dock import Dock
from penstock.runtime.first_batches import FirstBatches
from penstock.types import WorkerId

log = logging.getLogger("penstock.worker")

LOADING = 1.0  # seconds a first batch may run before the worker counts as loading
STILL_LOADING = 10.0  # seconds after which the log says again that the worker is loading


class Loading:
    def __init__(self, worker: WorkerId, dock: Dock, clock: Clock, first_batches: FirstBatches) -> None:
        self._worker, self._dock, self._clock = worker, dock, clock
        self._first_batches = first_batches
        self.now = False  # whether the worker counts as loading
        self._alarm: asyncio.TimerHandle | None = None  # rings when a first batch, or a warm-up, takes long

    def watch_warm_up(self, *, expected: bool) -> None:
        """A warm-up begins. `expected`: the batcher knows already when the slot should be back."""
        self._alarm = asyncio.get_running_loop().call_later(LOADING, self._warms_long, expected)

    def watch_first_batch(self, limit: float) -> None:
        """A first batch begins, which may take so many seconds."""
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(LOADING, self._takes_long, self._clock(), limit)

    def ended(self) -> None:
        """What was watched has ended."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()

    def over(self) -> None:
        """The worker does not count as loading any more."""
        self.now = False

    def _warms_long(self, expected: bool) -> None:
        self.now = True
        if not expected:
            self._dock.loading(self._worker, self._first_batches.longest)

    def _takes_long(self, began: float, limit: float) -> None:
        """Say that a first batch takes long: once to the batcher, and again and again in the log."""
        log.info(
            "loading: the worker is still in its first batch, which timeouts.first_batch bounds",
            extra={"worker": self._worker, "seconds": round(self._clock() - began), "limit": round(limit, 1)},
        )
        self._alarm = asyncio.get_running_loop().call_later(STILL_LOADING, self._takes_long, began, limit)
        if not self.now:
            self.now = True
            self._dock.loading(self._worker, self._first_batches.longest)
