"""The road over WebSocket: many requests under way on one connection, each answered as soon as it is ready.
`AsyncClient` makes a `StreamRoad` for `transport="websocket"` (`async_client.py`).

A connection is opened with the first request, and another one when one is full, has ended or has said good-bye.
The library `websockets` reads and writes the frames; it comes with the extra `ws`.
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
        self._transport: asyncio.Transport
        self._parts: list[bytes] = []  # what has come so far of a message in several frames
        self.answers: Answers = {}  # by the number of the request
        self.opened: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.takes_more = True  # whether further requests may be sent on this connection

    @property
    def has_room(self) -> bool:
        return self.takes_more and len(self.answers) < MOST_EACH

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        request = self._protocol.connect()
        for name, value in self._fields.items():
            request.headers[name] = value
        self._protocol.send_request(request)
        self._flush()

    def say(self, message: bytes) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_text(message)
            self._flush()

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
            self._transport.abort()

    def abort(self) -> None:
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
            self._transport.abort()
            return
        if said.goodbye is not None:
            self.takes_more = False
        answer = None if said.id is None else self.answers.pop(said.id, None)
        if answer is not None and not answer.done():
            status = 200 if said.error is None else STATUS_BY_CODE.get(said.error, 500)
            answer.set_result(Response(status, [], message))

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                self._transport.write_eof()
        if self._protocol.state is State.CLOSED:
            self._transport.close()


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
        self._sockets: list[Socket] = []
        self._opening: asyncio.Lock = asyncio.Lock()
        self._numbers = count(1)

    async def send(self, body: Body, key: str | None, limit: float | None) -> Response:
        """There are no Idempotency-Keys here: the key is not sent."""
        if has_bytes(body.input):
            raise TypeError("bytes cannot be sent over WebSocket: use the usual transport")
        number = next(self._numbers)
        content = to_json(body)
        message = b'{"id":%d,%b' % (number, content[1:])
        try:
            async with asyncio.timeout(limit):
                socket = self._free() or await self._open()
                answer: asyncio.Future[Response] = self.loop.create_future()
                socket.answers[number] = answer
                socket.say(message)
                try:
                    return await answer
                finally:
                    if socket.answers.pop(number, None) is not None:  # nobody waits for it any more
                        socket.say(b'{"cancel":%d}' % number)
        except TimeoutError:
            raise Late("the server gave no answer in time", code="NO_ANSWER", maybe_run=True) from None

    async def result(self, task: str, wait: float, client_id: str | None) -> Response:
        raise InferenceError("a WebSocket makes no tasks")

    async def close(self) -> None:
        for socket in self._sockets:
            socket.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*(socket.ended for socket in self._sockets))
        except TimeoutError:
            for socket in self._sockets:
                socket.abort()

    def _free(self) -> Socket | None:
        return next((socket for socket in self._sockets if socket.has_room), None)

    async def _open(self) -> Socket:
        async with self._opening:  # those who come meanwhile wait for the same connection
            socket = self._free()
            if socket is not None:
                return socket
            self._sockets = [each for each in self._sockets if not each.ended.done()]
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, socket = await self.loop.create_connection(
                        lambda: Socket(self._url, self._fields, self.loop),
                        self._host,
                        self._port,
                        ssl=self._tls,
                        server_hostname=self._host if self._tls else None,
                    )
                    self._sockets.append(socket)
                    await socket.opened
            except (OSError, TimeoutError) as error:
                again = not isinstance(error, ssl.SSLError)
                where = f"{self._host}:{self._port}"
                why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "no answer"
                raise NoContact(
                    f"no connection to {where}: {why}", code="NO_CONNECTION", again=again
                ) from error
            return socket
