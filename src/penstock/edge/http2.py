"""One client's connection of HTTP/2: many requests at once, each a stream that is its own asker. `opening.py` makes
it after a TLS handshake in which client and server agreed on HTTP/2.

The h2 library knows the frames, their compression and their windows, without any I/O. This file decides how much is
taken, for how long, and what happens to the streams. `http2_sending.py` is its base class.

    NEW ──► BUSY (streams are open) ⇄ IDLE ──► LINGERING (the server stops) ──► closing, with GOAWAY
              HEAD: half a frame, and nothing else       SENDING: the client does not read

A server that stops sends GOAWAY twice (RFC 9113, 6.8). The first names no stream, so that the client begins none
and those under way are served. The second follows when these have had their time, and names the last of them. The
first waits until no stream is open, because several clients (httpx is one) abandon all open streams when they get
it.

One read can bring thousands of frames. They are handled a few at a time (`turns.py`); nothing more is read
meanwhile.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from penstock.edge.bounds import BULK, LITTLE, State, too_many
from penstock.edge.departed import descriptor_of, has_left
from penstock.edge.held import STRANGERS
from penstock.edge.http2_frames import TooMuch
from penstock.edge.http2_library import (
    ConnectionTerminated,
    DataReceived,
    ErrorCodes,
    Event,
    ProtocolError,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from penstock.edge.http2_sending import CONNECTION_WINDOW, Sending
from penstock.edge.http2_stream import Stream

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

# The frame GOAWAY: eight bytes long, on stream 0, without an error and with the highest stream number, so that all
# streams under way are served.
GOING_AWAY = bytes.fromhex("000008 07 00 00000000 7fffffff 00000000")


class Http2Connection(Sending):
    """What a client sends, and the state of its connection."""

    stream: type[Stream] = Stream  # what is made for each request

    def __init__(self, edge: "Edge") -> None:
        super().__init__(edge)
        self._rest = memoryview(b"")  # bytes that have been read and wait for their turn
        self._leaving = False
        self._is_last = False  # the client begins no more streams
        # Whether a piece of a large body has come, so that others have their turn before the next piece.
        self._large = False
        self.held = 0
        self.holder = STRANGERS
        self.state = State.NEW
        self.since = edge.tick

    # ---- the transport -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.edge.connections.add(self)
        self._machine.initiate_connection()
        self._machine.increment_flow_control_window(CONNECTION_WINDOW - 65_535)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if not self._ended:
            self._take(memoryview(data))

    def _take(self, data: memoryview) -> None:
        """Handle as many frames as this turn may."""
        try:
            size = self._frames.look(data, self.edge.clock(), self._streams)
            self._handle(self._machine.receive_data(data[:size]))
            if self._pushing:
                self.push()
        except TooMuch:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)
        except ProtocolError:  # the library has answered the mistake already
            self._end(None)
        else:
            self._flush()
            self._look()
            if self._ended:
                return
            self._rest = data[size:]
            if self._rest or size > BULK or self._large:
                self._large = False
                self._do_not_read()
                self.edge.turns.wait(self)
            held = len(self._rest) + self._frames.unfinished
            if held > LITTLE or self.held:
                self.edge.held.change(self, held)

    def go_on(self) -> bool:
        """Go on reading: it is this client's turn again."""
        rest = self._rest
        if self._paused or self._ended:
            return False
        if rest:
            if has_left(self):
                self.abort()
                return False
            self._rest = memoryview(b"")
            self._take(rest)
        if not self._rest:
            self._read_on()
        return bool(rest) and self._frames.wasted

    def _do_not_read(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()
            self.edge.deaf.add(self)

    def _read_on(self) -> None:
        """Read on, unless something stands in the way."""
        if self._paused or self._ended or self._transport is None:
            return
        if self._rest:
            self.edge.turns.wait(self)
        else:
            self.edge.deaf.discard(self)
            self._transport.resume_reading()

    @property
    def descriptor(self) -> int:
        return descriptor_of(self._transport)

    def crowded_out(self) -> None:
        self._end(ErrorCodes.ENHANCE_YOUR_CALM)

    def _handle(self, events: list[Event]) -> None:
        """Carry out these events. A request that the client has reset in the same read is ignored."""
        taken_back = {event.stream_id for event in events if isinstance(event, StreamReset)}
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None and not (
                taken_back and isinstance(event, RequestReceived) and event.stream_id in taken_back
            ):
                handler(self, event)

    def eof_received(self) -> None:
        """Called when the client will send no more. It counts as gone; the transport closes by itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.edge.connections.discard(self)
        self.edge.deaf.discard(self)
        self._transport = None
        self._ended = True
        self._all_taken()
        self.state = State.CLOSED
        self._all_gone()
        self._drop()
        vars(self._machine).clear()  # the machine refers to its own methods: this breaks the cycle

    def pause_writing(self) -> None:
        """Called when the client does not read its answers. Nothing more is read from it either."""
        self._paused = True
        self._do_not_read()
        self._look()

    def resume_writing(self) -> None:
        self._paused = False
        self._all_taken()
        self._read_on()
        self.push()
        self._look()

    # ---- what the client says ----------------------------------------------------------------------------

    def _requested(self, event: RequestReceived) -> None:
        stream = self.stream(self, event.stream_id, event.stream_ended is not None)
        self._streams[stream.id] = stream
        self.edge.connections.add(stream)
        if self.edge.full:
            stream.refuse(too_many(self.edge.limits.max_connections))
        else:
            stream.take_head(cast(Any, event.headers))

    def _received(self, event: DataReceived) -> None:
        stream = self._streams.get(event.stream_id)
        self._acknowledge(event, stream)
        if stream is not None:
            stream.take_body(event.data)
            self._large = self._large or stream.held > BULK

    def _acknowledge(self, event: DataReceived, stream: Stream | None) -> None:
        """Open the windows again by what has come: at once."""
        self._machine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def _completed(self, event: StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.take_end()

    def _was_reset(self, event: StreamReset) -> None:
        if not event.remote_reset:  # the library has reset it, for something the client did
            self._frames.spend()
        stream = self._forget(event.stream_id)
        if stream is not None:
            stream.gone()

    def _window_updated(self, event: WindowUpdated) -> None:
        if event.stream_id == 0:
            self._pushing = True
        elif event.stream_id in self._blocked:
            self.send_body(self._blocked[event.stream_id])

    def _windows_changed(self, _: Event) -> None:
        self._pushing = True

    def _terminated(self, event: ConnectionTerminated) -> None:
        """Called when the client has sent GOAWAY. It will begin no more streams, and still wants the answers to
        those under way; but the libraries send nothing after that, so with them it counts as gone."""
        if self._machine.goes_on and event.error_code == ErrorCodes.NO_ERROR:
            self._is_last = True
        else:
            self._all_gone()
            self._end(None)

    # ---- states, and the end -----------------------------------------------------------------------------

    def _look(self) -> None:
        """Set the state of the connection. Streams have time limits of their own; the connection has one only while
        it has no stream, or while its client does not read."""
        if self._ended:
            return
        if self._is_last and not self._streams:
            self._end(ErrorCodes.NO_ERROR)
            return
        if self._paused:
            state = State.SENDING
        elif self._streams:
            state = State.BUSY
        elif not self._frames.begun:
            state = State.NEW
        elif self._frames.pending:
            state = State.HEAD
        else:
            state = State.LINGERING if self._leaving else State.IDLE
        if state != self.state:
            self.state, self.since = state, self.edge.tick

    def retire(self) -> None:
        """Tell the client that the server is about to stop; while a stream is open, only once it is answered."""
        if not self._leaving and not self._ended and self._frames.begun and not self._streams:
            self._leaving = True
            self._flush()
            if self._transport is not None:
                self._transport.write(GOING_AWAY)
            self._look()

    def _end(self, code: ErrorCodes | None) -> None:
        """End the connection with GOAWAY and this code; None if the library has sent GOAWAY already. Open streams
        end without an answer."""
        if self._ended:
            return
        if code is not None:
            self._machine.close_connection(code)
        self._flush()
        self._ended = True
        self._all_gone()
        self._drop()
        self.state, self.since = State.SENDING, self.edge.tick
        if self._transport is not None:
            self._transport.close()

    def _drop(self) -> None:
        self._rest = memoryview(b"")
        if self.held:
            self.edge.held.change(self, 0)

    def out_of_time(self) -> None:
        if self.state == State.SENDING:
            self.abort()
        else:
            self._end(ErrorCodes.NO_ERROR)

    def close(self) -> None:
        self._end(ErrorCodes.NO_ERROR)


_HANDLERS: dict[type[Event], Callable[[Http2Connection, Any], None]] = {
    RequestReceived: Http2Connection._requested,
    DataReceived: Http2Connection._received,
    StreamEnded: Http2Connection._completed,
    StreamReset: Http2Connection._was_reset,
    WindowUpdated: Http2Connection._window_updated,
    RemoteSettingsChanged: Http2Connection._windows_changed,
    ConnectionTerminated: Http2Connection._terminated,
}
