"""The program that is the parent of a function's process. It ends whatever that process has started, daemons too,
when the process ends. The server starts one for each worker of a function (`spawned.py`).

    the server (`spawned.py`) ──► the keeper ──► the function's process (`child.py`) ──► whatever that starts

The kernel hands orphans of that process to the keeper, so that none can leave the family. When the process ends,
when the server says so (by `END`) or when the server dies, the keeper kills all that is left of the family. Then
it ends as the process did. It runs as a plain script without Penstock's own modules, so that it is small and
starts at once.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from contextlib import suppress

# The server's order to end. Not SIGTERM: a supervisor that signals everybody must not cut off the server's
# draining.
END = signal.SIGUSR1
# Seconds to kill the family in. A process that is stuck in the kernel must not hold up the keeper's end.
CLEAR_LIMIT = 1.0
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # options of Linux' prctl
# Sent by the kernel when the server dies. Of all signals this one also wakes a process that was stopped.
ORPHANED = signal.SIGCONT
AWAITED = {signal.SIGCHLD, END, ORPHANED}


def main(fd: int, name: str, server: int) -> None:
    """`fd`: the socket that the function's process gets. `name`: of the worker. `server`: the server's process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, ORPHANED)
    if os.getppid() != server:
        return  # the server was killed before the kernel could be told to report its death
    child = os.fork()
    if child == 0:
        # -P: a file in the working directory must not take the place of a module that the child imports.
        program = [sys.executable, "-P", "-m", "penstock.adapters.backends.child", str(fd), name]
        os.execv(program[0], program)
    os.close(fd)
    status = watch(child, server)
    clear()
    end_as(status)


def prctl(option: int, value: int) -> None:
    """Calls prctl where the system has it. Elsewhere the keeper does not find processes that leave the process
    group."""
    call = getattr(ctypes.CDLL(None), "prctl", None)
    if call is not None:
        call(option, value)


def watch(child: int, server: int) -> int:
    """Waits for the child and returns its exit status; SIGKILL if the server wants the end first, or has died.
    Orphans that end earlier are reaped, so that they do not pile up."""
    while signal.sigwait(AWAITED) != END and os.getppid() == server:
        for pid, status in ended():
            if pid == child:
                return status
    return signal.SIGKILL


def ended() -> list[tuple[int, int]]:
    """Returns pid and status of each process that has ended since the last call."""
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
    """Kills what is left of the family. When a process dies, its children become the keeper's, so this goes on
    until there are none."""
    until = time.monotonic() + CLEAR_LIMIT
    while (left := children()) and time.monotonic() < until:
        for pid in left:
            with suppress(OSError):  # the process runs as another user, or is gone
                os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)
        ended()


def children() -> list[int]:
    """Returns the processes whose parent is the keeper."""
    me = os.getpid()
    try:
        return [int(pid) for pid in read(f"/proc/{me}/task/{me}/children").split()]
    except OSError:  # a kernel without that file
        with os.scandir("/proc") as entries:
            return [int(each.name) for each in entries if each.name.isdigit() and parent(each.name) == me]


def parent(pid: str) -> int:
    """Returns the parent of a process; 0 if the process is gone."""
    try:
        return int(read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def read(path: str) -> bytes:
    """Returns what a file of /proc holds. Raises OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(file, 1 << 16), b""))  # half a number would name another process
    finally:
        os.close(file)


def end_as(status: int) -> None:
    """Ends the keeper as the child ended, so that the server sees what became of it."""
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump of the keeper would show nothing
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
