"""The process of a user's function as the server sees it, from start to end. The backend for functions
(`process.py`) starts one, sends batches through it and ends it.

The server talks to the function's process (`child.py`) in frames over a socket. A keeper stands between the two,
and ends whatever the process started when it ends (see `keeper.py`). The server watches the keeper through a pidfd,
so that it learns of the end even while something holds the socket open.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard, cast

import msgspec

from penstock.adapters.backends.frames import (
    LARGE_INPUT,
    Answer,
    BadFrame,
    Beat,
    Inbox,
    Leave,
    Look,
    Setup,
    Work,
    pack,
    pack_in_pieces,
)
from penstock.adapters.backends.keeper import END
from penstock.adapters.backends.printout import Printout
from penstock.errors import BackendCrashed, BackendUnavailable, BatchRejected

# Seconds from a closed connection to the kill, because a dying process closes its socket before it ends.
LAST_GRACE = 1.0
KEEPER = Path(__file__).with_name("keeper.py")
OURS = "PENSTOCK_"  # begins the server's own variables; the function must not see their tokens and passwords
REAP_WAIT = 5.0  # seconds to wait for the end: a process stuck in the kernel must not hold up its successor
SOCKET_BUFFER = 1 << 20  # bytes, so that a usual batch is one write and one wake-up
# Without these, glibc hands the memory of each batch back to the kernel and faults it in again for the next batch:
# a hundred page faults, more than the rest of a quick batch costs. A user's own setting of a variable wins.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(32 << 20), "MALLOC_MMAP_THRESHOLD_": str(4 << 20)}


class Spawned(asyncio.BufferedProtocol):
    """One process. It is asked one question at a time, or two batches: it reads the second while it runs the first.
    Every start makes a new object, so nothing is left of an old one."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.ended: str | None = None  # how the process ended, once it has
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()  # when something last came from the process
        self._beat = asyncio.Event()  # set by each heartbeat
        self._inbox: Inbox[Answer | Beat] = Inbox(msgspec.msgpack.Decoder(Answer | Beat))
        self._answers: dict[int, asyncio.Future[Answer]] = {}  # by the id of the question
        self._exited: asyncio.Future[None] = self._loop.create_future()  # done once the keeper has ended
        # Done once the socket is closed.
        self._disconnected: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        with contextlib.ExitStack() as undo:
            self._sock, theirs = socket.socketpair()
            undo.callback(self._sock.close)
            with theirs:
                for end in (self._sock, theirs):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
                self._printout = Printout(name, self._loop)
                undo.callback(self._printout.close)
                try:
                    self._process = spawn(theirs, self._printout.theirs, name, environment)
                finally:
                    os.close(self._printout.theirs)
            undo.callback(self._process.wait)
            undo.callback(self._process.kill)
            self.pid = self._process.pid  # the keeper's, until `Ready` tells that of the function's process
            self._pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(self._pidfd, self._on_exit)
            undo.pop_all()

    @property
    def silence(self) -> float:
        """Seconds since the process was last heard of."""
        return self._loop.time() - self._heard

    async def connect(self) -> None:
        await self._loop.create_unix_connection(lambda: self, sock=self._sock)

    async def ask(self, question: Setup | Work | Look) -> Answer:
        """Returns the answer. Raises BackendUnavailable, BackendCrashed, or BatchRejected for a batch that is too
        large to be sent."""
        if self.ended is not None:
            raise BackendUnavailable(self.ended)
        if self._transport is None or not self._free_for(question):
            raise BackendUnavailable(f"{self._name} is not free: it must be started anew")
        try:
            frame = pack_in_pieces(question) if _is_large(question) else [pack(question)]
        except BadFrame as error:
            raise BatchRejected(str(error)) from None
        coming: asyncio.Future[Answer] = self._loop.create_future()
        self._answers[question.id] = coming
        self._transport.writelines(frame)
        try:
            answer = await coming
        except BackendCrashed:
            del self._answers[question.id]
            del coming  # the future refers to the error, and the error's traceback to this frame: a cycle
            raise
        del self._answers[question.id]  # if cancelled it stays: the process still works on that question
        return answer

    def _free_for(self, question: Setup | Work | Look) -> bool:
        """Returns whether the process can take this question: it has nothing to do, or the question is a batch and
        the process has one batch that somebody still waits for."""
        if not self._answers:
            return True
        busy = len(self._answers) > 1 or any(coming.cancelled() for coming in self._answers.values())
        return isinstance(question, Work) and not busy

    async def next_beat(self) -> None:
        self._beat.clear()
        await self._beat.wait()

    async def leave(self, seconds: float) -> None:
        """Gives an idle process this time to end by itself."""
        if self.ended is None and not self._answers and self._transport is not None:
            self._transport.write(pack(Leave()))
            await asyncio.wait((self._exited,), timeout=seconds)

    async def kill_and_reap(self) -> None:
        """Ends the process, and waits a bounded time until it has ended."""
        if not self._exited.done():
            self._kill()
        if self._transport is not None:
            self._transport.abort()
        elif not self._disconnected.done():
            self._sock.close()
            self._disconnected.set_result(None)
        # If it takes longer, `_on_exit` still reaps the process when the kernel lets go of it.
        await asyncio.wait((self._exited, self._disconnected), timeout=REAP_WAIT)
        if not self._exited.done():
            self._kill_group()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._heard = self._loop.time()
        try:
            messages = self._inbox.filled(nbytes)
        except BadFrame as error:
            self._give_up(f"{self._name} wrote into the connection to the server ({error})")
            return
        for message in messages:
            if isinstance(message, Beat):
                self._beat.set()
            elif (coming := self._answers.get(message.id)) is not None and not coming.done():
                coming.set_result(message)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._disconnected.done():
            self._disconnected.set_result(None)
        if not self._exited.done():
            closed = f"{self._name} closed its connection to the server"
            self._loop.call_later(LAST_GRACE, self._give_up, closed)

    def _give_up(self, why: str) -> None:
        if not self._exited.done():
            self.ended = self.ended or why  # the first reason is the true one
            self._kill()
            if self._transport is not None:
                self._transport.abort()  # nothing that still comes can be understood

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._read_the_rest()
        self._kill_group()  # if the keeper itself was killed; its pid cannot belong to another until it is reaped
        code = self._process.wait()
        self._printout.close()
        self.ended = self.ended or f"{self._name} {how_it_ended(code)}"
        self._exited.set_result(None)
        for coming in self._answers.values():
            if not coming.done():
                coming.set_exception(BackendCrashed(self.ended))

    def _read_the_rest(self) -> None:
        """Read what the process wrote before it ended, so that an answer is not lost if the next batch kills it."""
        if self._sock.fileno() < 0 or self.ended is not None:
            return
        with contextlib.suppress(OSError):
            while count := self._sock.recv_into(self.get_buffer(-1), 0, socket.MSG_DONTWAIT):
                self.buffer_updated(count)

    def _kill(self) -> None:
        """Tells the keeper to kill its family and to end; SIGCONT wakes a keeper that was stopped."""
        for number in (END, signal.SIGCONT):
            os.kill(self._process.pid, number)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def spawn(
    sock: socket.socket, printing: int, name: str, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Starts the keeper, which starts the function's process. `printing`: the file descriptor for what both
    print."""
    fd = sock.fileno()
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(KEEPER), str(fd), name, str(os.getpid())],
        env={**ALLOCATOR, **inherited, **environment},
        stdin=subprocess.DEVNULL,
        stdout=printing,
        stderr=printing,
        pass_fds=(fd,),
        start_new_session=True,
    )


def how_it_ended(code: int) -> str:
    """Returns how a process ended, in words. `code`: its exit code; minus the signal if one killed it."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (" (out of memory, or by hand)" if name == "SIGKILL" else "")


def _is_large(question: Setup | Work | Look) -> TypeGuard[Work]:
    return isinstance(question, Work) and sum(map(len, question.inputs)) > LARGE_INPUT * len(question.inputs)
