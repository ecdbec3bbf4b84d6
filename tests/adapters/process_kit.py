"""Real processes for tests; what a test waits for announces itself through a pipe or a pidfd."""

import asyncio
import os
import select
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

from penstock.adapters.backends.process import ProcessBackend
from penstock.errors import BackendError
from penstock.output import without_note
from penstock.types import Batch, Reason, Request

FUNCTIONS = Path(__file__).with_name("user_functions.py")
Runner = Callable[[Coroutine[Any, Any, None]], None]
each_loop = pytest.mark.parametrize("run_loop", [uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])


def batch(*values: object, parameters: bytes = b"") -> Batch:
    requests = [
        Request(key=str(n), model="m", input=msgspec.json.encode(value), arrival=0, expires=9, deadline=9)
        for n, value in enumerate(values)
    ]
    return Batch(id=7, model="m", parameters=parameters, requests=requests, reason=Reason.FULL, sealed=0)


class Started:
    """`async with Started("echo") as backend`: started, and closed whatever happens."""

    def __init__(self, function: str, file: Path = FUNCTIONS, **options: Any) -> None:
        self.backend = ProcessBackend(f"{file}:{function}", name="slot-0", **options)

    async def __aenter__(self) -> ProcessBackend:
        await self.backend.start()
        return self.backend

    async def __aexit__(self, *_: object) -> None:
        await self.backend.close()


async def outputs(backend: ProcessBackend, *values: object, parameters: bytes = b"") -> list[Any]:
    result = await backend.run(batch(*values, parameters=parameters))
    return [msgspec.json.decode(without_note(output)[0]) for output in result.outputs]


async def failed(backend: ProcessBackend, kind: type[BackendError], *values: object) -> BackendError:
    with pytest.raises(BackendError) as caught:
        await backend.run(batch(*values))
    assert type(caught.value) is kind
    return caught.value


async def failure(backend: ProcessBackend, kind: type[BackendError], *values: object) -> str:
    return (await failed(backend, kind, *values)).message


async def begin_hanging(backend: ProcessBackend, fifo: Path) -> "asyncio.Task[Any]":
    """A batch that is in the function's hands and will not come back."""
    os.mkfifo(fifo)
    running = asyncio.ensure_future(backend.run(batch(str(fifo))))
    assert await asyncio.to_thread(fifo.read_text) == str(backend.pid)
    return running


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def ends(pidfd: int) -> bool:
    """Whether the process behind it ends, given ample time."""
    try:
        return bool(select.select([pidfd], [], [], 60)[0])
    finally:
        os.close(pidfd)
