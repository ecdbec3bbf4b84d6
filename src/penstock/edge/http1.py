"""One client's connection of HTTP/1.1: one request at a time, and the answers in the order of the requests. `Edge`
makes it; `opening.py` does after a TLS handshake.

    NEW ──► HEAD ──► BODY ──► BUSY ──► IDLE ──► HEAD …
                                │ the client does not read: SENDING
                                │ it wished for WebSocket: a `websocket.WebSocket` takes over
                                └ refused, or the last: LINGERING ──► closed

Its base classes take the bytes apart (`http1_reading.py`, `http1_message.py`), and begin answers whose end is not
known yet (`http1_open_ended.py`). The connection itself is the asker
(`reply`), so that a waiting request costs no further object, and a client that leaves is noticed the moment its
connection closes.

After a refusal the client may still be sending. A closed socket would answer that with a reset, which may reach the
client before the reason for the refusal. So the answer is sent, our side is shut, and a little more is read and
thrown away. The same is done for the last answer of a server that stops, because the next request may be on its
way.
"""

import asyncio
from typing import TYPE_CHECKING, cast

import httptools

from penstock.edge.answer import Answer
from penstock.edge.body import Whole
from penstock.edge.bounds import (
    MOST_THROWN_AWAY,
    State,
    body_too_slow,
    head_too_slow,
    too_many,
)
from penstock.edge.caller import Render, nothing_asked
from penstock.edge.departed import has_left
from penstock.edge.fields import Headers
from penstock.edge.heads import ORDINARY, Head
from penstock.edge.http1_head import ENDS, GOES_ON, head_of
from penstock.edge.http1_open_ended import OpenEnded
from penstock.edge.unsent import AT_ONCE, PIECE, Unsent
from penstock.errors import Malformed
from penstock.types import Reply

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

# Names of a module are found faster than attributes of a class.
NEW, IDLE, HEAD, BODY = State.NEW, State.IDLE, State.HEAD, State.BODY
SENDING, LINGERING, BUSY, CLOSED = State.SENDING, State.LINGERING, State.BUSY, State.CLOSED
# Bytes. A body up to this size is joined with its head. A larger one is handed over as it is: many clients that ask
# for one page and read nothing then hold one body, and not a copy each.
COPIED = 16 * 1024


