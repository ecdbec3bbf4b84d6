"""The edge without sockets: a transport that does as it is told, clients that send bytes, an app that can wait."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from penstock.doors.every_answer import failed
from penstock.edge.answer import Answer
from penstock.edge.body import Pieces, Whole
from penstock.edge.caller import Caller
from penstock.edge.edge import Edge, EdgeLimits
from penstock.edge.fields import Headers
from penstock.edge.heads import POST, Head
from penstock.edge.http1 import Connection
from penstock.errors import PenstockError
from penstock.testing import run_virtual
from penstock.types import Failure
from wire import Heard, read_responses


@dataclass
class Asked:
    """One request as the app was handed it; it is also told when its client leaves."""

    connection: Caller
    method: bytes
    url: bytes
    headers: Headers
    body: bytes
    times_left: int = 0

    def left(self) -> None:
        self.times_left += 1

    def answer(self, body: bytes | None = None) -> None:
        self.connection.respond(Answer(200, [], self.url if body is None else body))


@dataclass
class EchoApp:
    """Answers with the address, the body and the method: at once, or when the test says so."""

    at_once: bool = True
    most: int = 0  # bytes of a body at an address that begins with /large
    asked: list[Asked] = field(default_factory=list)
    refused: list[Exception] = field(default_factory=list)
    tenant: Callable[[Headers], str] = lambda headers: ""  # or raises: who sends a long body, by its head

    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        body = b"".join(body.pieces) if isinstance(body, Pieces) else body
        asked = Asked(caller, method, url, headers, body)
        self.asked.append(asked)
        if self.at_once:
            asked.answer(b"%b %b %b" % (method, url, body))
        else:
            caller.leaving = asked

    def handle_ordinary(self, caller: Caller, head: Head, body: bytes) -> None:
        self.handle(caller, POST, head.url, head.headers, body)

    def most_body(self, url: bytes) -> int:
        return self.most if url.startswith(b"/large") else 0

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        return self.tenant(headers)

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        self.refused.append(exc)
        assert isinstance(exc, PenstockError), exc
        caller.respond(failed(Failure(exc.code, exc.message), "id"))

    @property
    def urls(self) -> list[bytes]:
        return [asked.url for asked in self.asked]


class Client(asyncio.Transport):
    """Both ends of one connection: what the edge does to its transport, and what a client does to its socket."""

    def __init__(self, edge: Edge, make: Callable[[Edge], asyncio.Protocol] = Connection) -> None:
        super().__init__()
        self.connection: Any = make(edge)
        self.received = b""
        self.writes = 0
        self._reading = True
        self.shut = self.closed = self.aborted = False
        self.slow = False  # does not read what it is sent
        self._unread: list[bytes] = []  # by the edge
        self._waiting = 0  # bytes that the transport has, since it is slow
        self.connection.connection_made(self)

    # ---- the client --------------------------------------------------------------------------------------

    def send(self, *parts: bytes) -> None:
        """What is sent while the edge does not read lies in the socket until it does."""
        for part in parts:
            self._unread.append(part)
            self._flow()

    def read_all(self) -> None:
        """It was slow, and has caught up."""
        self.slow = False
        self._waiting = 0
        self.connection.resume_writing()

    def leave(self) -> None:
        self.closed = True
        self.connection.connection_lost(None)

    def heard(self) -> Heard:
        heard = Heard(self.received, self.closed)
        read_responses(heard)
        return heard

    @property
    def unread(self) -> int:
        """Bytes that nobody has taken off the socket."""
        return sum(map(len, self._unread))

    def is_read(self) -> bool:
        return self._reading

    # ---- its transport -----------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        assert not self.closed, "nothing is written to a connection that was closed"
        self.received += data
        self.writes += 1
        if self.slow:
            self._waiting += len(data)
            self.connection.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """A slow client is slow from its first byte."""

    def get_write_buffer_size(self) -> int:
        return self._waiting

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.shut = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.connection = protocol

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        asyncio.get_running_loop().call_soon(self._flow)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        """What was written still goes: a client that does not read keeps it open."""
        self.closed = True
        if not self.slow:
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def abort(self) -> None:
        self.closed = self.aborted = True
        asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def _flow(self) -> None:
        while self._unread and self._reading and not self.closed:
            self.connection.data_received(self._unread.pop(0))


def edge_with(app: EchoApp, **limits: Any) -> Edge:
    loop = asyncio.get_running_loop()
    return Edge(app, EdgeLimits(**limits), loop, loop.time)


def get(path: str, *headers: str, version: str = "1.1", method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "host: test", *headers, "", ""]).encode()


async def settle(turns: int = 8) -> None:
    """Until everything that is due has happened."""
    for _ in range(turns):
        await asyncio.sleep(0)


def chunked(*chunks: bytes) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return get("/", "transfer-encoding: chunked", method="POST") + body


def in_virtual_time(scene: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(scene)
    def test(*args: Any, **named: Any) -> None:
        run_virtual(scene(*args, **named))

    return test
