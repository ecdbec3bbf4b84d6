"""What other people's programs print, on its way to our log: in whole lines, of bounded length, waiting for nobody.

A program may print without end, without a newline or in binary. The reader takes bytes as they come, and gives
lines that fit on a screen.
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
AT_ONCE = 16384  # bytes that may be written where there is room
AGAIN = 0.005  # seconds until somebody may have read
_F_GETPIPE_SZ = 1032  # of Linux


class Lines:
    """Bytes in, lines out. Of a line without end the beginning is given once, and the rest is counted."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._begun = bytearray()  # of a line whose end has not come
        self._too_long = False  # its beginning was given, and it goes on
        self.left_out = 0  # bytes that were not given

    @property
    def unfinished(self) -> bool:
        return bool(self._begun)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that are whole now, without their ends."""
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            line = self._end(piece)
            if line is not None:
                yield line
        self._add(rest)
        if len(self._begun) > self._longest:
            yield self._cut()

    def flush(self) -> Iterator[bytes]:
        """What has no end so far, as if it had one."""
        if self._begun:
            yield bytes(self._begun)
            self._begun.clear()

    def skip(self, count: int) -> None:
        """So many bytes are missing here. The line that they tore goes too."""
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
    """Lines on their way to a descriptor. It holds some while nobody reads there, and leaves out the others."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, most: int) -> None:
        """`most`: bytes that it holds."""
        self._fd, self._loop, self._most = fd, loop, most
        self._lines: deque[bytes] = deque()
        self._later: asyncio.TimerHandle | None = None
        self._emptied = asyncio.Event()
        self.held = 0  # bytes
        self.left_out = 0  # bytes

    def write(self, lines: Iterable[bytes]) -> None:
        """Lines without their ends."""
        for line in lines:
            if self.held + len(line) < self._most:
                self._lines.append(line + b"\n")
                self.held += len(line) + 1
            else:
                self.left_out += len(line) + 1
        if self._later is None:
            self._pour()

    def _pour(self) -> None:
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
        """Until it holds nothing."""
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

    Of a pipe three quarters must be free: the server's own log goes there too, and must not wait either.
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
