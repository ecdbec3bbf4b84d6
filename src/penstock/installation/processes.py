"""Starts, reads and signals the processes of `penstock up`: each ends when we do, and its output never stops us.
`supervisor.py` uses it for all parts, and `own_store.py` for the store."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable

from penstock.printed import Lines

PR_SET_PDEATHSIG = 1  # an option of Linux' prctl
CHUNK = 1 << 16  # bytes


def apart(farewell: signal.Signals) -> Callable[[], None]:
    """Returns a function that must be called in a new child process. With it, Ctrl-C at the terminal reaches only
    us, and the child does not outlive us. `farewell`: the signal that the kernel sends the child if we are
    killed."""
    parent = os.getpid()

    def settle() -> None:
        os.setsid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, farewell)
            if os.getppid() != parent:  # we were killed meanwhile
                os._exit(1)

    return settle


async def printed(process: asyncio.subprocess.Process) -> AsyncIterator[str]:
    """Yields what a process prints, line by line. The rest of a line that is too long is left out."""
    assert process.stdout is not None
    lines = Lines()
    while chunk := await process.stdout.read(CHUNK):
        for line in lines.feed(chunk):
            yield line.decode(errors="replace").rstrip()
    for line in lines.flush():
        yield line.decode(errors="replace").rstrip()


def send(process: asyncio.subprocess.Process, kind: signal.Signals) -> None:
    """Sends a signal, unless the process has ended."""
    if process.returncode is None:
        process.send_signal(kind)


def cause(code: int) -> str:
    """Returns what ended a process, in words for people. `code`: its exit code; minus the signal if one killed
    it."""
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
