"""One slot behind a remote dock, with a line, a journal and a backend that play along."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from line_kit import FakeLine
from runtime_kit import WORKER, Observed, ask

from penstock.cluster.dock import RemoteDock
from penstock.runtime.slot import Slot
from penstock.testing import Answer, MockBackend
from penstock.types import Batch, Execution, Failure, Reason, Result
from penstock.words.messages import Dispatch

_batches = count(1)


class Journal:
    """A report that remembers, and can be slow."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, object]] = []
        self.seconds = 0.0

    async def answer(self, batch: Dispatch, result: Result, execution: Execution) -> None:
        await asyncio.sleep(self.seconds)
        self.said.append(("answer", batch.batcher, result.outputs))

    async def finished(self, batch: Dispatch, outcome: Result | Failure, seconds: float) -> None:
        await asyncio.sleep(self.seconds)
        self.said.append(("finished", batch.batcher, "ok" if isinstance(outcome, Result) else outcome))

    def ended(self) -> dict[str, object]:
        return {order: outcome for kind, order, outcome in self.said if kind == "finished"}


class Workshop:
    """One slot behind a remote dock."""

    def __init__(self, backend: MockBackend, journal: Journal | None = None, *, warm: bool = True) -> None:
        self.loop = asyncio.get_running_loop()
        self.backend = backend
        self.line = FakeLine()
        self.journal = journal or Journal()
        self.observed = Observed()
        self.dock = RemoteDock("model", self.line, self.journal, self.observed, self.loop.time)
        self.slot = Slot(
            WORKER, backend, self.dock, self.loop.time, processing_limit=3.0, first_batch_limit=120.0,
            start_limit=120.0, health_interval=5.0, on_started=lambda worker, error: None, warm=warm,
        )  # fmt: skip

    def arrive(self, order: str, *inputs: bytes, ahead: bool = False, number: int | None = None) -> None:
        """A batch that some batcher has sent, known by the name of that. `number`: the batcher's own for it."""
        requests = [ask(self.loop.time(), text=text) for text in inputs or (b"1",)]
        given = next(_batches) if number is None else number
        batch = Batch(given, "model", b"", requests, Reason.DUE, self.loop.time())
        message = Dispatch(batch.id, order, WORKER, batch.model, b"", [], ahead=ahead)
        self.dock.arrived(WORKER, message, batch)


@asynccontextmanager
async def workshop(
    *script: Answer,
    backend: MockBackend | None = None,
    journal: Journal | None = None,
    start_seconds: float = 0.0,
    warm: bool = True,
) -> AsyncIterator[Workshop]:
    shop = Workshop(backend or MockBackend(script, start_seconds=start_seconds), journal, warm=warm)
    tasks = [asyncio.create_task(shop.slot.run()), asyncio.create_task(shop.dock.run())]
    await asyncio.sleep(0.001)
    try:
        yield shop
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
