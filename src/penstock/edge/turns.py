"""Work that is too much for one turn of the loop: it waits in line, and a little of it is done in each turn. A
`Lobby` has one line for requests, one for large answers and one for handshakes.

One read can bring thousands of small requests, chunks or frames. Their client is not read from until they are done.
However many such clients there are, a turn of the loop does no more for all of them than for one. Work that looks
like waste is followed by a pause as long as it took, so it has at most half of the time.
"""

import asyncio
from collections import OrderedDict
from typing import Protocol

LEAST = 0.0005  # seconds: a shorter pause is none


class InLine(Protocol):
    """Whoever has work that is done in turns: a connection, an answer or a handshake."""

    def go_on(self) -> bool:
        """Do a share of the work; if there is more, get in line again. True: the work looks like waste."""
        ...


class Turns:
    """One line of those who wait for their turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, share: float = 0.0) -> None:
        """`share`: for so many seconds of one turn those in line follow each other; 0: one of them for each
        turn of the loop."""
        self._loop = loop
        self._share = share
        self._line: OrderedDict[InLine, None] = OrderedDict()  # each stands there once
        self._due = self._taking = False

    def __len__(self) -> int:
        return len(self._line)

    def wait(self, one: InLine) -> None:
        """Put it at the end of the line. What stands there already keeps its place."""
        self._line.setdefault(one)
        if not self._taking:
            self._come_back()

    def take(self) -> None:
        self._due, self._taking = False, True
        began, took, wasted = self._loop.time(), 0.0, False
        try:
            while self._line:
                wasted = self._line.popitem(last=False)[0].go_on()
                took = self._loop.time() - began
                if took >= self._share:
                    break
        finally:
            self._taking = False
            self._come_back(took if wasted else 0.0)

    def _come_back(self, pause: float = 0.0) -> None:
        if self._line and not self._due:
            self._due = True
            if pause < LEAST:
                self._loop.call_soon(self.take)
            else:
                self._loop.call_later(pause, self.take)
