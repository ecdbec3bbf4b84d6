"""One client's connection that speaks WebSocket. `http1.Connection` makes it when a door has agreed to a client's
wish, and it takes the connection's place at its transport and at its edge.

    HEAD (who asks?) ──► QUIET ◄──► BUSY          BODY: a message has come in part
                           │          │           SENDING: the client does not read
                           └──────────┴──► LINGERING ──► closed

Its base class takes the bytes apart (`websocket_reading.py`). Here is how long each state may last, what waits for
a client that does not read, and how a connection ends. What messages mean is the talk's matter (`talk.py`).
"""

import asyncio
from typing import TYPE_CHECKING, cast

from websockets.protocol import State as Agreed

from penstock.edge.bounds import MOST_THROWN_AWAY, State, message_too_slow, not_introduced, quiet_for_long
from penstock.edge.talk import Talk
from penstock.edge.unsent import Unsent
from penstock.edge.websocket_reading import NOTHING, MessageReading

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

LONGEST_REASON = 120  # characters that a frame which ends the connection can hold
GOING_AWAY, POLICY, TRY_LATER = 1001, 1008, 1013  # RFC 6455, 7.4.1


class WebSocket(MessageReading):
    """Implements `edge.Counted`, `held.Holding` and `talk.Wire`."""

    __slots__ = ("_flushing", "_leaving", "_pinged", "_quiet_since", "_thrown_away", "_unsent")

    def __init__(self, edge: "Edge", talk: Talk) -> None:
        super().__init__(edge, talk)
        self._flushing = False
        self._leaving = False  # the server is about to stop
        self._pinged = False  # and nothing has come since
        self._thrown_away = 0  # bytes that came after the end
        self._quiet_since = edge.clock()
        self._unsent: Unsent | None = None  # what the transport has, and the client does not take

    # ---- the transport -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._edge.connections.add(self)
        self._talk.begin(self)
        self._look()
        self._transport.resume_reading()
        if self._edge.closing:
            self.retire()

    def data_received(self, data: bytes) -> None:
        self._pinged = False
        if self._closed:
            self._hear_the_end(data)
            return
        self._rest = memoryview(data)
        self._take()

    def eof_received(self) -> None:
        """Called when the client will send no more. It counts as gone; the transport closes by itself."""

    def pause_writing(self) -> None:
        """Called when the client does not read. Nothing more is read from it either."""
        self._paused = True
        self._do_not_read()
        self._look()

    def resume_writing(self) -> None:
        self._paused = False
        self._all_taken()
        self._look()
        self._read_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._edge.connections.discard(self)
        self._edge.deaf.discard(self)
        self._transport = None
        self._closed = True
        self.state = State.CLOSED
        self._drop()
        self._all_taken()
        self._talk.left()
        vars(self._machine).clear()  # the machine refers to its own methods: this breaks the cycle

    def crowded_out(self) -> None:
        self.hang_up(TRY_LATER, "the server holds too many messages that have not come in full")

    # ---- what the client is told -------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        # The library may have taken the client's last frame already, when an ask before it is answered.
        if not self._closed and self._machine.state is Agreed.OPEN:
            self._machine.send_text(message)
            self._flush_soon()

    def _flush_soon(self) -> None:
        """Write all the answers of a batch at once, soon."""
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._transport is None:
            return
        self._write()
        self._look()

    def _write(self) -> None:
        transport = self._transport
        data = b"".join(self._machine.data_to_send())
        if transport is None or not data:
            return
        transport.write(data)
        if self._paused:
            size = transport.get_write_buffer_size()
            if self._unsent is None:
                self._unsent = Unsent(self._edge, self, self._talk.tenant, NOTHING, size)
            else:
                self._unsent.weigh(size)

    def push(self) -> None:
        """Does nothing: the transport has all of it."""

    def _all_taken(self) -> None:
        unsent, self._unsent = self._unsent, None
        if unsent is not None:
            unsent.release()

    # ---- states, and the end -----------------------------------------------------------------------------

    def _look(self) -> None:
        """Set the state. One that lasts for as long as this process or a backend takes has no time limit."""
        if self._closed:
            return
        talk = self._talk
        if self._paused:
            state = State.SENDING
        elif self._rest or self._frames or not talk.is_ready:
            state = State.BUSY
        elif self._unfinished:
            state = State.BODY
        elif not talk.is_introduced:
            state = State.HEAD
        else:
            state = State.BUSY if talk.in_flight else State.QUIET
        if state != self.state:
            if state == State.QUIET:
                self._quiet_since = self._edge.clock()
                if self._leaving:  # that was the last answer
                    self.close()
                    return
            self.state, self.since = state, self._edge.tick
        elif self._said and state == State.BODY:  # another message than before
            self.since = self._edge.tick
        self._said = False

    def out_of_time(self) -> None:
        limits = self._edge.limits
        if self.state == State.BODY:
            self.hang_up(POLICY, message_too_slow(limits.body_seconds))
        elif self.state == State.HEAD:
            self.hang_up(POLICY, not_introduced(limits.head_seconds))
        elif self.state != State.QUIET or self._pinged:
            self.abort()
        elif self._edge.clock() - self._quiet_since >= limits.quiet_seconds:
            self.hang_up(GOING_AWAY, quiet_for_long(limits.quiet_seconds))
        else:
            self._pinged = True
            self.since = self._edge.tick
            self._machine.send_ping(b"")
            self._write()

    def hang_up(self, code: int, reason: str) -> None:
        """End the connection, and give the client a little time to agree."""
        if self._closed or self._transport is None:
            return
        if self._machine.state is Agreed.OPEN:
            self._machine.send_close(code, reason[:LONGEST_REASON])
        self._end()

    def _end(self) -> None:
        """Take nothing more, since one side has ended it. The transport closes once both have."""
        self._closed = True
        self._drop()
        self._talk.left()
        transport = self._transport
        if transport is None:
            return
        self._write()
        self.state, self.since = State.LINGERING, self._edge.tick
        refused = self._machine.eof_sent and self._machine.close_rcvd is None
        if self._machine.close_rcvd is not None or (refused and not transport.can_write_eof()):
            transport.close()
            return
        if refused:  # it may still be sending, and a reset might reach it before the reason
            transport.write_eof()
        self._edge.deaf.discard(self)
        transport.resume_reading()

    def _hear_the_end(self, data: bytes) -> None:
        """Wait for the frame with which the client agrees to the end. Whatever else it still sends is thrown
        away."""
        self._thrown_away += len(data)
        transport, machine = self._transport, self._machine
        if transport is None or transport.is_closing():
            return
        if self._thrown_away > MOST_THROWN_AWAY:
            transport.pause_reading()
        elif not machine.eof_sent:
            machine.receive_data(data)
            machine.events_received()
            if machine.close_rcvd is not None:
                self._write()
                transport.close()

    def retire(self) -> None:
        """Say good-bye. Answers still come, and the last of them ends the connection."""
        if not self._leaving and not self._closed:
            self._leaving = True
            self._talk.say_good_bye()

    def close(self) -> None:
        self.hang_up(GOING_AWAY, "this server is shutting down: connect again")
