"""Reads one client's requests, and bounds how much of them is taken at once. A part of a connection, as a base
class of `http1.Connection`.

llhttp (through httptools) splits the bytes (`http1_message.py`). A read brings up to 256 KB, in which there may be
thousands of small requests or chunks. So the bytes are parsed in slices, and one turn of the loop parses a bounded
number of them. The rest waits for its turn, and until the requests before it are answered. Nothing more is read
from the client meanwhile.

If a body takes longer than one read, we first find out who sends it, and then count the bytes that it holds with
those of all others (`held.py`).
"""

from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

from penstock.edge.body import Whole
from penstock.edge.bounds import (
    BULK,
    LITTLE,
    MOST_BLANK,
    MOST_HEAD,
    State,
    crowded_out,
    head_too_large,
    trailers_too_large,
)
from penstock.edge.departed import descriptor_of, has_left
from penstock.edge.fields import NO_HEADERS, Headers
from penstock.edge.http1_message import Message
from penstock.errors import Malformed, PenstockError

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

SLICE = 4096  # bytes that are read before their work is added up
# Units of work in one turn: a slice is 1, a piece of a body 1, a request 8, a request that is read twice 16.
MOST_WORK = 128
PER_REQUEST = 2048  # bytes that a small request takes, about, while it waits for those before it
BLANK = b"\r\n"

# Names of a module are found faster than attributes of a class.
NEW, IDLE, HEAD, BODY = State.NEW, State.IDLE, State.HEAD, State.BODY
SENDING = State.SENDING

# A whole request: method, URL, headers, body, and whether it is the last.
Asked = tuple[bytes, bytes, Headers, Whole, bool]
Data = bytes | memoryview


