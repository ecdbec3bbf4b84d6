"""Prints the lines of the processes of `penstock up`, each with the name of its process. `up.py` prints every line
through it."""

import asyncio
import sys
from contextlib import suppress

from penstock.printed import Spout

COLOURS = {"gateway": "36", "batcher": "33", "worker": "32", "autoscaler": "34", "redis": "35"}
HELD = 8 << 20  # bytes of lines that are held while nobody reads stderr
LAST_LINES = 1.0  # seconds, at the end, for the reader of stderr to take the held lines


class Console:
    """Writes to stderr. A stopped terminal or a full pipe stops no process."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._spout = Spout(sys.stderr.fileno(), loop, HELD)
        self._colours = sys.stderr.isatty()
        self._told = 0  # bytes left out that the console has told of

    def say(self, name: str, line: str) -> None:
        """Prints a line of a process."""
        missing = self._spout.left_out - self._told
        if missing and not self._spout.held:
            self._told = self._spout.left_out
            self._say("up", f"{missing} bytes are missing here: whoever reads this did not keep up")
        self._say(name, line)

    def _say(self, name: str, line: str) -> None:
        label = f"{name:<10}"
        if self._colours:
            label = f"\x1b[{COLOURS.get(name.partition('-')[0], '0')}m{label}\x1b[0m"
        self._spout.write([f"{label} | {line}".encode(errors="replace")])

    async def empty(self) -> None:
        """Waits a little until the lines that are held have been read."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_LINES):
                await self._spout.empty()
