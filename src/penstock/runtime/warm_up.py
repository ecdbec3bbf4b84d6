"""Warming a worker up: batches that nobody asked for, so that no client pays for a size that is new.

    each size of the ladder, the smallest first   once, and then again: up to `AGAIN` times, or for `ENOUGH` seconds
    a size does not fit into memory               the ladder ends there; the worker is ready, with smaller batches
    anything else goes wrong                      the worker is not ready

A slot calls it (through `warmth`) when its backend has started, and for a backend that is to take over. Each batch
has a time limit, but the whole warm-up has none: a slow one may go on, and one that hangs is ended.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from statistics import median

from penstock.errors import BackendError, BackendOutOfMemory, BackendTimeout, BackendUnavailable
from penstock.ports import Backend, Clock
from penstock.types import Batch, Reason, Request, Result, Rung, Seconds, WarmUp, WorkerId

log = logging.getLogger("penstock.worker")

AGAIN, ENOUGH = 4, 0.1  # a size is run again at most so often, or until that took so many seconds in all


class Warmer:
    """Warms up the workers of one model."""

    def __init__(
        self,
        model: str,
        target: str,
        inputs: Sequence[bytes] | None,
        sizes: Sequence[int],
        limit: Seconds,
        clock: Clock,
        *,
        per_item: bool = False,
        fits: Callable[[Sequence[bytes]], bool] = lambda inputs: True,
    ) -> None:
        """`inputs`: as JSON; if empty, those that the backend brings; if None, nothing is run. `limit`: seconds
        that one batch may take. `fits`: says whether inputs cost no more than one batch may."""
        self._model, self._target = model, target
        self._inputs, self._sizes, self._limit = inputs, sizes, limit
        self._clock = clock
        self._per_item, self._fits = per_item, fits

    async def run(self, backend: Backend, worker: WorkerId) -> WarmUp | None:
        """Warm up a backend that has started. Returns None if there are no inputs for that. Raises BackendError."""
        if self._inputs is None:
            return None
        inputs = self._inputs or getattr(backend, "warm_up_inputs", ())
        if not inputs:
            return None
        rungs, too_large = list[Rung](), None
        batches = list(self._batches(inputs))
        for number, batch in enumerate(batches, 1):
            try:
                rung = await self._rung(backend, batch)
            except BackendOutOfMemory as error:
                if len(batch) == 1:
                    raise self._failed(batch, error) from None
                too_large = len(batch)
                log.info(
                    "warming up %d of %d: %d did not fit into memory", number, len(batches), too_large,
                    extra={"worker": worker, "error": error.message},
                )  # fmt: skip
                break
            rungs.append(rung)
            log.info(
                "warming up %d of %d: %d in %s, again %s",
                number, len(batches), rung.size, _ms(rung.first), _ms(median(rung.again)),
                extra={"worker": worker},
            )  # fmt: skip
        return WarmUp(tuple(rungs), too_large, max(map(len, inputs)))

    def _batches(self, inputs: Sequence[bytes]) -> Iterator[list[bytes]]:
        """The batches of the ladder. If a batch has room for more than all inputs, the first ones are repeated.
        Inputs beyond the largest size come in further batches at the end."""
        largest = 0
        for size in self._sizes:
            batch = list(islice(cycle(inputs), size))
            if size == self._sizes[0] or self._fits(batch):
                largest = size
                yield batch
        for start in range(largest, len(inputs), largest):
            yield list(inputs[start : start + largest])

    async def _rung(self, backend: Backend, inputs: Sequence[bytes]) -> Rung:
        first = await self._once(backend, inputs)
        again = [await self._once(backend, inputs)]
        while len(again) < AGAIN and sum(again) < ENOUGH:
            again.append(await self._once(backend, inputs))
        return Rung(len(inputs), first, tuple(again))

    async def _once(self, backend: Backend, inputs: Sequence[bytes]) -> Seconds:
        batch = self._batch(inputs)
        began = self._clock()
        try:
            async with asyncio.timeout(self._limit):
                result = await backend.run(batch)
        except TimeoutError:
            raise BackendTimeout(
                f"{self._target} did not answer a batch of {len(inputs)} of its warm-up within"
                f" {self._limit:g} s; raise start_timeout if it needs more"
            ) from None
        except BackendOutOfMemory:
            raise
        except BackendError as error:
            raise self._failed(inputs, error) from None
        self._check(inputs, result)
        return self._clock() - began - result.held_up

    def _batch(self, inputs: Sequence[bytes]) -> Batch:
        now = self._clock()
        requests = [Request("", self._model, each, now, now, now) for each in inputs]
        parameters = b"[" + b",".join([b"{}"] * len(inputs)) + b"]" if self._per_item else b""
        return Batch(0, self._model, parameters, requests, Reason.DUE, now)

    def _check(self, inputs: Sequence[bytes], result: Result) -> None:
        if result.size != len(inputs):
            raise self._failed(
                inputs, BackendError(f"it gave {result.size} outputs for {len(inputs)} inputs")
            )
        for index, failure in (result.failures or {}).items():
            error = BackendError(failure.message, details=failure.details)
            raise self._failed(inputs, error, f", at input {index + 1}")

    def _failed(self, inputs: Sequence[bytes], error: BackendError, where: str = "") -> BackendUnavailable:
        size = len(inputs)
        what = "with one input" if size == 1 else f"with a batch of {size}"
        return BackendUnavailable(
            f"{self._target} failed its warm-up {what}{where}: {error.message}", details=error.details
        )


def _ms(seconds: Seconds) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"
