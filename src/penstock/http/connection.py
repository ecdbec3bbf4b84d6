"""One client's connection: HTTP/1.1 in, one request at a time, answers out in the order they were asked.

    NEW ──► HEAD ──► BODY ──► BUSY ──► IDLE ──► HEAD …
                                │ the client does not read: SENDING
                                └ refused: LINGERING ──► closed

llhttp (through httptools) splits the bytes; what is decided here is how much of them is taken, and for how long.
The connection is itself the one who asks (`reply`): a request that waits costs no object more than it must, and a
client that leaves is noticed the moment its connection closes.

After a refusal the client may still be sending: a closed socket would answer that with a reset, which can overtake
the reason it was refused for. So the answer is sent, our side is shut, and a little more is read and thrown away.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import httptools

from penstock.errors import BodyTooSlow, HeadTooLarge, HeadTooSlow, Malformed, Overloaded, TooLarge
from penstock.http import answers
from penstock.http.heads import END, LENGTH, LENGTH_SIZE, NO_HEADERS, Head, Headers
from penstock.ports import Leaving
from penstock.types import Reply

if TYPE_CHECKING:
    from penstock.http.edge import Edge

MOST_HEADERS = 100
MOST_HEAD = 64 * 1024  # bytes of an unfinished head
MOST_REPEATED = 8 * 1024  # bytes of a header that comes several times; each time they are copied
MOST_THROWN_AWAY = 32 * 1024  # bytes read after a refusal
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class State:
    """What it waits for, as plain numbers. The edge limits the time of all but the last two."""

    NEW = 0  # its first byte
    IDLE = 1  # the next request
    HEAD = 2
    BODY = 3
    SENDING = 4  # for the client to read
    LINGERING = 5  # for a refused client to notice
    BUSY = 6  # for the answer: the gateway sees to its deadline
    CLOSED = 7


NEW, IDLE, HEAD, BODY = State.NEW, State.IDLE, State.HEAD, State.BODY  # names of this module are found faster
SENDING, LINGERING, BUSY, CLOSED = State.SENDING, State.LINGERING, State.BUSY, State.CLOSED


def too_many(connections: int) -> Overloaded:
    message = f"too many connections are open: server.max_connections is {connections}"
    return Overloaded(message, retry_after=1.0)


def too_large(limit: int, declared: bytes | None = None) -> TooLarge:
    said = "larger" if declared is None else f"{declared[:20].decode()} bytes"
    return TooLarge(f"the body is {said}, and limits.max_body is {limit} bytes")


def body_too_slow(seconds: float) -> BodyTooSlow:
    return BodyTooSlow(f"the body did not arrive within the {seconds:g} s that limits.body_timeout allows")


class Connection(asyncio.Protocol):
    __slots__ = (
        "_body", "_chunks", "_edge", "_head", "_headers", "_known", "_last", "_later", "_parser", "_part",
        "_paused", "_size", "_transport", "_unknown", "_url", "_without_body", "leaving", "render", "since",
        "state",
    )  # fmt: skip

    def __init__(self, edge: "Edge") -> None:
        self._edge = edge
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpRequestParser | None = None  # None: nothing more is taken
        self._later: deque[tuple[bytes, bytes, Headers, bytes, bool] | Exception] | None = None  # pipelined
        self._part = IDLE  # of a request that is being read: HEAD or BODY
        self._url = self._body = b""
        self._headers = self._head = NO_HEADERS  # as they come, and once the head is complete
        self._chunks: list[bytes] | None = None
        self._size = 0  # of an unfinished head or body, or thrown away
        self._paused = False  # the client does not read
        self._last = False  # the answer that is due is the last on this connection
        self._without_body = False
        self._known: Head | None = None  # of the last request, if it is one that was read before
        self._unknown: bytes | None = None  # a request that is being read; a head like it need not be again
        self.state = NEW
        self.since = edge.tick
        self.leaving: Leaving | None = None  # whom to tell when the client goes
        self.render: answers.Render = answers.full_answer

    # ---- the transport -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        edge = self._edge
        edge.connections.add(self)
        if edge.full:
            self._refuse(too_many(edge.limits.max_connections))

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            self._throw_away(data)
            return
        if self.state <= IDLE and self._later is None:  # `heads` says what this is about
            edge, head = self._edge, self._known
            if (
                head is not None
                and head.before
                and data.startswith(head.before)
                and data.startswith(head.after, stop := data.find(b"\r\n", len(head.before)))
            ):
                start, end = len(head.before), stop + len(head.after)
            else:
                end = data.find(END) + len(END)
                start = data.find(LENGTH, 0, end) + LENGTH_SIZE
                stop = data.find(b"\r\n", start)
                last, head = head, edge.heads.find(data[:start] + data[stop : end - len(END)])
                self._known = head
                if head is not None and head is last:
                    head.before, head.after = data[:start], data[stop:end]
            if head is not None and end > len(END):
                body = data[end:]
                if data[start:stop] == b"%d" % len(body) and len(body) <= edge.limits.max_body:
                    self.state = BUSY
                    self._last = self._without_body = False
                    edge.app.handle_known(self, head, body)
                    return
            self._unknown = data
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._without_upgrade(data[exc.args[0] :])
        except httptools.HttpParserError as exc:
            if self._parser is not None:  # after the last request anything may come, and nothing matters
                ours = isinstance(exc, httptools.HttpParserCallbackError)
                self._refuse(
                    cast(Exception, exc.__context__) if ours else Malformed(f"this is not HTTP/1.1: {exc}")
                )
        else:
            self._unknown = None
            if self._part == HEAD:
                self._size += len(data)
                if self._size > MOST_HEAD:
                    self._refuse(HeadTooLarge(f"the head is longer than {MOST_HEAD} bytes"))

    def _without_upgrade(self, rest: bytes) -> None:
        """We speak nothing else, and a server may say so by going on as if it had not been asked (RFC 9110, 7.8).

        The parser knows no such thing, and takes a body for the first words of the other protocol: so the request
        is read again without its wish. Several clients, Java's among them, send it with every first request.
        """
        parser = self._parser
        if parser is None:
            return
        headers = [b"%b: %b\r\n" % item for item in self._head.items() if item[0] != b"upgrade"]
        first = b"%b %b HTTP/%b" % (parser.get_method(), self._url, parser.get_http_version().encode())
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"%b\r\n%b\r\n%b" % (first, b"".join(headers), rest))

    def _throw_away(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MOST_THROWN_AWAY and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """One that will send no more counts as gone, since whether it still listens cannot be known."""
        if self.state == BODY:
            self._refuse(Malformed("the body ended before it was complete"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._edge.connections.discard(self)
        self.state = CLOSED
        self._parser = self._transport = self._later = None  # the parser holds our methods: break the ring
        leaving, self.leaving = self.leaving, None
        if leaving is not None:
            leaving.left()

    def pause_writing(self) -> None:
        """It does not read its answers: then nothing more is read from it either."""
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if self.state == SENDING and not self._last:
            self._ready_for_more()

    # ---- the parser: what it raises here ends the connection with that refusal -----------------------------

    def on_message_begin(self) -> None:
        if self.state <= IDLE:
            self.state = HEAD
            self.since = self._edge.tick
        if self._parser is None:
            raise Malformed("nothing is read after the last request")
        self._part = HEAD
        self._size = 0
        self._url = self._body = b""
        self._headers = {}

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        name = name.lower()
        if name in headers:
            value = b"%b, %b" % (headers[name], value)
            if len(value) > MOST_REPEATED:
                raise HeadTooLarge(f"a header that is repeated is longer than {MOST_REPEATED} bytes in all")
        headers[name] = value

    def on_headers_complete(self) -> None:
        parser, headers, limit = self._parser, self._headers, self._edge.limits.max_body
        assert parser is not None
        if len(headers) > MOST_HEADERS:
            raise HeadTooLarge(f"there are more than {MOST_HEADERS} headers")
        host = headers.get(b"host")
        if (b"," in host) if host is not None else (parser.get_http_version() != "1.0"):
            raise Malformed("exactly one Host header is needed")
        declared = headers.get(b"content-length")
        if declared is not None and (len(declared) > 18 or int(declared) > limit):
            raise too_large(limit, declared)
        if self.state == HEAD:
            self.state = BODY
            self.since = self._edge.tick
            if b"expect" in headers and headers[b"expect"].lower() == b"100-continue":
                self._write(CONTINUE)
        self._part = BODY
        self._size = 0
        self._head, self._headers = headers, {}  # trailers come later, to be forgotten

    def on_body(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > self._edge.limits.max_body:
            raise too_large(self._edge.limits.max_body)
        if not self._body:
            self._body = chunk
        elif self._chunks is None:
            self._chunks = [self._body, chunk]
        else:
            self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        parser, body, headers = self._parser, self._body, self._head
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
            body = b"".join(self._chunks)
            self._chunks = None
        url = self._url
        # The next one may take seconds to come: nothing of this one is kept till then.
        self._part, self._body, self._head = IDLE, b"", NO_HEADERS
        if last:
            self._parser = None
        elif self._unknown is not None:
            self._edge.heads.learn(self._unknown, method, url, headers, body)
        if self.state == BUSY or self._later:
            self._wait_its_turn((method, url, headers, body, last))
        else:  # `_hand_over`, spelt out
            self.state = BUSY
            self._last = last
            self._without_body = method == b"HEAD"
            self._edge.app.handle(self, method, url, headers, body)

    def _wait_its_turn(self, asked: "tuple[bytes, bytes, Headers, bytes, bool] | Exception") -> None:
        """No more is read until the queue is empty: what one read brought is all that waits here."""
        if self._later is None:
            self._later = deque()
        self._later.append(asked)
        if self._transport is not None:
            self._transport.pause_reading()

    def _hand_over(self, method: bytes, url: bytes, headers: Headers, body: bytes, last: bool) -> None:
        self.state = BUSY
        self._last = last
        self._without_body = method == b"HEAD"
        self._edge.app.handle(self, method, url, headers, body)

    # ---- answers -----------------------------------------------------------------------------------------

    def reply(self, reply: Reply) -> None:
        """The one answer to what was submitted."""
        transport = self._transport
        if transport is None:
            return
        self.leaving = None
        edge, execution = self._edge, reply.execution
        if execution is None:
            assert reply.failure is not None
            self.respond(*answers.error(reply.failure, reply.request.request_id))
        elif self._last or edge.closing:
            ending = edge.last_ending if self._ends else edge.ending
            transport.write(self.render(reply, execution, edge.clock(), ending))
            self._answered()
        else:
            transport.write(self.render(reply, execution, edge.clock(), edge.ending))
            if self._paused or self._later is not None:
                self._answered()
            else:  # the same, spelt out for the usual case
                self.since = edge.tick
                self.state = self._part

    def respond(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        if self.state == CLOSED:
            return
        self.leaving = None
        edge = self._edge
        ending = edge.last_ending if self._ends else edge.ending
        head = answers.head(status, headers, len(body), ending)
        self._write(head if self._without_body else head + body)
        self._answered()

    @property
    def _ends(self) -> bool:
        """Whether the answer that is due is the last: what was read before the edge was closing is still served."""
        return self._last or (self._edge.closing and not self._later)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _answered(self) -> None:
        self.since = self._edge.tick
        if self._ends:
            self._end()
        elif self._paused:
            self.state = SENDING
        elif self._later is None:
            self.state = self._part
        else:
            self.state = IDLE
            asyncio.get_running_loop().call_soon(self._ready_for_more)  # not from here: a thousand may wait

    def _ready_for_more(self) -> None:
        """The next of those that came early; or, when there is none, read on."""
        if self.state == CLOSED or self._paused:
            return
        if self._later:
            asked = self._later.popleft()
            if isinstance(asked, Exception):
                self._refuse(asked)
            else:
                self._hand_over(*asked)
            return
        self._later = None
        self.state = self._part
        if self._transport is not None and self._parser is not None:
            self._transport.resume_reading()

    # ---- the end -----------------------------------------------------------------------------------------

    def _refuse(self, exc: Exception) -> None:
        self._parser = None
        if self.state == BUSY or self._later:
            self._wait_its_turn(exc)
            return
        self.state = BUSY
        self._last = True
        self._part = BODY  # it may still be sending
        self._size = 0
        self._edge.app.refuse(self, exc, self._head or self._headers)

    def _end(self) -> None:
        self._last = True
        transport = self._transport
        assert transport is not None
        self._parser = None
        if self._part != IDLE and not transport.is_closing():
            self.state = LINGERING
            if transport.can_write_eof():
                transport.write_eof()
            else:  # TLS has no half: it says good-bye, and reads and forgets until it is answered
                transport.close()
        else:
            self.state = SENDING
            transport.close()

    def out_of_time(self) -> None:
        if self.state == HEAD:
            limit = self._edge.limits.head_seconds
            self._refuse(
                HeadTooSlow(
                    f"the head did not arrive within the {limit:g} s that limits.header_timeout allows"
                )
            )
        elif self.state == BODY:
            self._refuse(body_too_slow(self._edge.limits.body_seconds))
        else:
            self.abort()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