class Connection(OpenEnded):
    """Implements `caller.Caller`, and `edge.Counted`."""

    __slots__ = ("_unsent", "_without_body", "render")

    def __init__(self, edge: "Edge") -> None:
        super().__init__(edge)
        self._without_body = False
        # The rest of an answer that the client has not taken, where it is a large one.
        self._unsent: Unsent | None = None
        self.render: Render = nothing_asked

    # ---- the transport -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        edge = self._edge
        edge.connections.add(self)
        if edge.full:
            if edge.overfull:
                self.abort()
            else:
                self._refuse(too_many(edge.limits.max_connections))
        elif edge.reads.can_watch(descriptor := self.descriptor):
            # The connection is read from in this turn of the loop in any case. Most have sent their first request
            # by then.
            asyncio.get_running_loop().call_soon(self._await_first, descriptor)

    def _await_first(self, descriptor: int) -> None:
        if self.state == NEW and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._watched = descriptor
            self._edge.reads.wait(self, descriptor)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            self._throw_away(data)
            return
        # An ordinary request takes the short way (see `heads.py`).
        if self.state <= IDLE and self._later is None and (found := ORDINARY(data)) is not None:
            head, body = Head(*found.groups()), data[found.end() :]
            if int(head.length) == len(body) <= self._edge.limits.max_body:
                self.state = BUSY
                self._last = self._without_body = False
                self._size = 0
                self._edge.app.handle_ordinary(self, head, body)
                return
        self._take(data)

    def _throw_away(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MOST_THROWN_AWAY and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """Called when the client will send no more. It counts as gone, because we cannot know whether it still
        listens."""
        if self.state == BODY:
            self._refuse(Malformed("the body ended before it was complete"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._edge.connections.discard(self)
        self._edge.deaf.discard(self)
        self.state = CLOSED
        self._drop()  # the parser refers to our methods: this breaks the cycle
        self._all_taken()
        self._transport = self._later = None
        if self._taken is not None:
            self._taken.set()
        if self._watched >= 0:
            self._edge.reads.forget(self._watched)
        leaving, self.leaving = self.leaving, None
        if leaving is not None:
            leaving.left()

    def pause_writing(self) -> None:
        """Called when the client does not read its answers. Nothing more is read from it either."""
        self._paused = True
        if self._unsent is not None:
            self._unsent.full = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._taken is not None:
            self._taken.set()
        unsent = self._unsent
        if unsent is not None:
            unsent.full = False
            if unsent.rest:
                self.push()
                return
        self._go_on_reading()

    def _go_on_reading(self) -> None:
        self._all_taken()
        self._paused = False
        if self.state == SENDING and not self._last:
            self._ready_for_more()
        else:
            self._read_on()

    # ---- requests ----------------------------------------------------------------------------------------

    def _hand_over(self, method: bytes, url: bytes, headers: Headers, body: Whole, last: bool) -> None:
        self.state = BUSY
        self._last = last
        self._without_body = method == b"HEAD"
        self._edge.app.handle(self, method, url, headers, body)

    # ---- answers -----------------------------------------------------------------------------------------

    def reply(self, reply: Reply) -> None:
        """Send the one answer to what was submitted."""
        transport = self._transport
        if transport is None:
            return
        edge = self._edge
        answer = self.render(reply, edge.clock())
        if len(answer.body) > PIECE or self._last or edge.closing or self._later is not None:
            self.respond(answer, reply.request.tenant)
            return
        self.leaving = None
        # The same as `respond` does, without its calls, for the usual case.
        transport.write(b"".join((head_of(answer, edge.date), answer.before, answer.body, answer.after)))
        if self._paused:
            self._sent(reply.request.tenant)
        else:
            self.since = edge.tick
            self.state = self._part

    def respond(self, answer: Answer, tenant: str = "") -> None:
        transport = self._transport
        if transport is None:
            return
        self.leaving = None
        head = head_of(answer, self._edge.date, ENDS if self._ends else GOES_ON)
        body = b"" if self._without_body else answer.whole
        if len(body) <= COPIED:
            transport.write(head + body)
            self._sent(tenant)
        elif len(body) <= PIECE:
            transport.writelines((head, body))
            self._sent(tenant)
        else:
            self._send_in_pieces(head, body, tenant)

    @property
    def _ends(self) -> bool:
        """Whether the answer that is due is the last. Requests that were read before the edge was closing are
        still served."""
        return self._last or (self._edge.closing and not self._later and not self._rest)

    def _send_in_pieces(self, head: bytes, body: bytes, tenant: str) -> None:
        transport = self._transport
        assert transport is not None
        self._last = self._ends  # the head says the same
        self.since = self._edge.tick
        self.state = SENDING
        transport.pause_reading()
        self._paused = True  # true until the last piece has gone
        self._unsent = Unsent(self._edge, self, tenant, memoryview(body), len(head) + len(body), head)
        self._unsent.wait()  # not sent at once: the answers of a whole batch may have come together

    def push(self) -> None:
        """Send the next pieces of a large answer."""
        transport, unsent, sent = self._transport, self._unsent, 0
        if transport is None or unsent is None or transport.is_closing():
            return
        while unsent.rest and not unsent.full and sent < AT_ONCE:
            piece = unsent.next_piece()
            transport.write(piece)
            sent += len(piece)
        if unsent.rest:
            if not unsent.full:
                unsent.wait()
            return
        unsent.weigh(transport.get_write_buffer_size())
        if self._last:
            self._answered()
        elif not unsent.full:
            self._go_on_reading()

    def _all_taken(self) -> None:
        unsent, self._unsent = self._unsent, None
        if unsent is not None:
            unsent.release()

    def _sent(self, tenant: str) -> None:
        transport = self._transport
        if self._paused and self._unsent is None and transport is not None:
            size = transport.get_write_buffer_size()
            self._unsent = Unsent(self._edge, self, tenant, memoryview(b""), size)
        self._answered()

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
            # Not called from here: a thousand requests may wait.
            asyncio.get_running_loop().call_soon(self._ready_for_more)

    def _ready_for_more(self) -> None:
        """Handle the next request that was pipelined, if its client is still there. If there is none, read on."""
        if self._last or self._paused or self.state not in (IDLE, SENDING):
            return
        self.state = IDLE
        if self._later:
            if has_left(self):
                self.abort()
                return
            asked = self._later.popleft()
            if isinstance(asked, Exception):
                self._refuse(asked)
            else:
                self._hand_over(*asked)
            return
        self.state = self._part
        self._weigh()
        self._read_on()

    # ---- the end -----------------------------------------------------------------------------------------

    def _refuse(self, exc: Exception) -> None:
        self._drop()
        if self.state in (BUSY, SENDING) or self._later:
            self._wait_its_turn(exc)
            return
        self.state = BUSY
        self._last = True
        self._part = BODY  # the client may still be sending
        self._size = 0
        self._edge.app.refuse(self, exc, self._url, self._head or self._headers)

    def _end(self) -> None:
        self._last = True
        transport = self._transport
        assert transport is not None
        self._drop()
        if (self._part != IDLE or self._edge.closing) and not transport.is_closing():
            self.state = LINGERING
            self._size = 0
            self._edge.deaf.discard(self)
            if transport.can_write_eof():
                transport.write_eof()
                self._listen_on(transport)
            else:  # TLS has no half-closed state: it says good-bye, and drops what comes until it is answered
                transport.close()
        else:
            self.state = SENDING
            transport.close()

    def _listen_on(self, transport: asyncio.Transport) -> None:
        """Read a little of what a refused client still sends: now, or when it is its turn if `reads.py` watches
        it."""
        if self._watched < 0:
            transport.resume_reading()
        else:
            self._later = None
            self._await_more()

    def out_of_time(self) -> None:
        if self.state == HEAD and self._part == HEAD:
            self._refuse(head_too_slow(self._edge.limits.head_seconds))
        elif self.state == BODY:
            self._refuse(body_too_slow(self._edge.limits.body_seconds))
        else:
            self.abort()

    def retire(self) -> None:
        """Does nothing: the next answer will tell the client."""

    def close(self) -> None:
        """Close a connection without a request."""
        if self._transport is not None and self.state != LINGERING:
            self.since = self._edge.tick
            self._end()
