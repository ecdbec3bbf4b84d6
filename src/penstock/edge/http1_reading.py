"""One client's requests as they come: bytes in, whole requests out, and how much of them is taken.

llhttp (through httptools) splits the bytes. A read brings up to 256 KB, in which thousands of small requests or
chunks may stand. So what comes is read in slices, and no more of them in one turn of the loop than a turn may cost.
The rest waits for its turn, and for the requests before it to be answered. Nothing more is read meanwhile.

A request whose body takes longer than one read is asked who sends it before more of it is taken, and what it holds
is counted with what all others hold (`held`).
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

from penstock.edge.body import Body
from penstock.edge.bounds import (
    BULK,
    LITTLE,
    MOST_BLANK,
    MOST_HEAD,
    MOST_HEADERS,
    MOST_REPEATED,
    State,
    crowded_out,
    head_too_large,
    repeated_too_large,
    too_large,
    trailers_too_large,
)
from penstock.edge.departed import descriptor_of, has_left
from penstock.edge.fields import NO_HEADERS, Headers
from penstock.edge.held import STRANGERS
from penstock.errors import HeadTooLarge, Malformed, PenstockError, UnknownCoding, UnknownVersion

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

SLICE = 4096  # bytes that are read before it is asked how much work they were
MOST_WORK = 128  # in one turn: a slice is 1, a piece of a body 1, a request 8, one that is read twice 16
PER_REQUEST = 2048  # bytes that a small one takes, more or less, while it waits for those before it
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BLANK = b"\r\n"
ONE_HOST = "exactly one Host header is needed"

NEW, IDLE, HEAD, BODY = State.NEW, State.IDLE, State.HEAD, State.BODY  # names of this module are found faster
SENDING = State.SENDING

Asked = tuple[
    bytes, bytes, Headers, bytes, bool
]  # method, address, headers, body, and whether it is the last
Data = bytes | memoryview


class Reading(asyncio.Protocol):
    __slots__ = (
        "_bare", "_body", "_chunks", "_edge", "_head", "_headers", "_later", "_length", "_parser", "_part",
        "_paused", "_rest", "_size", "_transport", "_url", "_watched", "_work", "held", "holder", "since", "state",
    )  # fmt: skip

    def __init__(self, edge: "Edge") -> None:
        self._edge = edge
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpRequestParser | None = None  # None: nothing more is taken
        self._later: deque[Asked | Exception] | None = None  # pipelined; None where nothing waits at all
        self._rest: Data = b""  # has been read, and waits for its turn
        self._part = IDLE  # of a request that is being read: HEAD or BODY
        self._url = self._body = b""
        self._headers = self._head = NO_HEADERS  # as they come, and once the head is complete
        self._chunks: Body | None = None
        self._size = 0  # of an unfinished head or body or of empty lines, or thrown away
        self._length = 0  # of the body, where its head has said so
        self._bare = 0  # bytes since the last of a body
        self._work = 0  # in this turn
        self._paused = False  # the client does not read
        self._watched = -1  # its descriptor, once that was watched for something to come
        self.held = 0
        self.holder: str = STRANGERS
        self.state = NEW
        self.since = edge.tick

    # ---- slices ------------------------------------------------------------------------------------------

    def _take(self, data: Data) -> None:
        """As much of it as this turn may cost."""
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
        if not self._later:  # else it goes on when they are answered
            self._edge.turns.wait(self)

    def _await_more(self) -> None:
        """Of a large body, when others have had their turn."""
        transport = self._transport
        if self._later is None:
            self._later = deque()
        if transport is None or self._later:  # it goes on when they are answered
            self._do_not_read()
            return
        transport.pause_reading()
        if self._watched < 0:
            self._watched = self.descriptor
        self._edge.reads.wait(self, self._watched)

    def go_on(self) -> bool:
        """It is this client's turn again."""
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
        return bool(rest) and self._part == BODY  # chunks that are next to nothing

    def _do_not_read(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()
            self._edge.deaf.add(self)

    def _read_on(self) -> None:
        """Unless something stands in the way."""
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
        """How many of these bytes have been read."""
        parser, before, size, came = self._parser, self._part, self._size, len(data)
        assert parser is not None
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._without_upgrade()
            return int(exc.args[0])
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

    def _without_upgrade(self) -> None:
        """We speak nothing else, and a server may say so by going on as if it had not been asked (RFC 9110, 7.8).

        The parser knows no such thing, and takes a body for the first words of the other protocol: so the head
        is read again without its wish. Several clients, Java's among them, send it with every first request.
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
        """Empty lines before a request: one is usual after a body, as old clients have it. More have the time of a
        head, and an end."""
        self._size += size
        if self._size > MOST_BLANK:
            self._refuse(Malformed(f"there are more than {MOST_BLANK} bytes of empty lines before a request"))
        elif self._size > len(BLANK) and self.state == IDLE:
            self.state = HEAD
            self.since = self._edge.tick

    # ---- what it holds -----------------------------------------------------------------------------------

    def _weigh(self) -> None:
        """Counts what is held until more of it comes."""
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

    def _ask_who(self) -> None:
        """Raises what the request is refused with, whatever its body."""
        parser = self._parser
        assert parser is not None
        holder = self._edge.app.who(parser.get_method(), self._url, self._head)
        if holder != self.holder:
            self._edge.held.change(self, 0)
            self.holder = holder

    def crowded_out(self) -> None:
        if self._later:
            self._later.clear()
        self._refuse(crowded_out(self._edge.held.most))

    def _drop(self) -> None:
        """Nothing more is taken of it, and nothing kept."""
        self._parser = self._chunks = None
        self._rest = self._body = b""
        if self.held:
            self._edge.held.change(self, 0)

    # ---- the parser: what it raises here ends the connection with that refusal -----------------------------

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
        if self._part == BODY:  # a trailer, which means nothing here
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
            self._check_version(
                parser.get_http_version(), host
            )  # all others are HTTP/1.1: the parser says so
        if host is not None and b"," in host:
            raise Malformed(ONE_HOST)
        coding = headers.get(b"transfer-encoding")
        if coding is not None and coding.lower() != b"chunked":
            raise UnknownCoding("the only Transfer-Encoding that is understood is chunked")
        declared = headers.get(b"content-length")
        if declared is not None:
            if len(declared) > 18 or int(declared) > limit:
                raise too_large(limit, declared)
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
        if self._size > self._edge.limits.max_body:
            raise too_large(self._edge.limits.max_body)
        if self._chunks is None:
            crowded = self._edge.held.crowded and self._length > BULK
            if not self._body and not crowded:
                self._body = chunk
                return
            self._chunks = Body(self._body, self._length)
        self._chunks.add(chunk, crowded=self._edge.held.crowded)

    def on_message_complete(self) -> None:
        parser, whole, headers = self._parser, self._body, self._head
        assert parser is not None
        method = parser.get_method()
        if b"connection" in headers or method == b"CONNECT":  # else it is as HTTP/1.1 has it, and stays open
            if parser.should_upgrade() and method != b"CONNECT":
                return  # it is read again
            last = (
                not parser.should_keep_alive() or parser.get_http_version() == "1.0" or method == b"CONNECT"
            )
        else:
            last = not parser.should_keep_alive()
        if self._chunks is not None:
            whole = self._chunks.whole()
            self._chunks = None
        url = self._url
        # The next one may take seconds to come: nothing of this one is kept till then.
        self._part, self._body, self._head, self._size, self._length = IDLE, b"", NO_HEADERS, 0, 0
        if last:
            self._drop()
        if self.state >= SENDING or self._later:  # one is being answered, or has not been read by its client
            self._wait_its_turn((method, url, headers, whole, last))
        else:
            self._hand_over(method, url, headers, whole, last)

    def _wait_its_turn(self, asked: "Asked | Exception") -> None:
        """No more is read until the queue is empty: what one slice brought is all that waits here."""
        if self._later is None:
            self._later = deque()
        self._later.append(asked)
        self._do_not_read()

    # ---- what becomes of it ------------------------------------------------------------------------------

    def _hand_over(self, method: bytes, url: bytes, headers: Headers, body: bytes, last: bool) -> None:
        raise NotImplementedError

    def _refuse(self, exc: Exception) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
