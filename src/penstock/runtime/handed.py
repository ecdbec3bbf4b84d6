"""The batches that a slot was handed and that have not ended: those that wait, and those that its backend was given
while it ran another. Each slot has one `Handed` (`slot.py`), and its dock hands batches to it."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.types import Batch, Result


class Handed:
    def __init__(
        self, run: Callable[[Batch], Coroutine[Any, Any, Result]], runs_ahead: Callable[[], bool]
    ) -> None:
        """`run`: runs a batch on the backend. `runs_ahead`: whether the backend may be given one ahead now."""
        self._run, self._runs_ahead = run, runs_ahead
        self.waiting: deque[Batch] = deque()  # batches that wait for the backend
        # Batches that the backend was given while it ran another, each with what will come of it.
        self.given: deque[tuple[Batch, asyncio.Task[Result]]] = deque()
        self._running = False  # whether the slot waits for a batch that runs
        self._arrived = asyncio.Event()  # set when a batch was handed over, or the slot is to look about

    def take(self, batch: Batch) -> None:
        """Take a batch from the dock, to run it now or after the one in hand."""
        self.waiting.append(batch)
        self._arrived.set()
        self._give_ahead()

    def wake(self) -> None:
        """Let an idle slot look about, though no batch has come."""
        self._arrived.set()

    async def wait(self) -> None:
        """Wait until a batch has come, or `wake` was called."""
        await self._arrived.wait()

    def next(self) -> Batch | None:
        """Returns the next batch; None if none has come."""
        self._arrived.clear()
        return self.waiting.popleft() if self.waiting else None

    def next_given(self) -> tuple[Batch, asyncio.Task[Result]]:
        """Returns the batch that the backend was given first, and its run."""
        return self.given.popleft()

    def begins(self) -> None:
        """Note that the slot begins to wait for a batch. The backend is given the next one, if it may be."""
        self._running = True
        self._give_ahead()  # a task, which begins after the caller has waited

    def ended(self) -> None:
        self._running = False

    def _give_ahead(self) -> None:
        if self.waiting and self._running + len(self.given) == 1 and self._runs_ahead():
            batch = self.waiting.popleft()
            if not self.waiting:
                self._arrived.clear()
            self.given.append((batch, asyncio.ensure_future(self._run(batch))))

    def forget(self) -> None:
        """Let go of all batches: they go to another slot."""
        self.waiting.clear()
        self._arrived.clear()
        self._running = False
        while self.given:
            _, running = self.given.pop()
            running.add_done_callback(_nobody_asks)
            running.cancel()


def _nobody_asks(running: asyncio.Task[Result]) -> None:
    """Take note of how a batch ended that was given back to the batcher; else asyncio would say that nobody did."""
    if not running.cancelled():
        running.exception()
