"""HTTP/2 for one client: many requests at once, each a stream that asks for itself; agreed on with TLS.

The h2 library knows the frames, their compression and their windows, without any I/O. What is decided here is how
much is taken, for how long, and what happens to the streams.

    NEW ──► BUSY (streams are open) ⇄ IDLE ──► LINGERING (the server stops) ──► closing, with GOAWAY
              HEAD: half a frame, and nothing else       SENDING: the client does not read

A server that stops says GOAWAY twice (RFC 9113, 6.8): first without a number, so that the client begins nothing new
and what is under way is served; then, when that has had its time, with the number of the last stream that was. It
waits with the first until no stream is open, since several clients (httpx is one) give up all that are.

One read can bring thousands of frames. They are handled a few at a time (`turns`); nothing more is read meanwhile.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from penstock.edge.bounds import BULK, LITTLE, State, too_many
from penstock.edge.departed import descriptor_of, has_left
from penstock.edge.held import STRANGERS
from penstock.edge.http2_frames import MOST_HEAD, FrameWatch, TooMuch
from penstock.edge.http2_stream import Stream
from penstock.edge.unsent import AT_ONCE, PIECE, Unsent

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

MOST_STREAMS = 256  # on one connection
STREAM_WINDOW = 2**20  # bytes that may be under way to us, of one request
CONNECTION_WINDOW = 4 * 2**20
SETTINGS = {
    SettingCodes.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
    SettingCodes.MAX_HEADER_LIST_SIZE: MOST_HEAD,
    SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
}
# Headers are ours, in small letters already; those of others are checked.
CONFIG = H2Configuration(
    client_side=False, header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False
)
# GOAWAY, eight bytes long, on stream 0, without an error and up to the highest number: what is under way is served.
GOING_AWAY = bytes.fromhex("000008 07 00 00000000 7fffffff 00000000")


class _Machine(H2Connection):
    MAX_CLOSED_STREAMS = 1024  # that are remembered

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.local_settings = Settings(client=False, initial_values=cast(Any, SETTINGS))


class Http2Connection(asyncio.Protocol):
    def __init__(self, edge: "Edge") -> None:
        self.edge = edge
        self._machine = _Machine()
        self._frames = FrameWatch(edge.clock())
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        self._blocked: dict[int, Stream] = {}  # that wait for their client's window, or for it to read
        self._rest = memoryview(b"")  # has been read, and waits for its turn
        self._paused = self._flushing = self._pushing = self._leaving = self._ended = False
        self._ready = 0  # bytes of answers that the machine has, and the transport has not
        self._tenant = ""  # whose they are, or were
        self._unsent: Unsent | None = None  # what the transport has, and the client does not take
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
        """As many frames as this turn may handle."""
        try:
            size = self._frames.look(data, self.edge.clock(), self._streams)
            self._handle(self._machine.receive_data(data[:size]))
            if self._pushing:
                self.push()
        except TooMuch:
            self._end(ErrorCodes.ENHANCE_YOUR_CALM)
        except ProtocolError:  # which the library has answered already
            self._end(None)
        else:
            self._flush()
            self._look()
            if self._ended:
                return
            self._rest = data[size:]
            if self._rest or size > BULK:
                self._do_not_read()
                self.edge.turns.wait(self)
            held = len(self._rest) + self._frames.unfinished
            if held > LITTLE or self.held:
                self.edge.held.change(self, held)

    def go_on(self) -> bool:
        """It is this client's turn again."""
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
        """Unless something stands in the way."""
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
        """A request that was taken back in the same breath never was one."""
        taken_back = {event.stream_id for event in events if isinstance(event, StreamReset)}
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None and not (
                taken_back and isinstance(event, RequestReceived) and event.stream_id in taken_back
            ):
                handler(self, event)

    def eof_received(self) -> None:
        """One that will send no more counts as gone; the transport closes by itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.edge.connections.discard(self)
        self.edge.deaf.discard(self)
        self._transport = None
        self._ended = True
        self._all_taken()
        self.state = State.CLOSED
        self._all_gone()
        self._drop()
        vars(self._machine).clear()  # it holds its own methods: break the ring

    def pause_writing(self) -> None:
        """It does not read its answers: then nothing more is read from it either."""
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
        stream = Stream(self, event.stream_id, event.stream_ended is not None)
        self._streams[stream.id] = stream
        self.edge.connections.add(stream)
        if self.edge.full:
            stream.refuse(too_many(self.edge.limits.max_connections))
        else:
            stream.take_head(cast(Any, event.headers))

    def _received(self, event: DataReceived) -> None:
        self._machine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.take_body(event.data)

    def _completed(self, event: StreamEnded) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.take_end()

    def _was_reset(self, event: StreamReset) -> None:
        if not event.remote_reset:  # the library has, for something the client did
            self._frames.spend()
        stream = self._forget(event.stream_id)
        if stream is not None:
            stream.gone()

    def _window_updated(self, event: WindowUpdated) -> None:
        if event.stream_id == 0:
            self._pushing = True
        elif event.stream_id in self._blocked:
            self.send_body(self._blocked[event.stream_id])

    def _terminated(self, event: ConnectionTerminated) -> None:
        """It has said good-bye, and the library sends nothing after that."""
        self._all_gone()
        self._end(None)

    # ---- what the streams say ----------------------------------------------------------------------------

    def send_head(self, stream: Stream, fields: list[tuple[bytes, bytes]], *, last: bool) -> None:
        try:
            self._machine.send_headers(stream.id, fields, end_stream=last)
        except ProtocolError:  # it was reset, of which we are about to hear
            self._lost(stream)
        else:
            self._flush_soon()

    def send_body(self, stream: Stream) -> None:
        """As much as the windows and one turn allow; the rest when they open, or in another turn."""
        machine, unsent, sent = self._machine, stream.unsent, 0
        self._tenant = stream.tenant
        try:
            while unsent and sent < AT_ONCE:
                window = 0 if self._paused else machine.local_flow_control_window(stream.id)
                size = min(len(unsent), window, machine.max_outbound_frame_size)
                if size <= 0:
                    break
                machine.send_data(stream.id, bytes(unsent[:size]), end_stream=size == len(unsent))
                unsent = unsent[size:]
                sent += size
                self._ready += size
                self._frames.earn()
                if self._ready >= PIECE:
                    self._flush()
        except ProtocolError:
            self._lost(stream)
            return
        stream.unsent = unsent
        self._flush_soon()
        if unsent:
            self._blocked[stream.id] = stream
            stream.wait(turn=sent >= AT_ONCE and not self._paused)
        elif stream.state != State.CLOSED:
            self._answered(stream)

    def _windows_changed(self, _: Event) -> None:
        self._pushing = True

    def push(self) -> None:
        """Once for all that one read has brought: as many streams may wait as windows are moved."""
        self._pushing = False
        for stream in list(self._blocked.values()):
            stream.push()

    def _answered(self, stream: Stream) -> None:
        self._frames.earn()
        self._forget(stream.id)
        stream.state = State.CLOSED
        if not stream.complete:  # it need not send the rest
            self._reset(stream, ErrorCodes.NO_ERROR)
        if self.edge.closing:
            self.retire()
        self._look()

    def reset(self, stream: Stream) -> None:
        if self._forget(stream.id) is not None:
            stream.gone()
            self._reset(stream, ErrorCodes.CANCEL)
            self._look()

    def _reset(self, stream: Stream, code: ErrorCodes) -> None:
        with suppress(ProtocolError):  # it has ended by itself, of which we are about to hear
            self._machine.reset_stream(stream.id, code)
        self._flush_soon()

    def _lost(self, stream: Stream) -> None:
        self._forget(stream.id)
        stream.gone()
        self._look()

    def _forget(self, number: int) -> Stream | None:
        self._blocked.pop(number, None)
        stream = self._streams.pop(number, None)
        if stream is not None:
            self.edge.connections.discard(stream)
            stream.all_taken()
        return stream

    def _all_gone(self) -> None:
        for number in list(self._streams):
            stream = self._forget(number)
            if stream is not None:
                stream.gone()

    # ---- bytes -------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """One write for all the answers of a batch."""
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._ready = 0
        transport = self._transport
        if transport is not None and not self._ended:
            data = self._machine.data_to_send()
            if data:
                transport.write(data)
                if self._paused and self._unsent is None:
                    size = transport.get_write_buffer_size()
                    self._unsent = Unsent(self.edge, self, self._tenant, memoryview(b""), size)

    def _all_taken(self) -> None:
        unsent, self._unsent = self._unsent, None
        if unsent is not None:
            unsent.release()

    # ---- states, and the end -----------------------------------------------------------------------------

    def _look(self) -> None:
        """Where it stands now. A stream has its own time; what is limited here is a connection without any."""
        if self._ended:
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
        """Says that the server is about to stop, unless somebody waits for an answer; then it is said after it."""
        if not self._leaving and not self._ended and self._frames.begun and not self._streams:
            self._leaving = True
            self._flush()
            if self._transport is not None:
                self._transport.write(GOING_AWAY)
            self._look()

    def _end(self, code: ErrorCodes | None) -> None:
        """With GOAWAY and this code, where the library has not said it already; open streams are given up."""
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

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


_HANDLERS: dict[type[Event], Callable[[Http2Connection, Any], None]] = {
    RequestReceived: Http2Connection._requested,
    DataReceived: Http2Connection._received,
    StreamEnded: Http2Connection._completed,
    StreamReset: Http2Connection._was_reset,
    WindowUpdated: Http2Connection._window_updated,
    RemoteSettingsChanged: Http2Connection._windows_changed,
    ConnectionTerminated: Http2Connection._terminated,
}
