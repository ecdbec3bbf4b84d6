"""What holds for every process that `penstock up` starts: it ends with us, and its output never stops us."""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable

from penstock.printed import Lines

PR_SET_PDEATHSIG = 1
CHUNK = 1 << 16


def apart(farewell: signal.Signals) -> Callable[[], None]:
    """Sets up a child process; to be called in the child. Ctrl-C at the terminal is for us to pass on, and the
    child must not outlive us. `farewell`: what the kernel sends the child if we are killed."""
    parent = os.getpid()

    def settle() -> None:
        os.setsid()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, farewell)
            if os.getppid() != parent:  # we were killed meanwhile
                os._exit(1)

    return settle


async def printed(process: asyncio.subprocess.Process) -> AsyncIterator[str]:
    """What a process prints, line by line. The rest of a line that is too long is left out."""
    assert process.stdout is not None
    lines = Lines()
    while chunk := await process.stdout.read(CHUNK):
        for line in lines.feed(chunk):
            yield line.decode(errors="replace").rstrip()
    for line in lines.flush():
        yield line.decode(errors="replace").rstrip()


def send(process: asyncio.subprocess.Process, kind: signal.Signals) -> None:
    if process.returncode is None:
        process.send_signal(kind)


def cause(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
