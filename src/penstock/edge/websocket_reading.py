"""Takes the bytes of a WebSocket apart into messages, and bounds how much of them is taken at once. The base class
of `websocket.WebSocket`, which says what becomes of it all.

The library makes frames of bytes (`websockets`, its half without I/O). A read brings up to 256 KB, in which there
may be forty thousand frames. So the library is given a slice at a time, and one turn of the loop handles a bounded
number of slices and frames; the rest waits for its turn, and nothing more is read meanwhile. What is held of
messages that have not come in full is counted with that of all other clients (`held.py`).

Nothing is compressed: a few bytes of a compressed message could stand for very many.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, cast

from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side

from penstock.edge.bounds import LITTLE, State
from penstock.edge.departed import descriptor_of, has_left
from penstock.edge.held import STRANGERS
from penstock.edge.talk import Talk

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

SLICE = 4096  # bytes that the library is given at once: there may be hundreds of frames in them
MOST_WORK = 96  # units of work in one turn: a slice is 1, a frame 1
# Bytes of the first message of a client that has not said who asks. The longest token has half of that.
FIRST_MESSAGE = 16 * 1024
TOO_LONG = f"the message that says who asks is longer than {FIRST_MESSAGE} bytes"
TOO_BIG = 1009  # RFC 6455, 7.4.1

NOTHING = memoryview(b"")

_log = logging.getLogger("penstock.websocket.frames")
_log.setLevel(logging.WARNING)  # the library tells of the end of each connection


class MessageReading(asyncio.Protocol, ABC):
    """The bytes, frames and parts of messages of one client that are not told yet."""

    __slots__ = (
        "_closed", "_edge", "_frames", "_is_text", "_machine", "_message", "_paused", "_rest", "_said", "_talk",
        "_transport", "_wasted", "held", "holder", "since", "state",
    )  # fmt: skip

    def __init__(self, edge: "Edge", talk: Talk) -> None:
        self._edge = edge
        self._talk = talk
        self._machine = Protocol(Side.SERVER, max_size=edge.limits.max_body, logger=_log)
        self._transport: asyncio.Transport | None = None
        self._rest = NOTHING  # bytes that have been read and wait for their turn
        self._frames: deque[Frame] = deque()  # what was in a slice, as far as it is not told yet
        self._message: bytearray | None = None  # the parts of a message so far
        self._is_text = True
        self._said = False  # whether a message has come in full since the state was looked at
        self._wasted = 0  # frames of this turn that brought no message to its end
        self._paused = False  # the client does not read
        self._closed = False  # a frame that ends the connection was sent or received
        self.held = 0
        self.holder = STRANGERS
        self.state = State.HEAD
        self.since = edge.tick

    def _take(self) -> None:
        """Handle as much as this turn may cost."""
        work = 0
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
        if len(message) > FIRST_MESSAGE and not self._talk.is_introduced:
            self.hang_up(TOO_BIG, TOO_LONG)
        else:
            self._talk.hear(message, text=self._is_text)

    def _weigh(self) -> None:
        """Count what is held until more comes, or until it is this client's turn again."""
        held = self._unfinished + len(self._rest)
        if not self._talk.is_introduced and held > FIRST_MESSAGE:
            self.hang_up(TOO_BIG, TOO_LONG)
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

    def _drop(self) -> None:
        self._rest, self._message = NOTHING, None
        self._frames.clear()
        if self.held:
            self._edge.held.change(self, 0)

    @property
    def descriptor(self) -> int:
        return descriptor_of(self._transport)

    @abstractmethod
    def _flush_soon(self) -> None:
        """Send soon what the library has to say, such as the answer to a ping."""

    @abstractmethod
    def _look(self) -> None:
        """Set the state."""

    @abstractmethod
    def _end(self) -> None:
        """Take nothing more: one side has ended the connection."""

    @abstractmethod
    def crowded_out(self) -> None:
        """Give way: too many bytes are held."""

    @abstractmethod
    def hang_up(self, code: int, reason: str) -> None:
        """End the connection, and say why."""

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
