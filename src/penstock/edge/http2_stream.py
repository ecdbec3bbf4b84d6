"""One request on an HTTP/2 connection, from its head to the last byte of its answer. A connection makes one for
each request, and hands it what comes for it (`http2.py`).

    BODY ──► BUSY ──► SENDING (the client's window is full) ──► CLOSED

A stream is an asker, as a whole connection is in HTTP/1.1, and counts as a connection: the edge bounds the number
of both together, and gives a stream the same time to send its body and to take its answer.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from penstock.edge.answer import Answer
from penstock.edge.body import STRIDE, Body, Whole
from penstock.edge.bounds import (
    LITTLE,
    MOST_HEADERS,
    MOST_REPEATED,
    State,
    body_too_slow,
    crowded_out,
    repeated_too_large,
    too_large,
)
from penstock.edge.caller import Render, nothing_asked
from penstock.edge.fields import NO_HEADERS, Headers
from penstock.edge.held import STRANGERS
from penstock.edge.talk import Talk
from penstock.edge.unsent import PIECE, Unsent
from penstock.errors import HeadTooLarge, Malformed, PenstockError, UpgradeRequired
from penstock.ports import Leaving
from penstock.types import Reply

if TYPE_CHECKING:
    from penstock.edge.http2 import Http2Connection

Fields = Iterable[tuple[bytes, bytes]]


class Stream:
    """Implements `caller.Caller`, and `caller.Parts` of itself."""

    ends_with_body = True  # whether the last piece of an answer's body is the end of the answer
    around_body = 0  # bytes that a body has beyond those that `limits.max_body` counts

    __slots__ = (
        "_body", "_connection", "_edge", "_headers", "_method", "_most", "_taken", "_url", "complete", "held",
        "holder", "id", "leaving", "more", "render", "since", "state", "tenant", "unsent", "waiting",
    )  # fmt: skip

    def __init__(self, connection: "Http2Connection", number: int, complete: bool) -> None:
        self.id = number
        self.complete = complete  # whether the client has sent all of the request
        self._connection = connection
        self._edge = connection.edge
        self._method = self._url = b""
        self._headers: Headers = NO_HEADERS
        self._body = Body()
        self._most = 0  # bytes of the body, where it may have more than others; otherwise 0
        self._taken: asyncio.Event | None = None  # set once the client has taken what was sent
        self.held = 0
        self.holder = STRANGERS
        self.unsent = memoryview(b"")  # the part of the answer that is not sent yet
        self.more = False  # whether more of the answer is to come
        self.tenant = ""  # the tenant whose answer it is
        # The same answer as it is counted (`unsent.py`), if its client does not take it at once.
        self.waiting: Unsent | None = None
        self.state = State.BODY
        self.since = self._edge.tick
        self.leaving: Leaving | None = None
        self.render: Render = nothing_asked

    # ---- the request -------------------------------------------------------------------------------------

    def take_head(self, fields: Fields) -> None:
        try:
            self._read_head(fields)
        except PenstockError as exc:
            self.refuse(exc)

    def _read_head(self, fields: Fields) -> None:
        """Read the head. The library has checked that the parts of the request line are there, each once, and come
        first."""
        headers: Headers = {}
        self._headers = headers  # set first, so that a refusal gets the fields that were read
        for name, value, *_ in fields:
            if name == b":method":
                self._method = value
            elif name == b":path":
                self._url = value
            elif name == b":authority":
                headers[b"host"] = value
            elif name[:1] != b":" and name != b"host":
                if name in headers:
                    value = b"%b, %b" % (headers[name], value)
                    if len(value) > MOST_REPEATED:
                        raise repeated_too_large()
                headers[name] = value
        if len(headers) > MOST_HEADERS:
            raise HeadTooLarge(f"there are more than {MOST_HEADERS} headers")
        self._check_head(headers)
        limit, declared = self._edge.limits.max_body, headers.get(b"content-length")
        if declared is not None and not declared.isdigit():
            raise Malformed("Content-Length is not one number")
        if declared is not None and (len(declared) > 18 or int(declared) > limit + self.around_body):
            self._most = self._edge.app.most_body(self._url)
            self._body.stay_in_pieces()
            if len(declared) > 18 or int(declared) > self._most:
                raise too_large(self._most or limit, declared)
        if not self.complete:
            self._find_holder()
            if headers.get(b"expect", b"").lower() == b"100-continue":
                self._connection.send_head(self, [(b":status", b"100")], last=False)

    def _find_holder(self) -> None:
        """Find out who sends the body, before it is taken. Raises PenstockError."""
        self.holder = self._edge.app.who(self._method, self._url, self._headers)

    def _check_head(self, headers: Headers) -> None:
        """Look at the head before anything else does. Raises PenstockError."""

    def take_body(self, chunk: bytes) -> None:
        if self.state != State.BODY:
            return
        size = self._body.size + len(chunk)
        limit = self._edge.limits.max_body
        beyond = size > limit + self.around_body
        if beyond and not self._most:
            self._most = self._edge.app.most_body(self._url)
            self._body.stay_in_pieces()
        if beyond and size > self._most:
            self.refuse(too_large(self._most or limit))
        else:
            self._body.add(chunk, crowded=self._edge.held.crowded)
            if self._most and size // STRIDE > (size - len(chunk)) // STRIDE:
                self.since = self._edge.tick  # a client has the time of a body for each stride
            if size > LITTLE:
                self._edge.held.change(self, size)

    def take_end(self) -> None:
        self.complete = True
        if self.state == State.BODY:
            self.state = State.BUSY
            headers, whole = self._headers, self._body.whole()
            self._headers = NO_HEADERS
            self._drop()
            self._hand_over(headers, whole)

    def _hand_over(self, headers: Headers, whole: Whole) -> None:
        self._edge.app.handle(self, self._method, self._url, headers, whole)

    def refuse(self, exc: Exception) -> None:
        self.state = State.BUSY
        self._drop()
        self._edge.app.refuse(self, exc, self._url, self._headers)

    def crowded_out(self) -> None:
        self.refuse(crowded_out(self._edge.held.most))

    def _drop(self) -> None:
        self._body = Body()
        if self.held:
            self._edge.held.change(self, 0)

    # ---- the answer --------------------------------------------------------------------------------------

    def reply(self, reply: Reply) -> None:
        """Send the one answer to what was submitted."""
        if self.state != State.CLOSED:
            self.respond(self.render(reply, self._edge.clock()), reply.request.tenant)

    def respond(self, answer: Answer, tenant: str = "") -> None:
        if self.state == State.CLOSED:
            return
        self.leaving = None
        self.tenant = tenant
        body = answer.whole
        fields = [
            (":status", str(answer.status)),
            *answer.all_fields,
            ("content-length", str(len(body))),
            ("date", self._edge.date),
        ]
        if self._method != b"HEAD":
            self.unsent = memoryview(body)
        self._connection.send_head(
            self, [(name.encode(), value.encode("latin-1")) for name, value in fields], last=not self.unsent
        )
        if len(self.unsent) > PIECE:
            self._connection.send_later(self)  # the answers of a whole batch may have come together
        else:
            self._connection.send_body(self)

    def begin(self, answer: Answer, tenant: str = "") -> "Stream | None":
        """Send the head of an answer that is sent part by part."""
        if self.state == State.CLOSED:
            return None
        self.tenant, self.more = tenant, True
        fields = [(":status", str(answer.status)), *answer.all_fields, ("date", self._edge.date)]
        self._connection.send_head(
            self, [(name.encode(), value.encode("latin-1")) for name, value in fields], last=False
        )
        return self

    def send(self, part: bytes) -> None:
        """Send a part, or put it behind those that the client has not taken yet."""
        if self.state != State.CLOSED and part:
            self.unsent = memoryview(b"".join((self.unsent, part)))
            self._connection.send_body(self)

    def end(self, part: bytes) -> None:
        self.more = False
        self.leaving = None
        self.send(part)

    async def taken(self) -> None:
        """Wait until the client has taken all parts so far, or has left."""
        if self.unsent and self.state != State.CLOSED:
            self._taken = asyncio.Event()
            await self._taken.wait()

    def cut(self) -> None:
        self.abort()

    def switch(self, answer: Answer, talk: Talk) -> None:
        """Raises UpgradeRequired: over HTTP/2 no connection changes its protocol."""
        raise UpgradeRequired("WebSocket is spoken here over HTTP/1.1 only")

    def body_sent(self) -> None:
        """Note that all of the body is sent, or all of it that there is yet."""
        if self.more:
            self.all_taken()
            if self._taken is not None:
                self._taken.set()
            self.state = State.BUSY
            self._connection.not_blocked(self)
        else:
            self._connection.answered(self)

    def push(self) -> None:
        """Send the next pieces of an answer that the client did not take at once."""
        if self.state != State.CLOSED:
            self._connection.send_body(self)

    def wait(self, *, turn: bool) -> None:
        """Wait with the rest of the answer, because the client takes no more now or, with `turn`, others are
        next."""
        edge = self._edge
        if self.waiting is None:
            self.state, self.since = State.SENDING, edge.tick
            size = len(cast(bytes, self.unsent.obj))  # all of the answer is kept until its end
            self.waiting = Unsent(edge, self, self.tenant, self.unsent, size)
        if turn:
            self.waiting.wait()

    def all_taken(self) -> None:
        """Keep nothing of the answer: all of it is taken, or nobody will take the rest."""
        self.unsent = memoryview(b"")
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.release()

    # ---- the end -----------------------------------------------------------------------------------------

    def gone(self) -> None:
        """End the stream: the client has left, or has reset it."""
        self.state = State.CLOSED
        self._drop()
        if self._taken is not None:
            self._taken.set()
        leaving, self.leaving = self.leaving, None
        if leaving is not None:
            leaving.left()

    def out_of_time(self) -> None:
        if self.state == State.BODY:
            self.refuse(body_too_slow(self._edge.limits.body_seconds))
        else:
            self.abort()

    @property
    def descriptor(self) -> int:
        return -1  # the socket is its connection's

    def retire(self) -> None:
        """Does nothing: the stream's connection tells the client."""

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._connection.reset(self)
