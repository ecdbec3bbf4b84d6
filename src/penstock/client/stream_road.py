"""The road over WebSocket: many requests under way on one connection, each answered as soon as it is ready.
`AsyncClient` makes a `StreamRoad` for `transport="websocket"` (`async_client.py`).

A connection is opened with the first request, and another one when one is full, has ended or has said good-bye.
Requests that come meanwhile wait for the one that is being opened: until it is, nothing can be said on it. What
WebSocket is, the library `websockets` knows; it comes with the extra `ws`.
"""

import asyncio
import ssl
from itertools import count
from typing import cast

import msgspec

try:
    from websockets.client import ClientProtocol
    from websockets.exceptions import InvalidStatus
    from websockets.frames import Frame, Opcode
    from websockets.protocol import State
    from websockets.uri import parse_uri
except ImportError:
    from penstock.errors import UserMistake

    raise UserMistake("transport='websocket' needs the extra ws: pip install 'penstock[ws]'") from None

from penstock.client.answer import error_in
from penstock.client.body import Body, has_bytes, to_json
from penstock.client.connections import CLOSE_SECONDS, CONNECT_SECONDS, Response
from penstock.client.errors import InferenceError, Late, NoContact
from penstock.errors import STATUS_BY_CODE

MOST_EACH = 512  # requests under way on one connection; servers allow 1,024 unless told otherwise


class _Said(msgspec.Struct):
    """What is read of a message before it is known whose answer it is."""

    id: int | None = None
    error: str | None = None
    goodbye: str | None = None


_said = msgspec.json.Decoder(_Said).decode
Answers = dict[int, "asyncio.Future[Response]"]


