"""What users may hand us, good and bad. Only ever run in a process of its own."""

import asyncio
import ctypes
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MAIN_THREAD = threading.main_thread()
calls = 0
_loops: set[int] = set()


def echo(inputs: list[Any]) -> list[Any]:
    return inputs


def as_tuple(inputs: list[str]) -> tuple[str, ...]:
    return tuple(inputs)


async def async_upper(inputs: list[str]) -> list[str]:
    await asyncio.sleep(0)
    _loops.add(id(asyncio.get_running_loop()))
    assert len(_loops) == 1
    return [text.upper() for text in inputs]


class Doubler:
    async def __call__(self, inputs: list[int]) -> list[int]:
        return [2 * number for number in inputs]


doubler = Doubler()


def with_parameters(inputs: list[str], parameters: dict[str, Any]) -> list[str]:
    return [text + parameters.get("suffix", "-") for text in inputs]


def with_positional_parameters(inputs: list[str], parameters: dict[str, Any], /) -> list[str]:
    return with_parameters(inputs, parameters)


async def with_keyword_parameters(inputs: list[str], *, parameters: dict[str, Any]) -> list[str]:
    return with_parameters(inputs, parameters)


def printing(inputs: list[str]) -> list[str]:
    print("printed", inputs[0])
    os.write(1, b"written\n")
    return inputs


def flood(inputs: list[str]) -> list[str]:
    """Each input says what to print, and how many bytes of it: on both streams, past Python's buffers."""
    for text in inputs:
        kind, _, size = text.partition(" ")
        piece = {
            "lines": b"x" * 99 + b"\n",
            "endless": b"x" * 100,
            "binary": bytes(range(256)),
            "bare": b"?",
        }[kind]
        block, left = piece * (65536 // len(piece)), int(size)
        while left > 0:
            left -= os.write(1 + left // 65536 % 2, block[:left])
    return inputs


def surroundings(inputs: list[str]) -> list[str]:
    main = threading.current_thread() is MAIN_THREAD
    return [os.environ.get("CUDA_VISIBLE_DEVICES", ""), sys.stdin.read(), str(main), " ".join(sys.argv)]


def count_calls(inputs: list[str]) -> list[str]:
    global calls
    calls += 1
    return [str(calls)] * len(inputs)


def paired(inputs: list[Any], parameters: list[dict[str, Any]]) -> list[Any]:
    """Where each input has parameters of its own."""
    return [list(pair) for pair in zip(inputs, parameters, strict=True)]


def one_too_few(inputs: list[str]) -> list[str]:
    return inputs[1:]


def not_a_list(inputs: list[str]) -> str:
    return inputs[0]


def nothing(inputs: list[str]) -> None:
    inputs.sort()


def one_dict(inputs: list[str]) -> dict[str, list[str]]:
    return {"outputs": inputs}


def generated(inputs: list[str]) -> Iterator[str]:
    return (text for text in inputs)


class Point(NamedTuple):
    x: int
    y: int
    z: int


def named_fields(inputs: list[str]) -> Point:
    return Point(1, 2, 3)


class Label(str):
    __slots__ = ()


def subclasses(inputs: list[str]) -> list[str]:
    return [Label(text) for text in inputs]


def raising(inputs: list[str]) -> list[str]:
    if inputs[0] == "long":
        raise ValueError("é\ud83d\n" * 1000)
    if inputs[0] == "interrupt":
        raise KeyboardInterrupt
    if inputs[0] == "fine":
        return inputs
    raise ValueError("no " + inputs[0])


async def async_raising(inputs: list[str]) -> list[str]:
    return raising(inputs)


def leaving(inputs: list[str]) -> list[str]:
    threading.Thread(target=time.sleep, args=(3600,)).start()  # would keep Python from ending
    sys.exit(int(inputs[0]))


async def async_leaving(inputs: list[str]) -> list[str]:
    sys.exit(int(inputs[0]))


def exiting(inputs: list[str]) -> list[str]:
    os._exit(int(inputs[0]))


def segfault(inputs: list[str]) -> list[str]:
    ctypes.string_at(0)
    return inputs


def balloon(inputs: list[str]) -> list[str]:
    return [str(len(bytearray(int(text)))) for text in inputs]


def hang(inputs: list[str]) -> list[str]:
    """Says through the pipe named by its input that it has begun, and never comes back."""
    Path(inputs[0]).write_text(str(os.getpid()))
    while True:
        signal.pause()


def leave_one_behind(inputs: list[str]) -> list[str]:
    return [str(subprocess.Popen(["sleep", "3600"]).pid) for _ in inputs]


def _daemon(*command: str) -> str:
    """The number of a process that has left our session and our family, as daemons do."""
    options = "start_new_session=True, stdout=subprocess.DEVNULL"
    script = f"import subprocess; print(subprocess.Popen({list(command)}, {options}).pid)"
    made = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    return made.stdout.decode().strip()


def make_a_daemon(inputs: list[str]) -> list[str]:
    if "exit" in inputs:
        os._exit(3)
    return [_daemon("sleep", "3600") for _ in inputs]


def make_orphans_that_end(inputs: list[str]) -> list[str]:
    return [_daemon("true") for _ in inputs]


def hang_with_a_daemon(inputs: list[str]) -> list[str]:
    Path(inputs[0]).write_text(_daemon("sleep", "3600"))
    while True:
        signal.pause()


def environment(inputs: list[str]) -> list[str]:
    return [",".join(sorted(name for name in os.environ if name.startswith(text))) for text in inputs]


def _sockets() -> list[int]:
    return [
        fd
        for fd in range(3, 64)
        if Path(f"/proc/self/fd/{fd}").exists() and stat.S_ISSOCK(os.fstat(fd).st_mode)
    ]


def write_garbage(inputs: list[str]) -> list[str]:
    for fd in _sockets():
        os.write(fd, b"\x00\x00\x00\x03abc")
    while True:
        signal.pause()


def hang_up(inputs: list[str]) -> list[str]:
    """Only when no heartbeat is to come any more: into a closed connection it would end the process."""
    silent = threading.Event()

    def sleep_for_ever(_: object) -> None:
        silent.set()
        threading.Event().wait()

    time.sleep = sleep_for_ever
    silent.wait()
    # The server closes its end too. Whatever reads there would end this process before the server does.
    os._exit = sleep_for_ever  # type: ignore[assignment]
    # Kept, because a socket that is forgotten is closed for reading too.
    connections = [socket.socket(fileno=fd) for fd in _sockets()]
    for connection in connections:
        connection.shutdown(socket.SHUT_WR)
    while True:
        signal.pause()


def told(inputs: list[dict[str, str]]) -> list[str]:
    """Says through a pipe that it has begun, is told through another what to do, and does it."""
    (given,) = inputs
    Path(given["begun"]).write_text(str(os.getpid()))
    what = Path(given["then"]).read_text()
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "exit":
        sys.exit(3)
    if what == "raise":
        raise ValueError("told to")
    if what == "print":
        print("told to", flush=True)
    if what == "fork" and os.fork() == 0:
        os._exit(0)
    return [what]


class Row:
    """Looks like a row of an array, and its memory is used again for the next batch."""

    value = 0

    def tolist(self) -> list[int]:
        assert threading.current_thread() is MAIN_THREAD
        return [Row.value]


def memory_used_again(inputs: list[int]) -> list[Row]:
    (Row.value,) = inputs
    return [Row()]
