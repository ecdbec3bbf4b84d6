"""Warming up in idle moments, with an input that was answered: where `warm_when_idle` is on.

A slot runs the next step when nothing has been there to do for a while. Each step is one batch, so that a request
that comes in the middle waits for one batch of that size, and no more. Sizes that real batches have had are left
out.
A worker that fails in a step is not asked for more: what it makes of real batches says enough.
"""

import asyncio
from collections.abc import Sequence

from penstock.errors import BackendError, BackendOutOfMemory, BackendTimeout
from penstock.ports import Backend, Clock
from penstock.runtime.known_good import KnownGood
from penstock.types import Batch, Rung, Seconds, WarmUp

QUIET = 0.5  # seconds without a batch before each step
RUNS = 2  # of each size


class IdleLadder:
    """The sizes that one worker has not run yet since its backend was started."""

    def __init__(self, sizes: Sequence[int], known_good: KnownGood, limit: Seconds) -> None:
        """`limit`: seconds that one step may take."""
        self._all = sizes
        self._left = list(sizes)
        self._known_good = known_good
        self._limit = limit
        self._times: list[Seconds] = []  # of the first of those that are left

    def begin(self, ran: Sequence[int]) -> None:
        """A backend has started, and has run these sizes."""
        self._left = [size for size in self._all if size not in ran]
        self._times = []

    def was_real(self, size: int) -> None:
        """A batch of this size was answered."""
        if size in self._left:
            if size == self._left[0]:
                self._times = []
            self._left.remove(size)

    def is_due(self, clock: Clock) -> bool:
        """Whether there is a step to run, and an input to run it with."""
        return bool(self._left) and self._known_good.is_recent(clock())

    async def step(self, backend: Backend, clock: Clock) -> WarmUp | None:
        """Run the next step, which is due. Gives what came of its size, once that has run often enough. Raises
        BackendError: then there are no more steps."""
        size = self._left[0]
        batch = self._known_good.batch(clock(), size)
        assert batch is not None
        began = clock()
        try:
            async with asyncio.timeout(self._limit):
                await backend.run(batch)
        except BackendOutOfMemory:
            self._left = []
            return self._came_of(batch, (), size if size > 1 else None)
        except TimeoutError:
            self._stop()
            raise BackendTimeout(f"a batch of {size} took longer than {self._limit:g} s") from None
        except BackendError:
            self._stop()
            raise
        self._times.append(clock() - began)
        if len(self._times) < RUNS:
            return None
        first, *again = self._times
        self._left.remove(size)
        self._times = []
        return self._came_of(batch, (Rung(size, first, tuple(again)),), None)

    def _stop(self) -> None:
        self._all, self._left = (), []

    def _came_of(self, batch: Batch, rungs: tuple[Rung, ...], too_large: int | None) -> WarmUp:
        return WarmUp(rungs, too_large, len(batch.requests[0].input), real=True)
