"""The backend for `sim:…`, a simulated GPU: one batch after the other, a service time, faults on demand. A worker's
slot owns one and hands it batches; `roles/backends.py` makes it.

`penstock/service_model.py` decides how long a batch takes and what goes wrong. Here that time really passes.
"""

import asyncio
import time
from random import Random

from penstock.errors import BackendCrashed, BatchRejected
from penstock.service_model import Fault, NewShapes, ServiceModel
from penstock.types import Batch, Result, Seconds

_TICK = 0.001  # seconds; an event loop's timers are no finer


class SimulatedBackend:
    """Implements `ports.Backend`: answers each input with itself, after the time that the service model says. A
    batch that comes while another runs begins when that one has ended.

    `seed` makes the workers of one run differ; the service model's own seed makes runs differ.
    """

    runs_ahead = True

    def __init__(self, model: ServiceModel, seed: int = 0) -> None:
        self._model = model
        self._random = Random(f"{model.seed}/{seed}")
        self._new_shapes = NewShapes(model)
        self._free = asyncio.Lock()  # held while a batch runs
        self._started = False  # whether the simulated GPU runs

    async def start(self) -> None:
        self._started = True
        self._new_shapes = NewShapes(self._model)  # to a new process every size is new

    async def run(self, batch: Batch) -> Result:
        async with self._free:
            if not self._started:
                raise BackendCrashed("the simulated GPU is not running")
            return await self._serve(batch)

    async def probe(self) -> float:
        if not self._started:
            raise BackendCrashed("the simulated GPU is not running")
        return 0.0

    async def close(self) -> None:
        self._started = False

    async def _serve(self, batch: Batch) -> Result:
        # Both random numbers are drawn for every batch, so that a fault does not shift the times of later batches.
        z, u = self._random.gauss(0.0, 1.0), self._random.random()
        fault = self._model.fault(u)
        if fault is Fault.HANG:
            await asyncio.get_running_loop().create_future()
        inputs = [request.input for request in batch.requests]
        longest = max(map(len, inputs))
        await _wait(self._model.seconds(batch.size, z, longest) + self._new_shapes.seconds(batch.size))
        poison = self._model.poison.encode()
        if poison and any(poison in text for text in inputs):
            raise BatchRejected("the simulated GPU was poisoned by an input")
        if fault is Fault.FAIL:
            raise BatchRejected("the simulated GPU failed, as it was told to")
        if fault is Fault.CRASH:
            self._started = False
            raise BackendCrashed("the simulated GPU crashed, as it was told to")
        if fault is Fault.GARBAGE:
            return Result([b'"garbage"'] * (batch.size + 1))
        if fault is Fault.SHORT:
            return Result(inputs[:-1])
        return Result(inputs)


async def _wait(seconds: Seconds) -> None:
    """Waits this long: never shorter, and longer by one tick of the loop at most.

    Timers of the loop may fire up to a tick early. A simulated GPU that is faster than it claims would make every
    figure taken with it too good.
    """
    if seconds <= 0:
        return
    end = time.monotonic() + seconds
    loop = asyncio.get_running_loop()
    while (left := end - time.monotonic()) > 0:
        fired: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(max(left, _TICK / 2), _settle, fired)
        try:
            await fired
        finally:
            timer.cancel()


def _settle(fired: asyncio.Future[None]) -> None:
    if not fired.done():  # it may have been cancelled in the same turn of the loop
        fired.set_result(None)
