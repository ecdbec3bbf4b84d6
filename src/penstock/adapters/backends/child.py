"""The program that runs a user's function: `python -m penstock.adapters.backends.child FD NAME`. `keeper.py` starts
it, once for each worker of a function.

It loads the function, then runs batches one at a time, in its main thread (CUDA and signals need that). Other
threads read the next batch and write answers meanwhile (`beside.py`). How the function is called is in
`contract.py`, and the socket in `channel.py`. An error in the function is an answer to the server. If the process
dies, the server notices in `spawned.py`. The process never outlives the server: the kernel kills both, and a closed
socket ends it. When the server tells it to leave, it closes the user's object first.
"""

import asyncio
import contextlib
import ctypes
import faulthandler
import inspect
import io
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

import msgspec

from penstock.adapters.backends.beside import Writer, plain
from penstock.adapters.backends.channel import Channel, leave
from penstock.adapters.backends.contract import Contract
from penstock.adapters.backends.foreign_text import utf8
from penstock.adapters.backends.frames import (
    Broken,
    Leave,
    Look,
    Question,
    Ready,
    Setup,
    Work,
    pack,
)
from penstock.adapters.backends.loading import CannotLoad, load
from penstock.adapters.backends.reading import Reading

PR_SET_PDEATHSIG = 1  # an option of Linux' prctl
M_ARENA_MAX = -8  # an option of glibc's mallopt


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