class Socket(asyncio.Protocol):
    """One connection, and the requests on it."""

    def __init__(self, url: str, fields: dict[str, str], loop: asyncio.AbstractEventLoop) -> None:
        self._protocol = ClientProtocol(parse_uri(url), max_size=None)
        self._fields = fields
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._last: asyncio.TimerHandle | None = None  # ends a connection whose server does not
        self._parts: list[bytes] = []  # of a message that comes in several frames
        self.answers: Answers = {}
        self.opened: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.takes_more = True  # whether further requests may be sent on this connection

    @property
    def is_open(self) -> bool:
        """Whether something said on it now may be answered."""
        return self.takes_more and self._protocol.state is State.OPEN

    @property
    def has_room(self) -> bool:
        return self.is_open and len(self.answers) < MOST_EACH

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        request = self._protocol.connect()
        for name, value in self._fields.items():
            request.headers[name] = value
        self._protocol.send_request(request)
        self._flush()

    def say(self, message: bytes) -> None:
        """Raises NoContact if nothing can be said any more, or not yet."""
        if self._protocol.state is not State.OPEN:
            raise NoContact("the connection is not open", code="BROKEN_OFF", again=True)
        self._protocol.send_text(message)
        self._flush()

    def forget(self, number: int) -> None:
        """Takes a request back that nobody waits for any more, if it has no answer yet."""
        if self.answers.pop(number, None) is not None and self._protocol.state is State.OPEN:
            self.say(b'{"cancel":%d}' % number)

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._read(event)
        if not self.opened.done():
            self._look_whether_open()
        self._flush()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.takes_more = False
        if self._last is not None:
            self._last.cancel()
        lost = NoContact(
            "the connection was closed before the answer", code="BROKEN_OFF", again=True, maybe_run=True
        )
        for answer in self.answers.values():
            if not answer.done():
                answer.set_exception(lost)
        self.answers.clear()
        if not self.opened.done():
            self.opened.set_exception(
                NoContact("the connection was closed", code="NO_CONNECTION", again=True)
            )
        self.ended.set_result(None)

    def close(self) -> None:
        self.takes_more = False
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
            self._flush()
        else:
            self.abort()

    def abort(self) -> None:
        self.takes_more = False
        self.opened.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _look_whether_open(self) -> None:
        """Tells whoever opens the connection how the handshake ended, once it has."""
        refused = self._protocol.handshake_exc
        if self._protocol.state is State.OPEN:
            self.opened.set_result(None)
        elif isinstance(refused, InvalidStatus):
            said = refused.response
            fields = [(name.encode(), value.encode()) for name, value in said.headers.raw_items()]
            self.opened.set_exception(error_in(Response(said.status_code, fields, bytes(said.body or b""))))
        elif refused is not None:
            self.opened.set_exception(NoContact(f"no WebSocket: {refused}", code="NO_CONNECTION"))

    def _read(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._parts.append(bytes(frame.data))
            if frame.fin:
                message, self._parts = b"".join(self._parts), []
                self._answer(message)
        elif frame.opcode is Opcode.CLOSE:
            self.takes_more = False

    def _answer(self, message: bytes) -> None:
        try:
            said = _said(message)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.abort()
            return
        if said.goodbye is not None:
            self.takes_more = False
        answer = None if said.id is None else self.answers.pop(said.id, None)
        if answer is not None and not answer.done():
            status = 200 if said.error is None else STATUS_BY_CODE.get(said.error, 500)
            answer.set_result(Response(status, [], message))

    def _flush(self) -> None:
        assert self._transport is not None
        for data in self._protocol.data_to_send():
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                self._transport.write_eof()
        if self._protocol.state is State.CLOSED:
            self._transport.close()
        elif self._last is None and self._protocol.close_expected():
            self._last = self._loop.call_later(CLOSE_SECONDS, self.abort)


class StreamRoad:
    """Implements `Road` over WebSocket."""

    def __init__(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        url: str,
        fields: dict[str, str],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`url`: with ws:// or wss://. `fields`: the header fields of the request that opens a connection."""
        self.loop = loop
        self._host, self._port, self._tls = host, port, tls
        self._url, self._fields = url, fields
        self._sockets: list[Socket] = []  # none that is not open yet
        self._opening: asyncio.Future[Socket] | None = None
        self._connecting: asyncio.Task[Socket] | None = None
        self._numbers = count(1)
        self._closed = False

    async def send(self, body: Body, key: str | None, limit: float | None) -> Response:
        """There are no Idempotency-Keys here: the key is not sent."""
        if has_bytes(body.input):
            raise TypeError("bytes cannot be sent over WebSocket: use the usual transport")
        number = next(self._numbers)
        content = to_json(body)
        message = b'{"id":%d,%b' % (number, content[1:])
        said = False
        try:
            async with asyncio.timeout(limit):
                socket = await self._with_room()
                socket.say(message)
                said = True
                answer: asyncio.Future[Response] = self.loop.create_future()
                socket.answers[number] = answer
                try:
                    return await answer
                finally:
                    socket.forget(number)
        except TimeoutError:
            raise Late("the server gave no answer in time", code="NO_ANSWER", maybe_run=said) from None

    async def result(self, task: str, wait: float, client_id: str | None) -> Response:
        raise InferenceError("a WebSocket makes no tasks")

    async def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        for socket in self._sockets:
            socket.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*(asyncio.shield(socket.ended) for socket in self._sockets))
        except TimeoutError:
            for socket in self._sockets:
                socket.abort()

    async def _with_room(self) -> Socket:
        """Returns an open connection with room, at once if there is one. Raises what went wrong in opening it."""
        while not self._closed:
            socket = next((socket for socket in self._sockets if socket.has_room), None)
            if socket is not None:
                return socket
            # Whoever gives up waiting does not end it for the others.
            opened = await asyncio.shield(self._opening or self._open())
            if not opened.is_open:
                raise NoContact("the connection was closed", code="NO_CONNECTION", again=True)
        raise _client_is_closed()

    def _open(self) -> "asyncio.Future[Socket]":
        """Begins to open a connection, for all who wait for one."""
        opening = self._opening = self.loop.create_future()
        connecting = self._connecting = self.loop.create_task(self._connect())

        def ended(done: "asyncio.Task[Socket]") -> None:
            self._opening = self._connecting = None
            if done.cancelled():
                opening.set_exception(_client_is_closed())
            elif (error := done.exception()) is not None:
                opening.set_exception(error)
            else:
                opening.set_result(done.result())
            opening.exception()  # looked at, also if nobody waits any more

        connecting.add_done_callback(ended)
        return opening

    async def _connect(self) -> Socket:
        self._sockets = [each for each in self._sockets if not each.ended.done()]
        socket = Socket(self._url, self._fields, self.loop)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self.loop.create_connection(
                    lambda: socket,
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
                await socket.opened
        except BaseException as error:
            socket.abort()
            where = f"{self._host}:{self._port}"
            if isinstance(error, ssl.SSLError):
                raise NoContact(f"{where} cannot be trusted: {error.reason or error}", code="TLS") from error
            if isinstance(error, OSError):  # of which a TimeoutError is one
                why = error.strerror or "no answer"
                raise NoContact(
                    f"no connection to {where}: {why}", code="NO_CONNECTION", again=True
                ) from error
            raise
        self._sockets.append(socket)
        return socket


def _client_is_closed() -> NoContact:
    return NoContact("the client is closed", code="CLOSED")
