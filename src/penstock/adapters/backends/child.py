"""The program that runs a user's function: `python -m penstock.adapters.backends.child FD NAME`. `keeper.py` starts
it, once for each worker of a function.

It loads the function, then runs batches one at a time, in its main thread (CUDA and signals need that). Other
threads read the next batch and write answers meanwhile (`beside.py`). An error in the function is an answer to the
server. If the process dies, the server notices in `spawned.py`. The process never outlives the server: the kernel
kills both, and a closed socket ends it. When the server tells it to leave, it closes the user's object first.
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
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

import msgspec

from penstock.adapters.backends.beside import Writer, plain
from penstock.adapters.backends.foreign_text import describe, named, utf8, without_quotes
from penstock.adapters.backends.frames import (
    BEAT_EVERY,
    BadFrame,
    Beat,
    Broken,
    Done,
    Inbox,
    Leave,
    Look,
    Question,
    Ready,
    Rejected,
    Seen,
    Setup,
    Work,
    pack,
)
from penstock.adapters.backends.loading import CannotLoad, Loaded, load, trace_of, why_not
from penstock.adapters.backends.out_of_memory import is_out_of_memory
from penstock.adapters.backends.outputs import ContractBroken, Encoded, Outputs
from penstock.adapters.backends.pressure import Pressure
from penstock.adapters.backends.reading import Inputs, Reading
from penstock.adapters.backends.signature import Calling, Unfit

PR_SET_PDEATHSIG = 1  # an option of Linux' prctl
M_ARENA_MAX = -8  # an option of glibc's mallopt
# So many tracebacks are logged, one for each line of code: a stream of bad inputs must not flood the log.
TRACEBACKS = 32
HERE = Path(__file__).parent


class Channel:
    """The socket to the server. Calls block. The lock keeps a heartbeat from going into the middle of an answer."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._inbox: Inbox[Question] = Inbox(msgspec.msgpack.Decoder(Question))
        self._lock = threading.Lock()

    def receive(self) -> list[Question]:
        """Wait for the next question. Returns it, and the one after it if both came together."""
        while True:
            count = self.sock.recv_into(self._inbox.room())
            if not count:
                leave(0)
            if messages := self._inbox.filled(count):
                return messages

    def send(self, frame: bytes | bytearray) -> None:
        """Sends a frame whole. If the server is gone, the process ends."""
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


