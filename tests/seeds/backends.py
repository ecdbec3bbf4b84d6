"""The backends of a simulation. An output tells whose it is. An input may spoil its batch, and while there are
faults any batch may fail."""

import asyncio
from random import Random

from penstock.errors import BackendBusy, BackendCrashed, BackendError, BatchRejected
from penstock.types import Batch, Result
from seeds.draw import Drawn
from seeds.history import Execution, History

# What an input does to its batch, by how it begins.
REJECTS, CRASHES, HANGS, SHORT = b'"reject', b'"crash', b'"hang', b'"short'
POISON = (REJECTS, CRASHES, HANGS, SHORT)


def output_of(sent: bytes, tenant: str) -> bytes:
    """The right output for an input of a tenant."""
    return sent[:-1] + b" for %s" % tenant.encode() + b'"'


def is_poison(sent: bytes) -> bool:
    return sent.startswith(POISON)


class SeededBackend:
    """Implements `penstock.ports.Backend`."""

    def __init__(self, drawn: Drawn, rng: Random, history: History, process: str, number: int) -> None:
        self._drawn, self._rng, self._history = drawn, rng, history
        self._process, self._slot = process, f"{process}:{number}"
        self._free = asyncio.Lock()
        self.runs_ahead = drawn.runs_ahead
        self.troubled = True  # whether batches may fail for no fault of an input

    async def start(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, 0.05))

    async def probe(self) -> float:
        return 0.0

    async def close(self) -> None:
        pass

    async def run(self, batch: Batch) -> Result:
        async with self._free:
            return await self._run(batch)

    async def _run(self, batch: Batch) -> Result:
        inputs = tuple(each.input for each in batch.requests)
        done = Execution(
            self._history.clock(), self._slot, self._process, inputs,
            tuple((each.tenant, each.input) for each in batch.requests), batch.ahead,
        )  # fmt: skip
        self._history.executions.append(done)
        try:
            await asyncio.sleep(self._drawn.batch_seconds * self._rng.uniform(0.5, 1.5))
            outputs = await self._outputs(batch)
        except BaseException as error:
            done.failed = type(error).__name__
            raise
        finally:
            done.ended = self._history.clock()
        if len(outputs) != len(inputs):
            done.failed = f"{len(outputs)} outputs"
        return Result(outputs)

    async def _outputs(self, batch: Batch) -> list[bytes]:
        inputs = [each.input for each in batch.requests]
        outputs = [output_of(each.input, each.tenant) for each in batch.requests]
        wrong = next((each[: each.index(b"-")] for each in inputs if is_poison(each)), b"")
        if not wrong and self.troubled and self._rng.random() < self._drawn.trouble:
            wrong = self._rng.choice((*POISON, b'"busy'))
        error: BackendError
        if wrong == HANGS:
            await asyncio.get_running_loop().create_future()
        if wrong == SHORT:
            return outputs[:-1] if self._rng.random() < 0.5 else [*outputs, outputs[0]]
        if wrong == CRASHES:
            error = BackendCrashed("it died")
        elif wrong == REJECTS:
            error = BatchRejected("it refused")
        elif wrong:
            error = BackendBusy("later", retry_after=0.05)
        else:
            return outputs
        raise error
