"""An HTTP/1.1 server in the test's own process that does what a script says, and keeps what it was sent."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any


@dataclass(frozen=True)
class Said:
    """A request as it came."""

    line: str
    fields: dict[str, str]  # names in lower case
    body: bytes
    connection: int  # the first is 0

    def json(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.body)
        return said

    @property
    def input(self) -> Any:
        return self.json()["input"]


@dataclass(frozen=True)
class Told:
    """What to do with a request."""

    status: int = 200
    body: bytes = b""
    fields: dict[str, str] = field(default_factory=dict)
    hang_up: bool = False  # close instead of answering
    until: asyncio.Event | None = None  # answer when this is set
    close: bool = False  # after the answer, without a word beforehand


def good(output: object, **more: object) -> Told:
    metadata = {"queue_ms": 1.0, "inference_ms": 2.0, "batch_size": 3, "model_version": "", "cached": False}
    said = {"request_id": "r", "task_id": "r", "latency_ms": 3.0, "metadata": metadata | more, "model": "m"}
    return Told(body=json.dumps(said | {"output": output}).encode())


def bad(
    status: int, code: str, retry_after_ms: float | None = None, message: str = "it was not to be"
) -> Told:
    said: dict[str, object] = {"error": code, "message": message, "request_id": "r-1"}
    if retry_after_ms is not None:
        said["retry_after_ms"] = retry_after_ms
    return Told(status, json.dumps(said).encode())


Script = Callable[[Said, int], Told]


class Scripted:
    """`script`: is given each request and its number, and says what to do."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.said: list[Said] = []
        self.url = ""
        self.connections = 0
        self.at_once = self.most_at_once = 0
        self.arrived = asyncio.Event()  # set by each request

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self.connections = self.connections, self.connections + 1
        try:
            while await self._answer(reader, writer, number):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int
    ) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *lines = head.rstrip("\r\n").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        said = Said(line, fields, body, connection)
        self.said.append(said)
        self.arrived.set()
        told = self.script(said, len(self.said) - 1)
        if told.hang_up:
            return False
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if told.until is not None:
            await told.until.wait()
        self.at_once -= 1
        more = "".join(f"{name}: {value}\r\n" for name, value in told.fields.items())
        answer = (
            f"HTTP/1.1 {told.status} x\r\nContent-Length: {len(told.body)}\r\n{more}\r\n".encode() + told.body
        )
        writer.write(answer)
        await writer.drain()
        return not told.close


@asynccontextmanager
async def scripted(script: Script | None = None) -> AsyncIterator[Scripted]:
    """Without a script it answers with what was asked."""
    server = Scripted(script or (lambda said, number: good(said.input)))
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(server.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def in_loop(scene: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, in a loop of its own."""

    @wraps(scene)
    def test(*arguments: Any, **named: Any) -> None:
        asyncio.run(scene(*arguments, **named))

    return test