class Contract:
    """The user's function, and the frames that tell the server what came of calling it."""

    def __init__(self, loaded: Loaded, setup: Setup) -> None:
        try:
            self._calling = Calling(loaded.function, per_item=setup.per_item)
        except Unfit as why:
            raise CannotLoad(f"{loaded.where} {why}") from None
        self.name = utf8(loaded.name)
        self._loaded = loaded
        self.read = Inputs(self.name, setup.input_kind, per_item=setup.per_item).read
        self._outputs = Outputs(self.name, setup.output_kind)
        self._logged: set[tuple[type, str, int]] = set()  # kind of error, file and line
        self._pressure = Pressure(loaded.pressure, setup.memory_limit)
        self._memory_left = memory_left()  # bytes, when the function is loaded and nothing has run

    @property
    def parameters(self) -> list[str] | None:
        return self._calling.names

    @property
    def closes(self) -> bool:
        return self._loaded.close is not None

    @property
    def is_async(self) -> bool:
        loaded = self._loaded
        parts = (
            loaded.function, type(loaded.function).__call__, loaded.setup, loaded.close, loaded.warm_up
        )  # fmt: skip
        return any(map(inspect.iscoroutinefunction, parts))

    def begin(self) -> Any:
        """Calls the user's `setup`; what it returns may have to be awaited."""
        return None if self._loaded.setup is None else self._loaded.setup()

    def end(self) -> Any:
        """Calls the user's `close`; what it returns may have to be awaited."""
        return None if self._loaded.close is None else self._loaded.close()

    def not_set_up(self, target: str, error: BaseException) -> CannotLoad:
        file = target.rpartition(":")[0]
        return CannotLoad(why_not(f"setup of {self._loaded.where} failed", file, error), trace_of(error))

    def warm_up(self) -> Any:
        """Calls the user's `warmup`, which makes inputs; what it returns may have to be awaited."""
        return None if self._loaded.warm_up is None else self._loaded.warm_up()

    def warm_up_failed(self, target: str, error: BaseException) -> CannotLoad:
        file = target.rpartition(":")[0]
        return CannotLoad(why_not(f"warmup of {self._loaded.where} failed", file, error), trace_of(error))

    def call(self, reading: Reading) -> Any:
        """Calls the function, unless no input can be read; what it returns may have to be awaited."""
        if reading.unread and not reading.inputs:
            return []
        return self._calling(reading.inputs, reading.parameters)

    def answer(self, work: Work, reading: Reading, outputs: Any) -> bytearray:
        """Returns the frame with the outputs of a batch. Raises ContractBroken."""
        encoded, failed = self._encoded(reading, outputs)
        return self._done(work, encoded, failed, self._pressure.after_batch(), time.monotonic())

    def answer_later(self, work: Work, reading: Reading, outputs: Any) -> Callable[[], bytearray]:
        """Returns a function that makes the answer, which any thread may call. The user's `pressure()` is called
        now, in this thread."""
        pressure, at = self._pressure.after_batch(), time.monotonic()

        def made() -> bytearray:
            try:
                encoded, failed = self._encoded(reading, outputs)
                return self._done(work, encoded, failed, pressure, at)
            except Exception as error:  # as in the main thread, it is an answer to this batch
                return self.refusal(work, error)

        return made

    def _encoded(self, reading: Reading, outputs: Any) -> Encoded:
        encoded, failed = self._outputs.encode(outputs, len(reading.inputs), reading.binary)
        if reading.unread:
            encoded, failed = reading.among_all(encoded, failed)
        return Encoded(encoded, failed)

    def _done(
        self, work: Work, encoded: list[bytes], failed: list[tuple[int, str, str]], pressure: float, at: float
    ) -> bytearray:
        try:
            return pack(Done(work.id, encoded, pressure, at, failed))
        except BadFrame as error:
            raise ContractBroken(f"{self.name}: {error}") from None

    def seen(self, look: Look) -> bytearray:
        return pack(Seen(look.id, self._pressure.at_rest()))

    def refusal(self, work: Work, error: BaseException) -> bytearray:
        """Returns the frame that says that a batch failed, and why."""
        if isinstance(error, ContractBroken):
            return pack(Rejected(work.id, utf8(str(error))))
        if isinstance(error, Unfit):  # the parameters do not fit, so that trying again would not help
            why = utf8(f"{self.name} {error}")
            count = len(work.inputs)
            failed = [(position, why, "") for position in range(count)]
            return self._done(work, [b""] * count, failed, self._pressure.after_batch(), time.monotonic())
        kind = type(error).__name__
        details = describe(error)
        spent = isinstance(error, MemoryError) and self._memory_is_gone(error)
        rejected = Rejected(work.id, utf8(f"{self.name} raised {kind}"), details, spent)
        rejected.too_large = not spent and is_out_of_memory(error, work.inputs)
        if self._is_new(error):
            quotable = without_quotes(details, [*work.inputs, work.parameters])
            rejected.logged = named(type(error), quotable)
            rejected.trace = where_raised(error)
        return pack(rejected)

    def _memory_is_gone(self, error: MemoryError) -> bool:
        """Returns whether memory has leaked. If one input just asked for too much, all of it is free again."""
        traceback.clear_frames(error.__traceback__)  # lets go of what the function held while it ran
        return memory_left() < self._memory_left / 2

    def _is_new(self, error: BaseException) -> bool:
        """Returns whether no such error raised at this line was logged before."""
        frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
        raised = (type(error), frame.f_code.co_filename, line)
        if raised in self._logged or len(self._logged) >= TRACEBACKS:
            return False
        self._logged.add(raised)
        return True


T = TypeVar("T")
# A question and, if it is a batch, its inputs or why they could not be read.
Coming = tuple[Question, Reading | Exception | None]


def serve(channel: Channel, contract: Contract) -> NoReturn:
    """Answers the server's questions, one after the other, until it says `Leave`."""
    coming: SimpleQueue[Coming] = SimpleQueue()
    threading.Thread(
        target=read, args=(channel, contract, coming), name="penstock-reader", daemon=True
    ).start()
    writer = Writer()
    while True:
        question, reading = coming.get()
        if isinstance(question, Leave):
            writer.wait()
            contract.end()
            leave(0)
        if isinstance(question, Look):
            channel.send(contract.seen(question))
            continue
        assert isinstance(question, Work)
        try:
            run(channel, contract, writer, question, reading, coming)
        except SystemExit:
            writer.wait()
            raise
        except BaseException as error:  # whatever the function raises is an answer to this batch
            channel.send(contract.refusal(question, error))
        del question, reading  # so that a waiting process holds nobody's input


def read(channel: Channel, contract: Contract, coming: "SimpleQueue[Coming]") -> NoReturn:
    """Reads questions in the reading thread, so that the next batch is read while the function runs."""
    while True:
        for question in or_leave(channel.receive):
            coming.put((question, reading_of(contract, question)))
            del question


def or_leave(do: Callable[[], T]) -> T:
    """Do what a thread has to do; without it the process is of no use."""
    try:
        return do()
    except BaseException:
        traceback.print_exc()
        leave(1)


def reading_of(contract: Contract, question: Question) -> Reading | Exception | None:
    try:
        return contract.read(question) if isinstance(question, Work) else None
    except Exception as error:
        return error


def run(
    channel: Channel, contract: Contract, writer: Writer, work: Work, reading: Reading | Exception | None,
    coming: "SimpleQueue[Coming]",
) -> None:  # fmt: skip
    """Runs one batch. If the next one is there already, this batch's answers are written while the next one
    runs."""
    if not isinstance(reading, Reading):
        assert reading is not None
        raise reading
    began = time.monotonic()
    outputs = contract.call(reading)
    writer.ran(time.monotonic() - began)
    if not coming.empty() and writer.worth_it and (kept := plain(outputs)) is not None:
        answer = contract.answer_later(work, reading, kept)
        writer.write(lambda: or_leave(lambda: channel.send(answer())))
    else:
        channel.send(contract.answer(work, reading, outputs))


