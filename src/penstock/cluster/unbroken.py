"""Runs work to its end even if the caller is cancelled meanwhile, for example because a client has left. A gateway
runs in this way what must not stop half-way: the acceptance of tasks (`tasks.py`), and of requests with an
Idempotency-Key, and the pursuit of their keys (`idempotency.py`). When the process ends, such work is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Unbroken:
    """Starts pieces of work, and holds those that are running, so that none is lost."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start the work, and return its task."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may have left; else asyncio would say that nobody asked for it

    async def whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Start the work and return its result. Cancelling the caller does not cancel the work."""
        return await asyncio.shield(self.start(work))

    async def close(self) -> None:
        """Cancel all work that still runs, and wait until it has stopped. Called when the process ends."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
