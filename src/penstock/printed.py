"""What other people's programs print, on its way to our log: in whole lines, of bounded length, waiting for nobody.

A program may print without end, without a newline or in binary. The reader takes bytes as they come, and gives
lines that fit on a screen.
"""

import fcntl
import os
import select
import stat
import termios
from array import array
from collections.abc import Iterator

LONGEST = 8192  # bytes of a line that are shown
AT_ONCE = 16384  # bytes that may be written where there is room
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


def written(fd: int, lines: list[bytes]) -> int:
    """Write the lines as far as there is room at once; how many bytes of them were left out."""
    left_out = 0
    begin, size = 0, 0
    for end, line in enumerate([*lines, b""], 1):
        last = end > len(lines)
        if begin < end - 1 and (last or size + len(line) + 1 > AT_ONCE):
            some = b"".join(each + b"\n" for each in lines[begin : end - 1])
            left_out += 0 if _write(fd, some) else len(some)
            begin, size = end - 1, 0
        size += len(line) + 1
    return left_out


def _write(fd: int, text: bytes) -> bool:
    try:
        return has_room(fd) and os.write(fd, text) > 0
    except OSError:  # nobody reads there any more
        return False