async def run_async(contract: Contract, work: Work) -> bytearray:
    reading = contract.read(work)
    return contract.answer(work, reading, await _awaited(contract.call(reading)))


async def serve_async(channel: Channel, contract: Contract) -> NoReturn:
    """Does what `serve` does, on one event loop. The loop turns between batches too, for tasks that the user's code
    has left on it."""
    questions: asyncio.Queue[Question] = asyncio.Queue()

    def received() -> None:
        for question in channel.receive():
            questions.put_nowait(question)

    asyncio.get_running_loop().add_reader(channel.sock.fileno(), received)
    while True:
        work = await questions.get()
        if isinstance(work, Leave):
            await _awaited(contract.end())
            leave(0)
        if isinstance(work, Look):
            channel.send(contract.seen(work))
            continue
        assert isinstance(work, Work)
        try:
            frame = await run_async(contract, work)
        except SystemExit:
            raise
        except BaseException as error:
            frame = contract.refusal(work, error)
        del work
        channel.send(frame)
        del frame


async def _awaited(result: Any) -> Any:
    """Returns the result of a function, a setup or a close, any of which may be async."""
    return await result if inspect.isawaitable(result) else result


def where_raised(error: BaseException) -> str:
    """Returns the traceback of an error, without Penstock's own frames above the function's."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = sum(1 for _ in takewhile(lambda frame: Path(frame.filename).parent == HERE, frames))
    return utf8("".join(traceback.format_list(frames[ours:] or frames)).rstrip())


def memory_left() -> float:
    """Returns the bytes until the memory limit of this process; infinite if there is none."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return math.inf
    with Path("/proc/self/statm").open() as file:
        return limit - int(file.read().split()[0]) * resource.getpagesize()


def settle() -> None:
    """Makes this a process that dies with its parent, leaves signals to it, and prints where it crashed."""
    with contextlib.suppress(OSError, AttributeError):  # not every system has prctl
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The server decides when to end: a supervisor that signals everybody must not cut off its draining.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def one_arena() -> None:
    """Makes all threads take their memory from one arena. Otherwise glibc sets 64 MiB of addresses aside for each
    thread, and they count against a memory limit."""
    with contextlib.suppress(OSError, AttributeError):  # not every system has mallopt
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def leave(code: int) -> NoReturn:
    """Ends the process now. Neither a thread of the user's nor a library that hangs may keep it alive."""
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
    (setup,) = channel.receive()
    assert isinstance(setup, Setup)
    if setup.memory_limit is not None:
        one_arena()
        resource.setrlimit(resource.RLIMIT_AS, (setup.memory_limit, setup.memory_limit))
    sys.argv = [setup.target.rpartition(":")[0]]
    try:
        contract = Contract(load(setup.target), setup)
    except CannotLoad as error:
        give_up(channel, setup, error)
    if contract.is_async:
        asyncio.run(_set_up_and_serve(channel, setup, contract))
    try:
        contract.begin()
    except BaseException as error:
        give_up(channel, setup, contract.not_set_up(setup.target, error))
    try:
        inputs = encoded(contract.warm_up() if setup.warms_up else None)
    except BaseException as error:
        give_up(channel, setup, contract.warm_up_failed(setup.target, error))
    channel.send(ready(setup, contract, inputs))
    serve(channel, contract)


def ready(setup: Setup, contract: Contract, warm_up: list[bytes]) -> bytearray:
    return pack(Ready(setup.id, contract.name, contract.parameters, contract.closes, os.getpid(), warm_up))


def encoded(made: Any) -> list[bytes]:
    """Returns as JSON the inputs that the user's `warmup` returned: one, a list of them, or None if it has warmed
    up by itself."""
    if made is None:
        return []
    inputs = made if isinstance(made, list | tuple) else [made]
    return [msgspec.json.encode(each) for each in inputs]


async def _set_up_and_serve(channel: Channel, setup: Setup, contract: Contract) -> NoReturn:
    try:
        await _awaited(contract.begin())
    except BaseException as error:
        give_up(channel, setup, contract.not_set_up(setup.target, error))
    try:
        inputs = encoded(await _awaited(contract.warm_up()) if setup.warms_up else None)
    except BaseException as error:
        give_up(channel, setup, contract.warm_up_failed(setup.target, error))
    channel.send(ready(setup, contract, inputs))
    await serve_async(channel, contract)


def give_up(channel: Channel, setup: Setup, error: CannotLoad) -> NoReturn:
    """Tells the server why the function could not be loaded, and ends."""
    channel.send(pack(Broken(setup.id, utf8(str(error)), error.details)))
    channel.receive()  # returns never: the server closes the socket once it has read the frame
    leave(1)


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
