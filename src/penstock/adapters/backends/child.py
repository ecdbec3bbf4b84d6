"""The program that runs a user's function: `python -m penstock.adapters.backends.child FD NAME`.

It loads the function, then answers batches one at a time, in its main thread (CUDA and signals want
that). What goes wrong inside the function is an answer; what kills the process is seen by the server.
The process never outlives the server: the kernel kills it along, and a closed socket ends it.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import inspect
import io
import math
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from penstock.adapters.backends.frames import (
    BEAT_EVERY,
    BadFrame,
    Beat,
    Broken,
    Done,
    Inbox,
    Look,
    Question,
    Ready,
    Rejected,
    Seen,
    Setup,
    Work,
    pack,
)
from penstock.adapters.backends.loading import CannotLoad, Loaded, describe, load, parameters_kind, utf8
from penstock.adapters.backends.pressure import Pressure

PR_SET_PDEATHSIG = 1
TRACEBACKS = 32  # printed at most, each place once: a poisoned stream must not flood the log

_decode_json = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


class Channel:
    """The socket to the server. Blocking; the lock keeps heartbeats out of the middle of answers."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._inbox: Inbox[Question] = Inbox(msgspec.msgpack.Decoder(Question))
        self._lock = threading.Lock()

    def receive(self) -> Question:
        while True:
            count = self.sock.recv_into(self._inbox.room())
            if not count:
                leave(0)
            if messages := self._inbox.filled(count):
                return messages[0]  # and the only one: the server asks one question at a time

    def send(self, frame: bytes | bytearray) -> None:
        try:
            with self._lock:
                self.sock.sendall(frame)
        except (BrokenPipeError, ConnectionResetError):
            leave(0)

    def beat(self) -> None:
        frame = pack(Beat())
        while True:
            self.send(frame)
            time.sleep(BEAT_EVERY)


class ContractBroken(Exception):
    """The function answered, and not with one fitting output for each input."""


class Contract:
    """The user's function, and what must hold of its inputs and outputs (SPEC B8)."""

    def __init__(self, loaded: Loaded, setup: Setup) -> None:
        function = loaded.function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.parameters_kind = parameters_kind(function)
        self._function = function
        self._decode: Callable[[bytes], Any] = _decode_text if setup.input_kind == "text" else _decode_json
        self._text_out = setup.output_kind == "text"
        self._seen: set[tuple[type, str, int]] = set()
        self._pressure = Pressure(loaded.pressure, setup.memory_limit)
        self._memory_left = memory_left()  # now that it is loaded and nothing has run

    @property
    def is_async(self) -> bool:
        return any(map(inspect.iscoroutinefunction, (self._function, type(self._function).__call__)))

    def call(self, work: Work) -> Any:
        try:
            inputs = list(map(self._decode, work.inputs))
        except msgspec.MsgspecError as error:
            raise ContractBroken(f"{self.name} was not called, an input does not fit: {error}") from None
        if self.parameters_kind is None:
            return self._function(inputs)
        parameters = _decode_json(work.parameters) if work.parameters else {}
        if self.parameters_kind is inspect.Parameter.POSITIONAL_ONLY:
            return self._function(inputs, parameters)
        return self._function(inputs, parameters=parameters)

    def answer(self, work: Work, outputs: Any) -> bytearray:
        if not isinstance(outputs, list | tuple):
            raise ContractBroken(f"{self.name} returned {type(outputs).__name__}, not a list")
        if len(outputs) != len(work.inputs):
            raise ContractBroken(f"{self.name} returned {len(outputs)} outputs for {len(work.inputs)} inputs")
        if self._text_out and set(map(type, outputs)) != {str}:
            outputs = [self._plain_text(place, output) for place, output in enumerate(outputs)]
        try:
            encoded, pressure = list(map(_encode, outputs)), self._pressure.after_batch()
            return pack(Done(work.id, encoded, pressure, time.monotonic()))
        except BadFrame as error:
            raise ContractBroken(f"{self.name}: {error}") from None
        except (TypeError, ValueError, RecursionError) as error:
            raise ContractBroken(f"{self.name} returned something that JSON cannot hold: {error}") from None

    def seen(self, look: Look) -> bytearray:
        return pack(Seen(look.id, self._pressure.at_rest()))

    def refusal(self, work: Work, error: BaseException) -> bytearray:
        if isinstance(error, ContractBroken):
            return pack(Rejected(work.id, str(error)))
        self._print_once(error)
        message = utf8(f"{self.name} raised {type(error).__name__}")
        spent = isinstance(error, MemoryError) and self._memory_is_gone(error)
        return pack(Rejected(work.id, message, describe(type(error), error), spent))

    def _memory_is_gone(self, error: MemoryError) -> bool:
        """One input may have asked for too much, and all is well again; or what leaked is never coming back."""
        traceback.clear_frames(error.__traceback__)  # what the function held while it ran
        return memory_left() < self._memory_left / 2

    def _plain_text(self, place: int, output: Any) -> str:
        if not isinstance(output, str):
            raise ContractBroken(f"{self.name} returned {type(output).__name__} for input {place}, not str")
        return str.__str__(output)  # of a subclass, such as numpy's

    def _print_once(self, error: BaseException) -> None:
        """Where it happened, for the author; its words may quote an input, so only the asker gets those."""
        frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
        place = (type(error), frame.f_code.co_filename, line)
        if place not in self._seen and len(self._seen) < TRACEBACKS:
            self._seen.add(place)
            where = "".join(traceback.format_tb(error.__traceback__)[1:])
            print(f"{self.name} raised {type(error).__name__}\n{where}", end="", file=sys.stderr, flush=True)


