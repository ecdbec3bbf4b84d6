"""Hands lines to a thread that writes them, so that no request waits for a disk or for whoever reads a log. The
request log (`observe/request_log.py`) and the recorder of arrivals (`recording/recorder.py`) have one each.

On the event loop a line costs a tuple. What comes in one turn of the loop is handed over together. If the thread is
slower than the lines come, they are dropped and counted beyond a bound.
"""

import asyncio
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from penstock.loops import kept_thread

Line = TypeVar("Line")

MOST_WAITING = 50_000  # lines that are not written yet
CLOSE_SECONDS = 1.0  # seconds to write what is left


class WrittenAside(Generic[Line]):
    """Lines on their way to a thread of their own."""

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[Line]], None],
        tell_dropped: Callable[[int], None],
        loop: asyncio.AbstractEventLoop,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """`write` and `tell_dropped` are called in the thread; `write` may raise OSError, and then its lines are
        dropped. `tell_dropped` is told how many were dropped since it was last told."""
        self._name, self._write, self._tell_dropped, self._loop = name, write, tell_dropped, loop
        self._most_waiting = most_waiting
        self._lines: list[Line] = []  # what came in this turn of the loop
        self._handed: SimpleQueue[list[Line] | None] = SimpleQueue()
        self._given = self._taken = 0  # lines that the thread was given, and those it is done with
        self._told = 0  # how many of the dropped lines were told of
        self._thread: Thread | None = None
        self.dropped = 0
        self.written = 0

    def add(self, lines: list[Line]) -> None:
        """Take lines to be written."""
        if not self._lines:
            self._loop.call_soon(self._hand_over)
        self._lines += lines

    def _hand_over(self) -> None:
        lines, self._lines = self._lines, []
        if self._given - self._taken + len(lines) > self._most_waiting:
            self.dropped += len(lines)
            return
        if self._thread is None:
            self._thread = kept_thread(self._name, self._write_all)
            self._thread.start()
        self._given += len(lines)
        self._handed.put(lines)

    async def close(self) -> None:
        """Write what is left. If the other side has stopped taking it, we do not wait for that."""
        if self._lines:
            self._hand_over()
        if self._thread is not None:
            self._handed.put(None)
            await self._loop.run_in_executor(None, self._thread.join, CLOSE_SECONDS)

    # ---- the thread ----------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        while (lines := self._handed.get()) is not None:
            written = 0
            try:
                self._write(lines)
                written = len(lines)
            except OSError:
                pass  # they count as dropped
            finally:
                self.written += written
                self.dropped += len(lines) - written
                self._taken += len(lines)
            if self.dropped > self._told:
                self._told, dropped = self.dropped, self.dropped - self._told
                self._tell_dropped(dropped)
