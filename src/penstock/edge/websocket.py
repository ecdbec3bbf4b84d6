"""One client's connection that speaks WebSocket. `http1.Connection` makes it when a door has agreed to a client's
wish, and it takes the connection's place at its transport and at its edge.

    HEAD (who asks?) ──► QUIET ◄──► BUSY          BODY: a message has come in part
                           │          │           SENDING: the client does not read
                           └──────────┴──► LINGERING ──► closed

The library takes frames apart and puts them together (`websockets`, its half without I/O). Here is what it leaves
open: how much of a read one turn of the loop handles, what a message that has not come in full holds, how long each
state may last, and what waits for a client that does not read. What messages mean is the talk's matter (`talk.py`).

Nothing is compressed: a few bytes of a compressed message could stand for very many.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side

from penstock.edge.bounds import (
    LITTLE,
    MOST_THROWN_AWAY,
    State,
    message_too_slow,
    not_introduced,
    quiet_for_long,
)
from penstock.edge.departed import descriptor_of, has_left
from penstock.edge.held import STRANGERS
from penstock.edge.talk import Talk
from penstock.edge.unsent import Unsent

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

SLICE = 2048  # bytes that the library is given at once: there may be hundreds of frames in them
MOST_WORK = 96  # units of work in one turn: a slice is 1, a frame 1
# Bytes of the first message of a client that has not said who asks. The longest token has half of that.
FIRST_MESSAGE = 16 * 1024
LONGEST_REASON = 120  # characters that a frame which ends the connection can hold

GOING_AWAY, POLICY, TOO_BIG, TRY_LATER = 1001, 1008, 1009, 1013  # RFC 6455, 7.4.1

NOTHING = memoryview(b"")

log = logging.getLogger("penstock.websocket")
_frames_log = logging.getLogger("penstock.websocket.frames")
_frames_log.setLevel(logging.WARNING)  # the library tells of the end of each connection


class WebSocket(asyncio.Protocol):
    """Implements `edge.Counted`, `held.Holding` and `talk.Line`."""

    __slots__ = (
        "_closed", "_edge", "_flushing", "_frames", "_is_text", "_leaving", "_machine", "_message", "_paused",
        "_pinged", "_quiet_since", "_rest", "_said", "_talk", "_thrown_away", "_transport", "_unsent", "_wasted",
        "held", "holder", "since", "state",
    )  # fmt: skip

    def __init__(self, edge: "Edge", talk: Talk) -> None:
        self._edge = edge
        self._talk = talk
        self._machine = Protocol(Side.SERVER, max_size=edge.limits.max_body, logger=_frames_log)
        self._transport: asyncio.Transport | None = None
        self._rest = NOTHING  # bytes that have been read and wait for their turn
        self._frames: deque[Frame] = deque()  # what was in a slice, as far as it is not told yet
        self._message: bytearray | None = None  # the parts of a message so far
        self._is_text = True
        self._said = False  # whether a message has come in full in this turn
        self._paused = False  # the client does not read
        self._flushing = False
        self._leaving = False  # the server is about to stop
        self._closed = False  # a frame that ends the connection was sent or received
        self._pinged = False  # and nothing has come since
        self._wasted = 0  # frames of this turn that brought no message to its end
        self._thrown_away = 0  # bytes that came after the end
        self._quiet_since = edge.clock()
        self._unsent: Unsent | None = None  # what the transport has, and the client does not take
        self.held = 0
        self.holder = STRANGERS
        self.state = State.HEAD
        self.since = edge.tick

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
        if self.state == State.QUIET:
            self.since = self._edge.tick
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

    # ---- what the client says ----------------------------------------------------------------------------

    def _take(self) -> None:
        """Handle as much as this turn may cost."""
        work = 0
        self._said = False
        self._wasted = 0
        while work < MOST_WORK and not self._stopped:
            work += 1
            if self._frames:
                self._hear(self._frames.popleft())
            elif self._machine.eof_sent:  # the library has refused what it cannot read, and has said why
                self._end()
            elif self._rest:
                step, self._rest = bytes(self._rest[:SLICE]), self._rest[SLICE:]
                self._machine.receive_data(step)
                self._frames.extend(cast("list[Frame]", self._machine.events_received()))
            else:
                break
        if self._closed:
            return
        self._flush_soon()
        self._weigh()
        self._look()
        if self._rest or self._frames:
            self._do_not_read()
            if not self._stopped:
                self._edge.turns.wait(self)
        elif self._stopped:
            self._do_not_read()

    @property
    def _stopped(self) -> bool:
        return self._closed or self._paused or not self._talk.is_ready

    def go_on(self) -> bool:
        """Go on reading: it is this client's turn again, or its talk is ready again."""
        if self._stopped or self._transport is None:
            return False
        if self._rest or self._frames:
            if has_left(self):
                self.abort()
                return False
            self._take()
        else:
            self._look()
        self._read_on()
        return self._wasted > MOST_WORK // 2

    def _read_on(self) -> None:
        """Read on, unless something stands in the way."""
        if self._stopped or self._transport is None:
            return
        if self._rest or self._frames:
            self._edge.turns.wait(self)
        else:
            self._edge.deaf.discard(self)
            self._transport.resume_reading()

    def _do_not_read(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()
            self._edge.deaf.add(self)

    def _hear(self, frame: Frame) -> None:
        opcode = frame.opcode
        if opcode is Opcode.CLOSE:  # the library has answered it
            self._end()
        elif opcode is Opcode.PING or opcode is Opcode.PONG:
            self._wasted += 1
        elif self._message is not None:
            self._message += frame.data
            if frame.fin:
                message, self._message = bytes(self._message), None
                self._tell(message)
            else:
                self._wasted += 1
        else:
            self._is_text = opcode is Opcode.TEXT
            if frame.fin:
                self._tell(bytes(frame.data))
            else:
                self._message = bytearray(frame.data)

    def _tell(self, message: bytes) -> None:
        self._said = True
        self._talk.hear(message, text=self._is_text)

    def _weigh(self) -> None:
        """Count what is held until more comes, or until it is this client's turn again."""
        held = self._unfinished + len(self._rest)
        if not self._talk.is_introduced and held > FIRST_MESSAGE:
            self.hang_up(TOO_BIG, f"the message that says who asks is longer than {FIRST_MESSAGE} bytes")
            return
        tenant = self._talk.tenant
        if tenant != self.holder:
            if self.held:
                self._edge.held.change(self, 0)
            self.holder = tenant
        if held > LITTLE or self.held:
            self._edge.held.change(self, held if held > LITTLE else 0)

    @property
    def _unfinished(self) -> int:
        """Bytes of a message that has not come in full. A message of no bytes yet counts too."""
        begun = 0 if self._message is None else 1 + len(self._message)
        return begun + len(self._machine.reader.buffer)

    def crowded_out(self) -> None:
        self.hang_up(TRY_LATER, "the server holds too many messages that have not come in full")

    # ---- what the client is told -------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        if not self._closed:
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
            if machine.eof_sent:
                self._write()
                transport.close()

    def _drop(self) -> None:
        self._rest, self._message = NOTHING, None
        self._frames.clear()
        if self.held:
            self._edge.held.change(self, 0)

    @property
    def descriptor(self) -> int:
        return descriptor_of(self._transport)

    def retire(self) -> None:
        """Say good-bye. Answers still come, and the last of them ends the connection."""
        if not self._leaving and not self._closed:
            self._leaving = True
            self._talk.say_good_bye()

    def close(self) -> None:
        self.hang_up(GOING_AWAY, "this server is shutting down: connect again")

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