def serve(channel: Channel, contract: Contract) -> NoReturn:
    while True:
        work = channel.receive()
        if isinstance(work, Look):
            channel.send(contract.seen(work))
            continue
        assert isinstance(work, Work)
        try:
            frame = contract.answer(work, contract.call(work))
        except SystemExit:
            raise
        except BaseException as error:  # everything else the function raises is an answer
            frame = contract.refusal(work, error)
        del work  # a waiting process holds nobody's input
        channel.send(frame)
        del frame


async def serve_async(channel: Channel, contract: Contract) -> NoReturn:
    """The same on one event loop that keeps turning between batches, for what the user left on it."""
    questions: asyncio.Queue[Question] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(
        channel.sock.fileno(), lambda: questions.put_nowait(channel.receive())
    )
    while True:
        work = await questions.get()
        if isinstance(work, Look):
            channel.send(contract.seen(work))
            continue
        assert isinstance(work, Work)
        try:
            frame = contract.answer(work, await contract.call(work))
        except SystemExit:
            raise
        except BaseException as error:
            frame = contract.refusal(work, error)
        del work
        channel.send(frame)
        del frame


def memory_left() -> float:
    """Bytes until the limit, if there is one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return math.inf
    with Path("/proc/self/statm").open() as file:
        return limit - int(file.read().split()[0]) * resource.getpagesize()


def settle() -> None:
    """Be a child that dies with its parent, leaves Ctrl-C to it, and says where it crashed."""
    with contextlib.suppress(OSError, AttributeError):  # not every system has prctl
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The server decides when to end: a supervisor that signals everybody must not cut off its draining.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def leave(code: int) -> NoReturn:
    """End now: neither a thread of the user's nor a half-dead library may keep the process."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def main(fd: int) -> NoReturn:
    settle()
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    channel = Channel(sock)
    threading.Thread(target=channel.beat, name="penstock-heartbeat", daemon=True).start()
    setup = channel.receive()
    assert isinstance(setup, Setup)
    if setup.memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (setup.memory_limit, setup.memory_limit))
    sys.argv = [setup.target.rpartition(":")[0]]
    try:
        contract = Contract(load(setup.target), setup)
    except CannotLoad as error:
        channel.send(pack(Broken(setup.id, str(error), error.details)))
        channel.receive()  # the server has heard when it closes the socket
        leave(1)
    channel.send(pack(Ready(setup.id, contract.name, contract.parameters_kind is not None)))
    if contract.is_async:
        asyncio.run(serve_async(channel, contract))
    serve(channel, contract)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except SystemExit as request:  # the user's code called sys.exit: do as Python would
        if isinstance(request.code, str):
            print(request.code, file=sys.stderr)
        leave(request.code & 0xFF if isinstance(request.code, int) else int(request.code is not None))
    except BaseException:
        traceback.print_exc()
        leave(1)
