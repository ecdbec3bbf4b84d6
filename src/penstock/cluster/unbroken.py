"""Work that must not be left half done: it goes on when whoever asked for it has left."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Unbroken:
    """Such work under way, until `close`."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def whole(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of it. Who waits for that may be cancelled; the work is not."""
        return await asyncio.shield(self.start(work))

    async def close(self) -> None:
        """The process ends."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
