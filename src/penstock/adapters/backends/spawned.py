"""The process of a user's function as the server sees it, from start to end: `child`, and the frames sent to it.

Used by `process`. A keeper stands between the two, and ends whatever the process started when it ends (see
`keeper`). The server watches the keeper through a pidfd, so that it knows of the end even while something holds
the socket open.
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
from typing import cast

import msgspec

from penstock.adapters.backends.frames import (
    LARGE_WORK,
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

LAST_GRACE = (
    1.0  # seconds from a closed connection to the kill: a dying process closes its socket before it ends
)
KEEPER = Path(__file__).with_name("keeper.py")
OURS = "PENSTOCK_"  # begins the server's own variables, among them tokens and passwords: not for the function
REAP_WAIT = 5.0  # seconds to wait for the end: a process stuck in the kernel must not hold up its successor
SOCKET_BUFFER = 1 << 20  # bytes, so that a usual batch is one write and one wake-up
# Without these, glibc hands the memory of each batch back to the kernel and faults it in again for the next batch:
# a hundred page faults, more than the rest of a quick batch costs. A user's own setting of a variable wins.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": str(32 << 20), "MALLOC_MMAP_THRESHOLD_": str(4 << 20)}


class Spawned(asyncio.BufferedProtocol):
    """Asks one question at a time. Every start makes a new object, so nothing carries over."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.ended: str | None = None  # how the process ended, once it has
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._beat = asyncio.Event()
        self._inbox: Inbox[Answer | Beat] = Inbox(msgspec.msgpack.Decoder(Answer | Beat))
        self._question = -1
        self._answer: asyncio.Future[Answer] | None = None
        self._exited: asyncio.Future[None] = self._loop.create_future()
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
        if self.ended is not None:
            raise BackendUnavailable(self.ended)
        if self._answer is not None or self._transport is None:
            raise BackendUnavailable(f"{self._name} is not free: it must be started anew")
        large = isinstance(question, Work) and sum(map(len, question.inputs)) > LARGE_WORK
        try:
            frame = pack_in_pieces(cast(Work, question)) if large else [pack(question)]
        except BadFrame as error:
            raise BatchRejected(str(error)) from None
        self._question = question.id
        self._answer = self._loop.create_future()
        self._transport.writelines(frame)
        try:
            answer = await self._answer
        except BackendCrashed:
            self._answer = None  # the future holds the error, whose traceback holds this object: a cycle
            raise
        self._answer = (
            None  # if cancelled it stays: the process still works on that question and can take no other
        )
        return answer

    async def next_beat(self) -> None:
        self._beat.clear()
        await self._beat.wait()

    async def leave(self, seconds: float) -> None:
        """Gives an idle process this time to end by itself."""
        if self.ended is None and self._answer is None and self._transport is not None:
            self._transport.write(pack(Leave()))
            await asyncio.wait((self._exited,), timeout=seconds)

    async def kill_and_reap(self) -> None:
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
            elif message.id == self._question and self._answer is not None and not self._answer.done():
                self._answer.set_result(message)

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
        self._kill_group()  # if the keeper itself was killed; its pid cannot belong to another until it is reaped
        code = self._process.wait()
        self._printout.close()
        self.ended = self.ended or f"{self._name} {how_it_ended(code)}"
        self._exited.set_result(None)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(BackendCrashed(self.ended))

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
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}" + (" (out of memory, or by hand)" if name == "SIGKILL" else "")
