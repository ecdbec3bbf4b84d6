"""Which sizes of batch the backend of one slot has run, in its warm-up and in idle moments, and which of them fit
into its memory. Each slot has one `Warmth`, tells it of starts and of batches, and lets it run warm-ups. It calls
the backend, tells the dock what came of it, and writes to the log.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import BackendError
from penstock.ports import Backend, Clock
from penstock.runtime.dock import Dock
from penstock.runtime.fit import Fit
from penstock.runtime.idle_ladder import IdleLadder
from penstock.runtime.known_good import KnownGood
from penstock.runtime.warm_up import Warmer
from penstock.types import Batch, Result, Seconds, WarmUp, WorkerId

log = logging.getLogger("penstock.worker")


class Warmth:
    def __init__(
        self,
        worker: WorkerId,
        dock: Dock,
        clock: Clock,
        warmer: Warmer | None,
        idle_sizes: Sequence[int],
        known_good: KnownGood,
        step_limit: Seconds,
    ) -> None:
        """`idle_sizes`: the sizes that are run in idle moments. `step_limit`: seconds that each such batch may
        take."""
        self._worker, self._dock, self._clock = worker, dock, clock
        self._warmer = warmer
        self._ladder = IdleLadder(idle_sizes, known_good, step_limit)
        self.warm_up = WarmUp()  # what came of all warm-up batches since the backend was started
        self.fit = Fit(worker)

    async def make(self, backend: Backend) -> WarmUp | None:
        """Warm up a backend that has started. Returns None if there are no inputs for that. Raises BackendError."""
        return None if self._warmer is None else await self._warmer.run(backend, self._worker)

    def began(self, warm_up: WarmUp | None) -> None:
        """Note that a backend begins to serve. The dock hears what came of its warm-up before its first batch."""
        self.warm_up = WarmUp()
        self._ladder.begin([] if warm_up is None else [rung.size for rung in warm_up.rungs])
        if warm_up is not None:
            self._tell(warm_up)

    def answered(self, batch: Batch, result: Result) -> None:
        """Note that a real batch was answered."""
        size = result.executed or batch.size
        self._ladder.was_real(size)
        self.fit.fits(size)

    @property
    def step_is_due(self) -> bool:
        """Whether there is a batch to run in an idle moment."""
        return self._ladder.is_due(self._clock)

    async def step(self, backend: Backend) -> None:
        """Run the next batch of the idle ladder. If it raises BackendError, there is no next one."""
        try:
            warm_up = await self._ladder.step(backend, self._clock)
        except BackendError as error:
            log.warning(
                "warming up in idle moments failed, and ends",
                extra={"worker": self._worker, "error": error.message},
            )
            raise
        if warm_up is not None:
            self._tell(warm_up)

    def _tell(self, warm_up: WarmUp) -> None:
        self.warm_up = replace(warm_up, rungs=(*self.warm_up.rungs, *warm_up.rungs))
        if warm_up.too_large is not None:
            self.fit.is_below(warm_up.too_large)
        self._dock.warmed(self._worker, warm_up)
