"""Runs batches on the backend of one slot, each within its limit, and says what came of them. Each slot has one
`Executor` (`slot.py`), which does not outlive it, but its backends do not last as long."""

import asyncio
import logging
from functools import partial
from typing import TypeGuard

from penstock.errors import BackendBusy, BackendError, BackendTimeout
from penstock.ports import Backend, Clock
from penstock.runtime.collapse.once_each import Sameness, run_once_each
from penstock.runtime.first_batches import FirstBatches
from penstock.runtime.limit import Limit
from penstock.runtime.loading import Loading
from penstock.runtime.padding import Padding
from penstock.types import Batch, Failure, Result, WorkerId

log = logging.getLogger("penstock.worker")

Ended = tuple[Result | Failure, bool]  # what came of a batch, and whether the backend must be started anew


class Executor:
    def __init__(
        self,
        worker: WorkerId,
        clock: Clock,
        loading: Loading,
        first_batches: FirstBatches,
        first_batch_limit: float,
        sameness: Sameness | None,
        padding: Padding | None,
    ) -> None:
        self._worker, self._clock = worker, clock
        self._loading, self._first_batches = loading, first_batches
        self._first_batch_limit = first_batch_limit
        self._sameness, self._padding = sameness, padding
        self._working = Limit(first_batch_limit)
        # Whether the backend has answered since it was started: no further batch is its first.
        self.answered = False

    def began(self, *, warm: bool) -> None:
        """Note that a backend begins to serve. `warm`: its first batch is like any other."""
        self.answered = warm

    def has_answered(self) -> None:
        self.answered = True

    def close(self) -> None:
        self._working.close()

    async def run(self, backend: Backend, batch: Batch) -> Result:
        """Run a batch, without a limit. Raises BackendError."""
        if self._sameness is None:
            return await self._run_padded(backend, batch)
        return await run_once_each(partial(self._run_padded, backend), batch, self._sameness)

    async def _run_padded(self, backend: Backend, batch: Batch) -> Result:
        if self._padding is None:
            return await backend.run(batch)
        return await self._padding.run(backend, batch)

    async def execute(
        self,
        backend: Backend,
        batch: Batch,
        processing_limit: float,
        running: asyncio.Task[Result] | None = None,
    ) -> Ended:
        """Run a batch within its limit, which is `processing_limit` if it brings none of its own.

        `running`: the run itself, if the backend was given the batch ahead. An error is not kept beyond its
        `except`: its traceback would keep the batch and the dead backend alive until the cycle collector runs,
        which is rare.
        """
        limit = batch.limit or processing_limit
        if not self.answered:
            limit = self._first_batches.limit(limit, self._first_batch_limit)
            return await self._execute_first(backend, batch, limit)
        try:
            with self._working.within(limit):
                return await (running or self.run(backend, batch)), False
        except TimeoutError:
            message = _hung(limit, processing_limit, "timeouts.processing")
            return self._failure(batch, BackendTimeout(message))
        except BackendError as error:
            return self._failure(batch, error)

    async def _execute_first(self, backend: Backend, batch: Batch, limit: float) -> Ended:
        """Run the first batch since the backend was started. It has a longer limit."""
        began = self._clock()
        self._loading.watch_first_batch(limit)
        try:
            with self._working.within(limit):
                result = await self.run(backend, batch)
        except TimeoutError:
            message = _hung(limit, self._first_batch_limit, "timeouts.first_batch")
            return self._failure(batch, BackendTimeout(message))
        except BackendError as error:
            self.answered = not error.fatal and not isinstance(error, BackendBusy)
            return self._failure(batch, error)
        finally:
            self._loading.ended()
        self.answered = True
        seconds = self._clock() - began
        self._first_batches.took(seconds)
        if self._loading.now:
            log.info("worker loaded", extra={"worker": self._worker, "seconds": round(seconds, 3)})
        return result, False

    def _failure(self, batch: Batch, error: BackendError) -> tuple[Failure, bool]:
        if isinstance(error, BackendBusy):
            return Failure.of(error), False
        log.warning(
            "batch failed",
            extra={"worker": self._worker, "batch": batch.id, "size": batch.size, "error": error.message},
        )
        return Failure.of(error, details=error.details), error.fatal


def wants_it_later(outcome: Result | Failure) -> TypeGuard[Failure]:
    """Whether the backend refused a batch only because it is busy."""
    return isinstance(outcome, Failure) and outcome.code == BackendBusy.code


def _hung(limit: float, longest: float, setting: str) -> str:
    """The failure of a batch that ran too long. It says which setting cut it short."""
    if limit >= longest:
        return f"the backend did not answer within {limit:g} s, which is all that {setting} allows"
    return (
        f"the backend did not answer within {limit:.3g} s, several times what its batches usually take"
        f" (at most {setting}, {longest:g} s)"
    )
