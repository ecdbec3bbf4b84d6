"""One request of HTTP/1.1: the callbacks with which llhttp tells of its head and body, and the checks of both. A
part of a connection, as its lowest base class: `http1.Connection` is a `Hearing`, that a `Reading`, and that a
`Message`.

If a callback raises an error, the client is refused with it and the connection ends. A complete request is handed
on by `_has_come`.
"""

import asyncio
from typing import TYPE_CHECKING

import httptools

from penstock.edge.body import STRIDE, Body, Whole
from penstock.edge.bounds import BULK, MOST_HEADERS, MOST_REPEATED, State, repeated_too_large, too_large
from penstock.edge.fields import NO_HEADERS, Headers
from penstock.edge.held import STRANGERS
from penstock.errors import HeadTooLarge, Malformed, UnknownCoding, UnknownVersion

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ONE_HOST = "exactly one Host header is needed"

# Names of a module are found faster than attributes of a class.
NEW, IDLE, HEAD, BODY = State.NEW, State.IDLE, State.HEAD, State.BODY


class Message(asyncio.Protocol):
    """The request that is being read."""

    __slots__ = (
        "_bare", "_body", "_chunks", "_edge", "_head", "_headers", "_length", "_most", "_parser", "_part", "_size",
        "_transport", "_url", "_work", "held", "holder", "since", "state",
    )  # fmt: skip

    def __init__(self, edge: "Edge") -> None:
        self._edge = edge
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpRequestParser | None = None  # None: nothing more is taken
        self._part = IDLE  # what is being read of a request: HEAD or BODY; IDLE between two
        self._url = self._body = b""
        # The fields as they come, and all of them once the head is complete.
        self._headers = self._head = NO_HEADERS
        self._chunks: Body | None = None
        self._size = 0  # bytes of an unfinished head or body, of empty lines, or of what is thrown away
        self._length = 0  # the length of the body, where its head says so
        self._most = 0  # bytes of the body, where it may have more than others; otherwise 0
        self._bare = 0  # bytes read since the last byte of a body
        self._work = 0  # how much work this turn has cost
        self.held = 0
        self.holder: str = STRANGERS
        self.state = NEW
        self.since = edge.tick

    def on_message_begin(self) -> None:
        if self.state <= IDLE:
            self.state = HEAD
            self.since = self._edge.tick
        if self._parser is None:
            raise Malformed("nothing is read after the last request")
        self._part = HEAD
        self._size = self._bare = 0
        self._work += 8
        self._url = self._body = b""
        self._headers = {}
        if self.holder:
            self._edge.held.change(self, 0)
            self.holder = STRANGERS

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._part == BODY:  # this is a trailer, which means nothing here
            return
        headers = self._headers
        name = name.lower()
        if name in headers:
            value = b"%b, %b" % (headers[name], value)
            if len(value) > MOST_REPEATED:
                raise repeated_too_large()
        headers[name] = value

    def on_headers_complete(self) -> None:
        parser, headers, limit = self._parser, self._headers, self._edge.limits.max_body
        assert parser is not None
        if len(headers) > MOST_HEADERS:
            raise HeadTooLarge(f"there are more than {MOST_HEADERS} headers")
        host = headers.get(b"host")
        if host is None or b"connection" in headers or not parser.should_keep_alive():
            # A head that is not checked here is HTTP/1.1: the parser says so.
            self._check_version(parser.get_http_version(), host)
        if host is not None and b"," in host:
            raise Malformed(ONE_HOST)
        coding = headers.get(b"transfer-encoding")
        if coding is not None and coding.lower() != b"chunked":
            raise UnknownCoding("the only Transfer-Encoding that is understood is chunked")
        declared = headers.get(b"content-length")
        self._most = 0
        if declared is not None:
            if len(declared) > 18 or int(declared) > limit:
                self._most = most = self._edge.app.most_body(self._url)
                if len(declared) > 18 or int(declared) > most:
                    raise too_large(most or limit, declared)
            self._length = int(declared)
        self._head, self._headers = headers, NO_HEADERS
        if self.state == HEAD:
            self.state = BODY
            self.since = self._edge.tick
            if b"expect" in headers and headers[b"expect"].lower() == b"100-continue":
                self._ask_who()
                if self._transport is not None:
                    self._transport.write(CONTINUE)
        self._part = BODY
        self._size = 0

    def _check_version(self, version: str, host: bytes | None) -> None:
        if version == "2.0":
            raise UnknownVersion(
                "HTTP/2 is not spoken here in this way: send HTTP/1.1, or agree on it with TLS"
            )
        if host is None and version != "1.0":
            raise Malformed(ONE_HOST)

    def on_body(self, chunk: bytes) -> None:
        self._work += 1
        self._size += len(chunk)
        if self._size > self._edge.limits.max_body and self._size > self._most:
            self._find_most()
        if self._most:
            self._note_stride(len(chunk))
        if self._chunks is None:
            crowded = self._edge.held.crowded and self._length > BULK
            if not self._body and not crowded:
                self._body = chunk
                return
            self._chunks = self._new_body()
        self._chunks.add(chunk, crowded=self._edge.held.crowded)

    def _new_body(self) -> Body:
        body = Body(self._body, self._length)
        if self._most:
            body.stay_in_pieces()
        return body

    def _find_most(self) -> None:
        """Find out whether a body of unknown length may go on. Raises TooLarge."""
        self._most = self._edge.app.most_body(self._url)
        if self._size > self._most:
            raise too_large(self._most or self._edge.limits.max_body)
        if self._chunks is not None:
            self._chunks.stay_in_pieces()

    def _note_stride(self, came: int) -> None:
        """Give the client the time of a body for each stride of a body that may be larger."""
        if self._size // STRIDE > (self._size - came) // STRIDE:
            self.since = self._edge.tick

    def on_message_complete(self) -> None:
        parser, headers = self._parser, self._head
        whole: Whole = self._body
        assert parser is not None
        method = parser.get_method()
        # With neither of these, a connection of HTTP/1.1 stays open.
        if b"connection" in headers or method == b"CONNECT":
            if parser.should_upgrade() and method != b"CONNECT":
                return  # the head is read again
            last = (
                not parser.should_keep_alive() or parser.get_http_version() == "1.0" or method == b"CONNECT"
            )
        else:
            last = not parser.should_keep_alive()
        if self._chunks is not None:
            whole = self._chunks.whole()
            self._chunks = None
        url = self._url
        # The next request may take seconds to come: nothing of this one is kept till then.
        self._part, self._body, self._head, self._size, self._length = IDLE, b"", NO_HEADERS, 0, 0
        if last:
            self._drop()
        self._has_come(method, url, headers, whole, last)

    def _ask_who(self) -> None:
        """Find out who sends the body. Raises the error with which the request is refused, whatever its body."""
        parser = self._parser
        assert parser is not None
        holder = self._edge.app.who(parser.get_method(), self._url, self._head)
        if holder != self.holder:
            self._edge.held.change(self, 0)
            self.holder = holder

    def crowded_out(self) -> None:
        """Refuse the request: too many bytes are held, and its bytes give way."""
        raise NotImplementedError

    def _drop(self) -> None:
        """Take nothing more of the request, and keep nothing."""
        raise NotImplementedError

    def _has_come(self, method: bytes, url: bytes, headers: Headers, body: Whole, last: bool) -> None:
        """Take a request that has come in full. `last`: nothing follows on this connection."""
        raise NotImplementedError
