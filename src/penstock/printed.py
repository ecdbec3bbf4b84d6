"""Carries what other programs print to a log: in whole lines of bounded length, without ever waiting for a reader.

A program may print without end, without a newline or in binary. `Lines` turns bytes into lines that fit on a
screen; `Spout` writes them to a file descriptor. Used for user functions (`adapters/backends/printout.py`) and by
`penstock up` (`installation/processes.py`, `cli/up_console.py`).
"""

import asyncio
import fcntl
import os
import select
import stat
import termios
from array import array
from collections import deque
from collections.abc import Iterable, Iterator

LONGEST = 8192  # bytes of a line that are shown
AT_ONCE = 16384  # bytes that are written with one call
AGAIN = 0.005  # seconds until a full descriptor is tried again
_F_GETPIPE_SZ = 1032  # Linux's number for the call that says how much a pipe holds


class Lines:
    """Turns bytes into lines. A line that is too long is cut, and the bytes left out are counted."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._begun = bytearray()  # the beginning of a line whose end has not come
        self._too_long = False  # whether that line was cut already, so that its rest is skipped
        self.left_out = 0  # bytes

    @property
    def unfinished(self) -> bool:
        return bool(self._begun)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Takes bytes. Yields the lines that are whole now, without their newlines."""
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            line = self._end(piece)
            if line is not None:
                yield line
        self._add(rest)
        if len(self._begun) > self._longest:
            yield self._cut()

    def flush(self) -> Iterator[bytes]:
        """Yields the last line even if its newline has not come."""
        if self._begun:
            yield bytes(self._begun)
            self._begun.clear()

    def skip(self, count: int) -> None:
        """Counts bytes that were lost before they came here, and drops the line in which they are missing."""
        self.left_out += count + len(self._begun)
        self._begun.clear()
        self._too_long = True

    def _add(self, piece: bytes) -> None:
        if self._too_long:
            self.left_out += len(piece)
        else:
            self._begun += piece

    def _end(self, piece: bytes) -> bytes | None:
        self._add(piece)
        if self._too_long:
            self._too_long = False
            return None
        if len(self._begun) > self._longest:
            line = self._cut()
            self._too_long = False
            return line
        line = bytes(self._begun)
        self._begun.clear()
        return line

    def _cut(self) -> bytes:
        line = bytes(self._begun[: self._longest])
        self.left_out += len(self._begun) - self._longest
        self._begun.clear()
        self._too_long = True
        return line


class Spout:
    """Writes lines to a file descriptor. While its reader is slow it holds some lines, and drops the others."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, most: int) -> None:
        """`most`: the bytes that it may hold."""
        self._fd, self._loop, self._most = fd, loop, most
        self._lines: deque[bytes] = deque()
        self._later: asyncio.TimerHandle | None = None  # rings when the descriptor is tried again
        self._emptied = asyncio.Event()  # set when nothing is held
        self.held = 0  # bytes of lines that wait
        self.left_out = 0  # bytes of lines that were dropped

    def write(self, lines: Iterable[bytes]) -> None:
        """Takes lines without their newlines."""
        for line in lines:
            if self.held + len(line) < self._most:
                self._lines.append(line + b"\n")
                self.held += len(line) + 1
            else:
                self.left_out += len(line) + 1
        if self._later is None:
            self._pour()

    def _pour(self) -> None:
        """Write what can be written now without waiting."""
        self._later = None
        try:
            while self._lines and has_room(self._fd):
                some = self._some()
                os.write(self._fd, some)
                self.held -= len(some)
        except OSError:  # nobody reads there any more
            self.left_out += self.held
            self.held = 0
            self._lines.clear()
        if self._lines:
            self._later = self._loop.call_later(AGAIN, self._pour)
        else:
            self._emptied.set()

    async def empty(self) -> None:
        """Waits until it holds nothing."""
        while self._lines:
            self._emptied.clear()
            await self._emptied.wait()

    def _some(self) -> bytes:
        some = bytearray()
        while self._lines and (not some or len(some) + len(self._lines[0]) <= AT_ONCE):
            some += self._lines.popleft()
        return bytes(some)


def has_room(fd: int) -> bool:
    """Whether `AT_ONCE` bytes can be written there now without waiting for whoever reads.

    Three quarters of a pipe must be free, because the server's own log goes there too and must not wait either.
    """
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    if not poll.poll(0):
        return False
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        return True
    unread = array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, unread)
    return unread[0] <= fcntl.fcntl(fd, _F_GETPIPE_SZ) // 4
