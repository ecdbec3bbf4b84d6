"""Sends answers on one HTTP/2 connection, as far as windows and turns allow. The base class of
`http2.Http2Connection`; `http2_stream.py` calls it.

All answers of one turn of the loop are written at once. An answer whose client does not open its window waits, and
holds up no other.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from penstock.edge.bounds import State
from penstock.edge.http2_frames import MOST_HEAD, FrameWatch
from penstock.edge.http2_library import (
    ErrorCodes,
    H2Configuration,
    H2Connection,
    ProtocolError,
    SettingCodes,
    Settings,
)
from penstock.edge.http2_stream import Stream
from penstock.edge.unsent import AT_ONCE, PIECE, Unsent

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

MOST_STREAMS = 256  # on one connection
STREAM_WINDOW = 2**20  # bytes of one request that may be under way to us
CONNECTION_WINDOW = 4 * 2**20  # bytes of all requests of a connection that may be under way to us
# The settings that a client is told.
SETTINGS = {
    SettingCodes.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
    SettingCodes.MAX_HEADER_LIST_SIZE: MOST_HEAD,
    SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
}
# The settings of the library. Our own headers are in lower case already; those of clients are checked.
CONFIG = H2Configuration(
    client_side=False, header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False
)


class _Machine(H2Connection):
    MAX_CLOSED_STREAMS = 1024  # closed streams that are remembered
    goes_on = False  # whether streams go on after the client's GOAWAY

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.local_settings = Settings(client=False, initial_values=cast(Any, SETTINGS))

    def open_connection(self, size: int) -> None:
        """Open the connection's window again by so many bytes, and no stream's."""
        if size:
            self.increment_flow_control_window(size)

    def open_stream(self, size: int, stream: int) -> None:
        """Open a stream's window again by so many bytes, and not the connection's."""
        with suppress(ProtocolError):  # the client needs it no more
            self.increment_flow_control_window(size, stream)


def lighter_machine() -> Any:
    """Returns what makes our own state machine, or the library's where jh2 is not installed."""
    try:
        from penstock.edge.http2_machine import Machine
    except ImportError:
        return _Machine
    return partial(Machine, SETTINGS)


class Sending(asyncio.Protocol):
    """The answers of one connection, and the state machine."""

    # Makes the state machine of each new connection. A connection of gRPC has a lighter one (`grpc.py`).
    machine: Callable[[], Any] = _Machine

    def __init__(self, edge: "Edge") -> None:
        self.edge = edge
        self._machine = type(self).machine()
        self._frames = FrameWatch(edge.clock())
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        # Streams that wait for their client's window, or for the client to read.
        self._blocked: dict[int, Stream] = {}
        self._paused = self._flushing = self._pushing = self._ended = False
        self._ready = 0  # bytes of answers that the machine has, and the transport has not
        self._tenant = ""  # the tenant of the answer that was last written
        self._unsent: Unsent | None = None  # what the transport has, and the client does not take

    # ---- what the streams say ----------------------------------------------------------------------------

    def send_head(self, stream: Stream, fields: list[tuple[bytes, bytes]], *, last: bool) -> None:
        try:
            self._machine.send_headers(stream.id, fields, end_stream=last)
        except ProtocolError:  # the stream was reset, of which we are about to hear
            self._lost(stream)
        else:
            self._flush_soon()

    def send_body(self, stream: Stream) -> None:
        """Send as much of a body as the windows and one turn allow. The rest is sent when the windows open, or in
        another turn."""
        machine, unsent, sent = self._machine, stream.unsent, 0
        self._tenant = stream.tenant
        try:
            while unsent and sent < AT_ONCE:
                window = 0 if self._paused else machine.local_flow_control_window(stream.id)
                size = min(len(unsent), window, machine.max_outbound_frame_size)
                if size <= 0:
                    break
                ends = size == len(unsent) and stream.ends_with_body and not stream.more
                machine.send_data(stream.id, bytes(unsent[:size]), end_stream=ends)
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
            stream.body_sent()

    def not_blocked(self, stream: Stream) -> None:
        """Note that a stream that goes on has nothing to send now."""
        self._blocked.pop(stream.id, None)

    def send_later(self, stream: Stream) -> None:
        """Send a large body when it is its turn."""
        self._blocked[stream.id] = stream
        stream.wait(turn=True)

    def push(self) -> None:
        """Send on for all streams. Called once for each read, because one read can open the windows of all
        streams."""
        self._pushing = False
        for stream in list(self._blocked.values()):
            stream.push()

    def answered(self, stream: Stream) -> None:
        """Note that the last frame of an answer is sent."""
        self._frames.earn()
        self._forget(stream.id)
        stream.state = State.CLOSED
        if not stream.complete:  # the client need not send the rest
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
        with suppress(ProtocolError):  # the stream has ended by itself, of which we are about to hear
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
        """Write all the answers of a batch at once, soon."""
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

    # ---- what the connection says of itself --------------------------------------------------------------

    def _look(self) -> None:
        """Set the state of the connection."""
        raise NotImplementedError

    def retire(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
