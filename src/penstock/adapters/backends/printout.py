"""Carries what a function's process prints into the server's log, however much that is. The server has one for each
such process (`spawned.py`).

    its stdout and stderr ──► one pipe ──► lines ──► the server's stderr
                                      └──► nowhere, beyond the allowance; the log says how many bytes

Neither the process nor the server ever waits for the reader of the log: the pipe is emptied in any case, at most
once every `LOOK_EVERY`. If the log has no room, some lines are held and the others are left out.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterable
from contextlib import suppress

from penstock.printed import Lines, Spout

log = logging.getLogger("penstock.worker")

RATE = 256 * 1024  # bytes of one process that the log takes in a second, for any length of time
BURST = 1 << 20  # bytes that the log takes at once, and that are held while its reader is behind
LOOK_EVERY = 0.005  # seconds from one look into the pipe to the next
PIPE = 1 << 20  # bytes that a process can print between two looks, where the system allows
CHUNK = 1 << 16  # bytes that are read from the pipe at once
COMPLAIN_EVERY = 5.0  # seconds between two complaints that something was left out
UNFINISHED = 1.0  # seconds after which a line without an end is shown as it is
STDERR = 2  # the file descriptor
_F_SETPIPE_SZ = 1031  # of Linux


class Printout:
    """Owns the pipe. `theirs` is the end to print into; close it once the process has it."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._name, self._loop = name, loop
        self._lines, self._spout = Lines(), Spout(STDERR, loop, BURST)
        self._allowance, self._at = float(BURST), loop.time()  # bytes that the log may take, and since when
        self._told = 0  # bytes left out that the log has been told of
        self._told_at = loop.time() - COMPLAIN_EVERY
        self._timer: asyncio.TimerHandle | None = None
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        with suppress(OSError):  # the system may grant one user less
            fcntl.fcntl(self._ours, _F_SETPIPE_SZ, PIPE)
        self._nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        self._watch()

    def close(self) -> None:
        """Shows what is left in the pipe, and closes it. Called when the process has ended."""
        self._rest()
        for _ in range(2 * PIPE // CHUNK):
            if not self._take():
                break
        self._show(self._lines.flush())
        self._complain()
        os.close(self._ours)
        os.close(self._nowhere)

    def _watch(self) -> None:
        """Has `_look` called as soon as something is in the pipe."""
        self._loop.add_reader(self._ours, self._look)
        unsaid = self._lines.unfinished or self._left_out > self._told
        self._timer = self._loop.call_later(UNFINISHED, self._catch_up) if unsaid else None

    def _rest(self) -> None:
        """Looks no more, until `_watch`."""
        self._loop.remove_reader(self._ours)
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Takes what is in the pipe. Called when something was printed, or when nobody can print any more."""
        self._rest()
        if self._take():
            self._timer = self._loop.call_later(LOOK_EVERY, self._watch)

    def _catch_up(self) -> None:
        """Shows an unfinished line, and complains of bytes that were left out. Called when nothing was printed for
        a while."""
        self._rest()
        self._show(self._lines.flush())
        if self._loop.time() - self._told_at >= COMPLAIN_EVERY:
            self._complain()
        self._watch()

    def _take(self) -> int:
        """Takes some bytes out of the pipe; returns how many."""
        now = self._loop.time()
        self._allowance = min(BURST, self._allowance + (now - self._at) * RATE)
        self._at = now
        try:
            if self._allowance < CHUNK or self._spout.held > BURST - CHUNK:
                count = os.splice(self._ours, self._nowhere, PIPE)
                self._lines.skip(count)
                if now - self._told_at >= COMPLAIN_EVERY:
                    self._complain()
            else:
                chunk = os.read(self._ours, CHUNK)
                count = len(chunk)
                self._allowance -= count
                self._show(self._lines.feed(chunk))
        except BlockingIOError:
            return 0
        return count

    @property
    def _left_out(self) -> int:
        return self._lines.left_out + self._spout.left_out

    def _show(self, lines: Iterable[bytes]) -> None:
        readable = [line.decode(errors="replace").encode() for line in lines]
        self._spout.write(readable)

    def _complain(self) -> None:
        count = self._left_out - self._told
        if count > 0:
            self._told, self._told_at = self._left_out, self._loop.time()
            log.warning(
                "a function printed more than the log takes: the rest was left out",
                extra={"worker": self._name, "bytes": count},
            )