class Reading(Message):
    """The bytes and requests of one client that are not answered yet."""

    __slots__ = ("_later", "_paused", "_rest", "_watched")

    def __init__(self, edge: "Edge") -> None:
        super().__init__(edge)
        # Requests that were pipelined; None where nothing waits at all.
        self._later: deque[Asked | Exception] | None = None
        self._rest: Data = b""  # bytes that have been read and wait for their turn
        self._paused = False  # whether the client does not read
        self._watched = -1  # its descriptor, once `reads.py` watches it for more to come; -1 until then

    # ---- slices ------------------------------------------------------------------------------------------

    def _take(self, data: Data) -> None:
        """Take as much of these bytes as this turn may cost."""
        size, self._work = len(data), 0
        at = self._feed(data) if 0 < size <= SLICE else 0
        while at < size and self._parser is not None:
            if at and (self._work >= MOST_WORK or self._later):
                self._put_off(memoryview(data)[at:])
                break
            end = min(size, at + max(SLICE, self._length - self._size))
            at += self._feed(memoryview(data)[at:end])
        if self._size > LITTLE or self._length > LITTLE or self._later is not None or self.held:
            self._weigh()
            large = size > BULK or self._length > BULK or self._size > BULK
            if large and self._part == BODY and self._parser is not None and not self._rest:
                self._await_more()

    def _put_off(self, rest: Data) -> None:
        self._rest = rest
        if self._later is None:
            self._later = deque()
        self._do_not_read()
        if not self._later:  # otherwise reading goes on when the waiting requests are answered
            self._edge.turns.wait(self)

    def _await_more(self) -> None:
        """Wait for more of a large body, until others have had their turn."""
        transport = self._transport
        if self._later is None:
            self._later = deque()
        # Otherwise reading goes on when the waiting requests are answered.
        if transport is None or self._later:
            self._do_not_read()
            return
        transport.pause_reading()
        if self._watched < 0 and self._edge.reads.can_watch(descriptor := self.descriptor):
            self._watched = descriptor
        self._edge.reads.wait(self, self._watched)

    def hear(self, most: int) -> int:
        raise NotImplementedError

    def go_on(self) -> bool:
        """Go on reading: it is this client's turn again."""
        rest = self._rest
        if self._later or self._paused or self._transport is None or self._parser is None:
            return False
        if rest:
            if has_left(self):
                self.abort()
                return False
            self._rest = b""
            self._take(rest)
        if not self._rest:
            self._read_on()
        return bool(rest) and self._part == BODY  # many tiny chunks look like waste

    def _do_not_read(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()
            self._edge.deaf.add(self)

    def _read_on(self) -> None:
        """Read on, unless something stands in the way."""
        if self._parser is None or self._later or self._paused or self._transport is None:
            return
        if self._rest:
            self._edge.turns.wait(self)
        else:
            self._later = None
            self._edge.deaf.discard(self)
            self._transport.resume_reading()

    @property
    def descriptor(self) -> int:
        return descriptor_of(self._transport)

    def _feed(self, data: Data) -> int:
        """Give the parser these bytes. Returns how many of them it has read."""
        parser, before, size, came = self._parser, self._part, self._size, len(data)
        assert parser is not None
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            read = int(exc.args[0])
            if self._means_websocket():
                self._hand_over_for_good(alone=read == came)
            else:
                self._without_upgrade()
            return read
        except httptools.HttpParserError as exc:
            self._failed(exc)
            return came
        if self._parser is None:
            return came
        self._work += 1
        part = self._part
        if part == BODY:
            self._bare = self._bare + came if before == BODY and self._size == size else 0
            if self._bare > MOST_HEAD:
                self._refuse(trailers_too_large())
        elif part == HEAD:
            self._size += came
            if self._size > MOST_HEAD:
                self._refuse(head_too_large())
        elif before == IDLE and data[0] in BLANK and not bytes(data).strip(BLANK):
            self._pass_over(came)
        return came

    def _failed(self, exc: httptools.HttpParserError) -> None:
        if self._parser is not None:  # after the last request anything may come, and nothing matters
            ours = isinstance(exc, httptools.HttpParserCallbackError)
            self._refuse(
                cast(Exception, exc.__context__) if ours else Malformed(f"this is not HTTP/1.1: {exc}")
            )

    def _means_websocket(self) -> bool:
        """Whether the head that was read wishes for WebSocket in the one way that is understood."""
        parser, headers = self._parser, self._head
        return (
            parser is not None
            and parser.get_method() == b"GET"
            and headers.get(b"upgrade", b"").lower() == b"websocket"
            and b"transfer-encoding" not in headers
            and headers.get(b"content-length", b"0") == b"0"
            and parser.get_http_version() == "1.1"
        )

    def _hand_over_for_good(self, *, alone: bool) -> None:
        """Hand over a request that wishes for WebSocket. However it is answered, nothing after it is read as HTTP:
        whoever stands between may believe that the protocol has changed, and let through what it would not let
        through otherwise. `alone`: nothing has come after it yet, as must be until it is answered."""
        self._work += 16
        url, headers = self._url, self._head
        self._drop()
        if alone:
            self._part, self._head, self._size, self._length = IDLE, NO_HEADERS, 0, 0
            self._has_come(b"GET", url, headers, b"", True)
        else:
            self._refuse(Malformed("something was sent after a wish for WebSocket, before its answer"))

    def _without_upgrade(self) -> None:
        """Read the head again without its field Upgrade. We speak no other protocol but WebSocket, and a server
        may then go on as if it had not been asked (RFC 9110, 7.8). llhttp cannot do that: it takes the body for
        bytes of the other protocol. Several clients, Java's among them, send the field with every first request.
        """
        parser = self._parser
        if parser is None:
            return
        self._work += 16
        headers = [b"%b: %b\r\n" % item for item in self._head.items() if item[0] != b"upgrade"]
        first = b"%b %b HTTP/%b" % (parser.get_method(), self._url, parser.get_http_version().encode())
        self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(b"%b\r\n%b\r\n" % (first, b"".join(headers)))
        except httptools.HttpParserError as exc:
            self._failed(exc)

    def _pass_over(self, size: int) -> None:
        """Ignore empty lines before a request. Old clients send one after a body. If more come, their number is
        bounded, and so is their time, as a head's is."""
        self._size += size
        if self._size > MOST_BLANK:
            self._refuse(Malformed(f"there are more than {MOST_BLANK} bytes of empty lines before a request"))
        elif self._size > len(BLANK) and self.state == IDLE:
            self.state = HEAD
            self.since = self._edge.tick

    # ---- what it holds -----------------------------------------------------------------------------------

    def _weigh(self) -> None:
        """Count what is held until more of the request comes."""
        if self._parser is None:
            return
        part = self._part
        held = len(self._rest) if part == IDLE else len(self._rest) + self._size
        if self._later:
            held += PER_REQUEST * len(self._later)
        if held <= LITTLE and self._length <= LITTLE:
            if self.held:
                self._edge.held.change(self, 0)
            return
        if part == BODY and not self.holder:
            try:
                self._ask_who()
            except PenstockError as exc:
                self._refuse(exc)
                return
        if held != self.held:
            self._edge.held.change(self, held)

    def crowded_out(self) -> None:
        if self._later:
            self._later.clear()
        self._refuse(crowded_out(self._edge.held.most))

    def _drop(self) -> None:
        """Take nothing more of the request, and keep nothing."""
        self._parser = self._chunks = None
        self._rest = self._body = b""
        if self.held:
            self._edge.held.change(self, 0)

    # ---- what becomes of it ------------------------------------------------------------------------------

    def _has_come(self, method: bytes, url: bytes, headers: Headers, body: Whole, last: bool) -> None:
        # A request is being answered, or its client has not read the answer.
        if self.state >= SENDING or self._later:
            self._wait_its_turn((method, url, headers, body, last))
        else:
            self._hand_over(method, url, headers, body, last)

    def _wait_its_turn(self, asked: "Asked | Exception") -> None:
        """Put a request behind those before it. Nothing more is read until that queue is empty, so it holds no more
        than the requests of one slice."""
        if self._later is None:
            self._later = deque()
        self._later.append(asked)
        self._do_not_read()

    def _hand_over(self, method: bytes, url: bytes, headers: Headers, body: Whole, last: bool) -> None:
        raise NotImplementedError

    def _refuse(self, exc: Exception) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
