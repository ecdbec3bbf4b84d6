"""Work that is too much for one turn of the loop: it waits in line, and a little of it is done in each turn.

One read can bring thousands of small requests, chunks or frames. Whoever brought them is not read from until they
are done. However many such clients there are, a turn of the loop does no more for all of them than for two.
"""

import asyncio
from collections import deque
from typing import Protocol

SHARES = 2  # in one turn


class Worker(Protocol):
    def go_on(self) -> None:
        """A share of its work; if there is more, it gets in line again."""
        ...


class Turns:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: deque[Worker] = deque()
        self._due = False

    def __len__(self) -> int:
        return len(self._line)

    def wait(self, worker: Worker) -> None:
        self._line.append(worker)
        self._come_back()

    def take(self) -> None:
        self._due = False
        try:
            for _ in range(min(SHARES, len(self._line))):
                self._line.popleft().go_on()
        finally:
            self._come_back()

    def _come_back(self) -> None:
        if self._line and not self._due:
            self._due = True
            self._loop.call_soon(self.take)
