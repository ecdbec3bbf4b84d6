"""Warming up in idle moments, with an input that was answered before. A slot that has nothing to do asks through
its `warmth` for the next step; there are steps only where `warm_when_idle` is on.

A slot runs the next step when it has had nothing to do for a while. Each step is one batch, so that a request that
comes meanwhile waits for one batch of that size, and no more. Sizes that real batches have had are left out.

If a batch does not fit into memory, there are no more steps until the backend is started anew. After any other
failure there are no more at all: how the worker does with real batches says enough.
"""

import asyncio
from collections.abc import Sequence

from penstock.errors import BackendError, BackendOutOfMemory, BackendTimeout
from penstock.ports import Backend, Clock
from penstock.runtime.known_good import KnownGood
from penstock.types import Batch, Rung, Seconds, WarmUp

QUIET = 0.5  # seconds without a batch before each step
RUNS = 2  # batches of each size


class IdleLadder:
    """The sizes that one worker has not run yet since its backend was started."""

    def __init__(self, sizes: Sequence[int], known_good: KnownGood, limit: Seconds) -> None:
        """`limit`: seconds that one step may take."""
        self._all = sizes
        self._left = list(sizes)
        self._known_good = known_good
        self._limit = limit
        self._times: list[Seconds] = []  # how long the batches of the current size took, the first of `_left`

    def begin(self, ran: Sequence[int]) -> None:
        """Begin again, since a backend has started; `ran`: the sizes that it has run already."""
        self._left = [size for size in self._all if size not in ran]
        self._times = []

    def was_real(self, size: int) -> None:
        """Leave this size out from now on, since a real batch of it was answered."""
        if size in self._left:
            if size == self._left[0]:
                self._times = []
            self._left.remove(size)

    def is_due(self, clock: Clock) -> bool:
        """Whether there is a step to run, and an input to run it with."""
        return bool(self._left) and self._known_good.is_recent(clock())

    async def step(self, backend: Backend, clock: Clock) -> WarmUp | None:
        """Run the next step, which is due. Returns what came of its size once the size has run often enough or did
        not fit into memory; before that, None. If it raises BackendError, there are no more steps."""
        size = self._left[0]
        batch = self._known_good.batch(clock(), size)
        assert batch is not None
        began = clock()
        try:
            async with asyncio.timeout(self._limit):
                await backend.run(batch)
        except BackendOutOfMemory:
            self._left = []
            # If one input alone does not fit, no smaller size could be tried, so no size is reported.
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
