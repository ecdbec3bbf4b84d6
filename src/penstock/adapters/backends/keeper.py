"""The parent of a function's process: whatever that process starts ends with it, daemons too.

    the server ──► this ──► the process that runs the function ──► whatever that starts

The kernel hands the orphans of that process to this one, so none can leave the family. When the process ends, when
the server says so (by `END`) or when the server dies, all that is left of the family is killed. Then this ends as
the process did. It runs as a plain script without Penstock's own modules, so that it is small and starts at once.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress

END = (
    signal.SIGUSR1
)  # not SIGTERM: a supervisor that signals everybody must not cut off the server's draining
CLEAR_LIMIT = 1.0  # seconds to clear up in; a process that is stuck in the kernel must not hold up the news
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
ORPHANED = signal.SIGCONT  # of all signals the one that wakes a process that was stopped
AWAITED = {signal.SIGCHLD, END, ORPHANED}


def main(fd: int, name: str, server: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, ORPHANED)
    if os.getppid() != server:
        return  # the server was killed meanwhile
    child = os.fork()
    if child == 0:
        # -P: what lies in the working directory must not stand in for what the child itself imports.
        program = [sys.executable, "-P", "-m", "penstock.adapters.backends.child", str(fd), name]
        os.execv(program[0], program)
    os.close(fd)
    status = watch(child, server)
    clear()
    end_as(status)


def prctl(option: int, value: int) -> None:
    """Not every system has it; there, what leaves the process group is not found."""
    call = getattr(ctypes.CDLL(None), "prctl", None)
    if call is not None:
        call(option, value)


def watch(child: int, server: int) -> int:
    """How the child ended. Orphans that end before it are buried, so that they do not pile up."""
    while signal.sigwait(AWAITED) != END and os.getppid() == server:
        for pid, status in ended():
            if pid == child:
                return status
    return signal.SIGKILL


def ended() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


def clear() -> None:
    """Kill what is left. The children of those that die become ours, until there are none."""
    until = time.monotonic() + CLEAR_LIMIT
    while (left := children()) and time.monotonic() < until:
        for pid in left:
            with suppress(OSError):  # it has changed its user; or it is gone
                os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)
        ended()


def children() -> list[int]:
    me = os.getpid()
    try:
        return [int(pid) for pid in read(f"/proc/{me}/task/{me}/children").split()]
    except OSError:  # a kernel without that file
        with os.scandir("/proc") as entries:
            return [int(each.name) for each in entries if each.name.isdigit() and parent(each.name) == me]


def parent(pid: str) -> int:
    try:
        return int(read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(file, 1 << 16), b""))  # half a number would be another process
    finally:
        os.close(file)


def end_as(status: int) -> None:
    """So that the server sees what became of the child."""
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child may have left one; this has nothing to show
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
