"""One gRPC call: an HTTP/2 stream whose body is messages and whose answer ends with a status. A connection of
gRPC makes one for each call (`grpc.py`).

    a message     0, or 1 if it is compressed (1 byte), its length (4 bytes, the higher first), the message
    an answer     a head, messages, and a second head that says how it ended: `grpc-status`, 0 if all is well

A call of one message is a request, like any other stream. On a stream of messages each message is one, with a
`Caller` of its own (`grpc_call.py`); its answer goes out when it is there. While too many have no answer, what
comes is not taken, and the window of the stream stays shut.

How such a stream stands is told in `grpc_states.py`.

What a plane answers becomes an answer of gRPC so: the body is the message, and the fields stand in the second
head. If `grpc-status` is among the fields, the call ends with that status and without a message.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from penstock.edge.answer import Answer
from penstock.edge.body import Whole
from penstock.edge.bounds import LITTLE, State, too_large
from penstock.edge.fields import Headers
from penstock.edge.grpc_call import GrpcCall
from penstock.edge.grpc_states import StreamOfMessages
from penstock.edge.heads import POST
from penstock.edge.unsent import PIECE
from penstock.errors import (
    Malformed,
    MethodNotAllowed,
    NotFound,
    PenstockError,
    UnsupportedMedia,
)

if TYPE_CHECKING:
    from penstock.edge.grpc import GrpcConnection, GrpcEdge
    from penstock.edge.http2 import Http2Connection

PREFIX = 5  # bytes before each message
MOST_IN_A_TURN = 16  # messages of streams that wait in line
STATUS = "grpc-status"
BEGIN = [(b":status", b"200"), (b"content-type", b"application/grpc")]
WELL = (STATUS.encode(), b"0")


class GrpcStream(StreamOfMessages):
    """One call."""

    ends_with_body = False
    around_body = PREFIX

    __slots__ = ("_begun", "_trailers")

    def __init__(self, connection: "Http2Connection", number: int, complete: bool) -> None:
        super().__init__(connection, number, complete)
        self._trailers: list[tuple[bytes, bytes]] = []
        self._begun = False  # whether the head of the answer is sent

    # ---- the request -------------------------------------------------------------------------------------

    def _check_head(self, headers: Headers) -> None:
        kind = headers.pop(b"content-type", b"")
        headers.pop(b"te", None)
        if self._method != POST:
            raise MethodNotAllowed("a call of gRPC is a POST")
        if not kind.startswith(b"application/grpc"):
            raise UnsupportedMedia("this port speaks gRPC: send application/grpc")
        if headers.get(b"grpc-encoding", b"identity") != b"identity":
            raise UnsupportedMedia("send messages uncompressed: grpc-encoding is not accepted")
        edge = cast("GrpcEdge", self._edge)
        if self._url not in edge.methods:  # said now: whether it takes one message or several is not known
            raise NotFound(f"there is no method {self._url[:100].decode('latin-1')!r}")
        if self._url in edge.streams:
            self._expect_messages()

    def _find_holder(self) -> None:
        """Find out who asks, if it is a stream of messages. For one message nothing is found out before it matters:
        nearly all messages are little, and come with their head."""
        if self._several:
            super()._find_holder()

    def take_head(self, fields: "list[tuple[bytes, bytes]]") -> None:  # type: ignore[override]
        super().take_head(fields)
        if self._several and self.state == State.BODY:
            self._look()

    def refuse(self, exc: Exception) -> None:
        if self._several:
            # Without its address: what would be told of one message in the stream ends the stream.
            self.state = State.BUSY
            self._drop()
            self._edge.app.refuse(self, exc, b"", self._headers)
        else:
            super().refuse(exc)

    def _hand_over(self, headers: Headers, whole: Whole) -> None:
        assert isinstance(whole, bytes)  # no call's message may be larger than others
        try:
            message = self._only_message(whole)
        except PenstockError as exc:
            self._headers = headers
            self.refuse(exc)
            return
        self._edge.app.handle(self, POST, self._url, headers, message)

    def _only_message(self, body: bytes) -> bytes:
        if body[:1] == b"\1":
            raise UnsupportedMedia("send messages uncompressed")
        if body[:1] != b"\0" or len(body) - PREFIX != int.from_bytes(body[1:PREFIX], "big"):
            raise Malformed("the call must have one message: the body is not exactly one")
        return body[PREFIX:]

    # ---- the answer --------------------------------------------------------------------------------------

    def respond(self, answer: Answer, tenant: str = "") -> None:
        """Answer the call, and end it."""
        if self.state == State.CLOSED:
            return
        self.leaving = None
        self.tenant = tenant
        fields = [(name.encode(), value.encode("latin-1")) for name, value in answer.all_fields]
        if any(name == WELL[0] for name, _ in fields):
            self._end(fields)
            return
        self._trailers = [WELL, *fields]
        self._begin()
        self._send(_framed(answer.whole))

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._connection.send_head(self, BEGIN, last=False)

    def _send(self, framed: bytes) -> None:
        self.unsent = memoryview(framed)
        if len(framed) > PIECE:
            self._connection.send_later(self)  # the answers of a whole batch may have come together
        else:
            self._connection.send_body(self)

    def _end(self, trailers: list[tuple[bytes, bytes]]) -> None:
        """End the call with these fields, a status among them."""
        self._leave()
        self._connection.send_head(self, trailers if self._begun else [*BEGIN, *trailers], last=True)
        if self.state != State.CLOSED:
            self._connection.answered(self)

    def _end_well(self) -> None:
        self._end([WELL])

    def body_sent(self) -> None:
        if not self._several:
            self._end(self._trailers)
            return
        self.all_taken()
        if self._taken is not None:
            self._taken.set()
        self._connection.not_blocked(self)
        if self._said:
            self._send_all()
        else:
            self._take_messages(1)
            self._look()

    # ---- a stream of messages ----------------------------------------------------------------------------

    def owe(self, size: int) -> bool:
        """Note that so many bytes have come. Returns False if the window of the stream may open again at once."""
        if self._several and self.state != State.CLOSED:
            self._owed += size
            return True
        return False

    def take_body(self, chunk: bytes) -> None:
        if not self._several:
            if self._body.size <= LITTLE < self._body.size + len(chunk) and self.state == State.BODY:
                try:
                    super()._find_holder()
                except PenstockError as exc:
                    self.refuse(exc)
            super().take_body(chunk)
        elif self.state != State.CLOSED:
            self._read += chunk
            if not self._in_line:
                self._take_messages(1)
            self._look()

    def take_end(self) -> None:
        if not self._several:
            super().take_end()
            return
        self.complete = True
        if self.state != State.CLOSED:
            self._look()

    def go_on(self) -> bool:
        """Take more messages: it is this stream's turn."""
        if self.state == State.CLOSED:
            return False
        self._wasted = 0
        self._take_messages(MOST_IN_A_TURN)
        self._look()
        return self._wasted > MOST_IN_A_TURN // 2

    def _take_messages(self, most: int) -> None:
        """Hand over as many messages as may be in flight, but not more than `most`: with the others the stream gets
        in line. A read may bring thousands, and each costs as much as a request."""
        read, self._in_line = self._read, False
        while len(read) >= PREFIX and not self._is_full and not self._over:
            end = PREFIX + int.from_bytes(read[1:PREFIX], "big")
            if read[0]:
                self.refuse(UnsupportedMedia("send messages uncompressed"))
                return
            if end - PREFIX > self._edge.limits.max_body:
                self.refuse(too_large(self._edge.limits.max_body))
                return
            if len(read) < end:
                break
            if not most:
                self._in_line = True
                self._edge.turns.wait(self)
                break
            most -= 1
            message = bytes(read[PREFIX:end])
            del read[:end]
            self._took = True
            call = GrpcCall(self)
            self._calls[call] = None
            self._edge.app.handle(call, POST, self._url, dict(self._headers), message)
            if self.state == State.CLOSED:
                return
        self._pay()
        if len(read) > LITTLE or self.held:
            self._edge.held.change(self, len(read))

    def _pay(self) -> None:
        """Open the window of the stream by what has come, unless messages in it must wait for answers: a message
        may be larger than the window."""
        size = self._owed
        if size and not (self._is_full or self._over or self._in_line):
            self._owed = 0
            cast("GrpcConnection", self._connection).open_window(self, size)

    def _find_holder_again(self) -> None:
        """Find out who asks after an answer: finding it out may have taken as long as the first message."""
        held = self.held
        try:
            if held:
                self._edge.held.change(self, 0)
            super()._find_holder()
        except PenstockError as exc:
            self.refuse(exc)
        else:
            if held:
                self._edge.held.change(self, held)

    def answer_to(self, call: GrpcCall, answer: Answer, tenant: str) -> None:
        """Send the answer to one message, soon: those of a batch come together."""
        if self._calls.pop(call, self) is self or self.state == State.CLOSED:
            return
        if any(name == STATUS for name, _ in answer.fields):
            self.respond(answer, tenant)
            return
        self._wasted += bool(answer.code)
        if self._is_stranger:
            self._find_holder_again()
        self.tenant = tenant or self.holder
        self._say(answer.whole)

    def say(self, call: GrpcCall, message: bytes) -> None:
        """Send one message of the answer to a call that lasts."""
        if call in self._calls and self.state != State.CLOSED:
            self._say(message)

    def _say(self, message: bytes) -> None:
        self._said.append(_framed(message))
        if not self._sending and not self.unsent:
            self._sending = True
            asyncio.get_running_loop().call_soon(self._send_all)

    def _send_all(self) -> None:
        self._sending = False
        if self.state == State.CLOSED or self.unsent or not self._said:
            return
        cast("GrpcConnection", self._connection).earn(len(self._said))
        said, self._said = b"".join(self._said), []
        self._begin()
        self._send(said)

    # ---- the end -----------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Withdraw what has no answer yet."""
        if self._several:
            calls, self._calls, self._said, self._lasting = self._calls, {}, [], None
            for call in calls:
                leaving, call.leaving = call.leaving, None
                if leaving is not None:
                    leaving.left()
            self._read.clear()

    def gone(self) -> None:
        super().gone()
        self._leave()

    def retire(self) -> None:
        """Take no further message: the server is about to stop."""
        if self._several:
            self._over = True
            self._end_lasting()
            self._look()


def _framed(message: bytes) -> bytes:
    return b"\0%b%b" % (len(message).to_bytes(4, "big"), message)
