"""Starts the backends of one slot and warms them up: the one that serves next, and one that is prepared beside it
and takes over. Each slot has one `Starting` (`slot.py`)."""

import asyncio

from penstock.errors import BackendTimeout
from penstock.ports import Backend, Clock
from penstock.runtime.first_batches import FirstBatches
from penstock.runtime.loading import Loading
from penstock.runtime.warmth import Warmth
from penstock.types import WarmUp


class Starting:
    def __init__(
        self, clock: Clock, limit: float, warmth: Warmth, loading: Loading, first_batches: FirstBatches
    ) -> None:
        """`limit`: seconds that a start may take, without the warm-up."""
        self._clock, self._limit = clock, limit
        self._warmth, self._loading, self._first_batches = warmth, loading, first_batches
        self.took: float | None = None  # seconds that starting took last time
        # A backend that has started and was warmed up, and takes over after the batch in hand.
        self.successor: Backend | None = None
        self._successor_warm_up: WarmUp | None = None

    async def start(self, backend: Backend) -> WarmUp | None:
        """Start a backend and warm it up. If the warm-up takes long, the worker counts as loading. Raises
        BackendError."""
        await self._open(backend)
        began = self._clock()
        self._loading.watch_warm_up(expected=self.took is not None)
        try:
            warm_up = await self._warmth.make(backend)
        finally:
            self._loading.ended()
            self._loading.over()
        if warm_up is not None:
            self._first_batches.took(self._clock() - began)
        return warm_up

    async def prepare(self, backend: Backend) -> WarmUp | None:
        """Start a backend that is to take over, and warm it up. Raises BackendError; it is then closed."""
        try:
            await self._open(backend)
            return await self._warmth.make(backend)
        except BaseException:
            await backend.close()
            raise

    async def _open(self, backend: Backend) -> None:
        try:
            async with asyncio.timeout(self._limit):
                await backend.start()
        except TimeoutError:
            raise BackendTimeout(
                f"it did not start within {self._limit:g} s; raise start_timeout if it needs more"
            ) from None

    def succeed(self, backend: Backend, warm_up: WarmUp | None) -> Backend | None:
        """Note a successor, which was prepared. Returns one that was still waiting to take over, if any."""
        waited, self.successor = self.successor, backend
        self._successor_warm_up = warm_up
        return waited

    def take_successor(self) -> tuple[Backend, WarmUp | None] | None:
        """Returns the backend that takes over now, and what came of its warm-up; None if there is none."""
        successor, self.successor = self.successor, None
        return None if successor is None else (successor, self._successor_warm_up)

    def succeeded(self, seconds: float) -> None:
        """Note how long a start took, its warm-up included."""
        self.took = seconds
