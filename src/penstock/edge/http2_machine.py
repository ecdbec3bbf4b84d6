"""The frames of one HTTP/2 connection, at a quarter of what a library takes: for gRPC, where each call is five
frames. It has the part of jh2's interface that our connections use, and its compression of heads, whose core is
compiled. `http2_sending.py` makes one where jh2 is installed; elsewhere h2 does the same.

It knows no I/O and decides nothing: `receive_data` returns events, and `data_to_send` what is to be written. A
client that breaks the protocol gets GOAWAY, and ProtocolError is raised. What a client may send, how much and
how often, is bounded before it comes here (`http2_frames.py`).
"""

import struct
from collections.abc import Mapping
from typing import Any

from penstock.edge.http2_frames import HEAD, MOST_FRAME, PREFACE, Flag, Kind
from penstock.edge.http2_heads import Decoder, TooLargeHead, Unreadable, check_request, read
from penstock.edge.http2_library import (
    ConnectionTerminated,
    DataReceived,
    ErrorCodes,
    Event,
    ProtocolError,
    RemoteSettingsChanged,
    RequestReceived,
    SettingCodes,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from penstock.edge.http2_saying import (
    FIRST_WINDOW,
    GOAWAY,
    PING,
    RESET,
    SETTINGS,
    WINDOW,
    Flow,
    Saying,
    four,
    frame,
    setting,
)

MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LARGEST_WINDOW = 2**31 - 1
PRIORITY, PUSH = 2, 5  # further kinds of frames
HAS_PRIORITY = 0x20
ACK = 0x1
ACKNOWLEDGED = bytes.fromhex("000000 04 01 00000000")  # SETTINGS that answers SETTINGS

_head = struct.Struct(">I").unpack_from


class Machine(Saying):
    """One connection, of the server's side."""

    goes_on = True  # streams go on after the client's GOAWAY

    def __init__(self, settings: Mapping[SettingCodes, int]) -> None:
        super().__init__(settings)
        self._most = settings[SettingCodes.MAX_CONCURRENT_STREAMS]
        self._decoder = Decoder()
        self._decoder.max_header_list_size = settings[SettingCodes.MAX_HEADER_LIST_SIZE]
        self._begun = False  # whether the client's first words have come
        self._parting = False  # whether the client has said that it begins no more streams
        self._came = b""
        self._head: tuple[int, int, list[bytes]] | None = (
            None  # stream, flags and blocks of an unfinished head
        )
        self._their_window = FIRST_WINDOW  # of each stream, towards the client

    def receive_data(self, data: "bytes | memoryview") -> list[Event]:
        came = b"".join((self._came, data))
        events, at, end = list[Event](), 0, len(came)
        if not self._begun:
            if came[:PREFACE] != MAGIC[:end]:
                raise self._broken("it does not begin as HTTP/2 does")
            if end < PREFACE:
                self._came = came
                return events
            self._begun, at = True, PREFACE
        while end - at >= HEAD:
            length = _head(came, at)[0] >> 8
            begin = at + HEAD
            if end - begin < length:
                break
            kind, flags = came[at + 3], came[at + 4]
            stream = _head(came, at + 5)[0] & 0x7FFFFFFF
            at = begin + length
            self._take(kind, flags, stream, came[begin:at], events)
        self._came = came[at:]
        return events

    def _take(self, kind: int, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        if self._head is not None and kind != Kind.CONTINUATION:
            raise self._broken("a head was not finished")
        if kind == Kind.DATA:
            self._data(flags, stream, content, events)
        elif kind == Kind.HEADERS:
            self._headers(flags, stream, content, events)
        elif kind == WINDOW:
            self._window_opened(stream, content, events)
        else:
            taker = _TAKERS.get(kind)  # a frame of an unknown kind is passed over
            if taker is not None:
                taker(self, flags, stream, content, events)

    def _broken(self, why: str, code: ErrorCodes = ErrorCodes.PROTOCOL_ERROR) -> ProtocolError:
        """Tell the client that it has broken the protocol. Returns the error to raise."""
        self.close_connection(code)
        return ProtocolError(why)

    def _unpadded(self, flags: int, content: bytes) -> bytes:
        if not flags & Flag.PADDED:
            return content
        if not content or content[0] >= len(content):
            raise self._broken("more padding than there is room")
        return content[1 : len(content) - content[0]]

    def _data(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        size = len(content)
        if not stream or stream > self._newest:
            raise self._broken("data for no stream")
        self._incoming -= size
        flow = self._flows.get(stream)
        if self._incoming < 0 or (flow is not None and flow.incoming < size):
            raise self._broken("more than the window", ErrorCodes.FLOW_CONTROL_ERROR)
        if flow is None or flow.ended:  # it was reset, or the client goes on after its end
            self.open_connection(size)
            self._late(stream, events)
            return
        flow.incoming -= size
        event = DataReceived.__new__(DataReceived)
        event.stream_id, event.data, event.flow_controlled_length = (
            stream,
            self._unpadded(flags, content),
            size,
        )
        events.append(event)
        if flags & Flag.END_STREAM:
            self._ended(stream, flow, events)

    def _ended(self, stream: int, flow: Flow, events: list[Event]) -> None:
        flow.ended = True
        if flow.over:
            del self._flows[stream]
        event = StreamEnded.__new__(StreamEnded)
        event.stream_id = stream
        events.append(event)

    def _late(self, stream: int, events: list[Event]) -> None:
        """Note a frame for a stream that is over."""
        event = StreamReset.__new__(StreamReset)
        event.stream_id, event.remote_reset, event.error_code = stream, False, ErrorCodes.STREAM_CLOSED
        events.append(event)

    # ---- heads ---------------------------------------------------------------------------------------------

    def _headers(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        if not stream % 2:
            raise self._broken("a stream's number is even")
        block = self._unpadded(flags, content)
        if flags & HAS_PRIORITY:
            if len(block) < 5 or _head(block)[0] & 0x7FFFFFFF == stream:
                raise self._broken("a priority that cannot be")
            block = block[5:]
        if flags & Flag.END_HEADERS:
            self._whole_head(flags, stream, block, events)
        else:
            self._head = (stream, flags, [block])

    def _continuation(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        if self._head is None or self._head[0] != stream:
            raise self._broken("the rest of no head")
        _, first, blocks = self._head
        blocks.append(content)
        if flags & Flag.END_HEADERS:
            self._head = None
            self._whole_head(first, stream, b"".join(blocks), events)

    def _whole_head(self, flags: int, stream: int, block: bytes, events: list[Event]) -> None:
        try:
            fields = read(self._decoder, block)
        except TooLargeHead:
            raise self._broken("a head is too large", ErrorCodes.ENHANCE_YOUR_CALM) from None
        except Unreadable:
            raise self._broken("a head cannot be read", ErrorCodes.COMPRESSION_ERROR) from None
        ends, flow = bool(flags & Flag.END_STREAM), self._flows.get(stream)
        if stream <= self._newest:
            if flow is None or flow.ended:
                self._late(stream, events)
            elif not ends:
                raise self._broken("a second head that is no end")
            else:
                self._ended(stream, flow, events)  # fields after a body mean nothing to us
            return
        self._newest = stream
        if not check_request(fields):
            raise self._broken("a head that no request may have")
        if len(self._flows) >= self._most or self._parting:
            self._out.append(frame(RESET, 0, stream, four(int(ErrorCodes.REFUSED_STREAM))))
            self._late(stream, events)
            return
        self._flows[stream] = Flow(self._window, self._their_window, ends)
        event = RequestReceived.__new__(RequestReceived)
        event.stream_id, event.headers = stream, list[Any](fields)
        ended = None
        if ends:
            ended = StreamEnded.__new__(StreamEnded)
            ended.stream_id = stream
        event.stream_ended = ended
        events.append(event)
        if ended is not None:
            events.append(ended)

    # ---- what controls the connection ----------------------------------------------------------------------

    def _window_opened(self, stream: int, content: bytes, events: list[Event]) -> None:
        if len(content) != 4:
            raise self._broken("a window of a strange size", ErrorCodes.FRAME_SIZE_ERROR)
        size = _head(content)[0] & LARGEST_WINDOW
        flow = self._flows.get(stream) if stream else None
        if not size or stream > self._newest:
            raise self._broken("a window that is opened by nothing, or of no stream")
        if not stream:
            self._outgoing += size
        elif flow is None:
            return
        else:
            flow.outgoing += size
        if max(self._outgoing, 0 if flow is None else flow.outgoing) > LARGEST_WINDOW:
            raise self._broken("a window that is too large", ErrorCodes.FLOW_CONTROL_ERROR)
        event = WindowUpdated.__new__(WindowUpdated)
        event.stream_id, event.delta = stream, size
        events.append(event)

    def _reset(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        if len(content) != 4:
            raise self._broken("a reset of a strange size", ErrorCodes.FRAME_SIZE_ERROR)
        if not stream or stream > self._newest:
            raise self._broken("a reset of no stream")
        if self._flows.pop(stream, None) is not None:
            event = StreamReset.__new__(StreamReset)
            event.stream_id, event.remote_reset, event.error_code = stream, True, _head(content)[0]
            events.append(event)

    def _set(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        if stream or len(content) % 6 or (flags & ACK and content):
            code = ErrorCodes.PROTOCOL_ERROR if stream else ErrorCodes.FRAME_SIZE_ERROR
            raise self._broken("settings that cannot be", code)
        if flags & ACK:
            return
        for code, value in setting.iter_unpack(content):
            if code == SettingCodes.INITIAL_WINDOW_SIZE:
                self._their_windows(value)
            elif code == SettingCodes.MAX_FRAME_SIZE:
                if not MOST_FRAME <= value < 2**24:
                    raise self._broken("a frame's size that cannot be")
            elif code == SettingCodes.HEADER_TABLE_SIZE:
                self._encoder.header_table_size = min(value, 4096)
            elif code == SettingCodes.ENABLE_PUSH and value > 1:
                raise self._broken("a setting that cannot be")
        self._out.append(ACKNOWLEDGED)
        events.append(RemoteSettingsChanged.__new__(RemoteSettingsChanged))

    def _their_windows(self, size: int) -> None:
        if size > LARGEST_WINDOW:
            raise self._broken("a window that is too large", ErrorCodes.FLOW_CONTROL_ERROR)
        more, self._their_window = size - self._their_window, size
        for flow in self._flows.values():
            flow.outgoing += more
            if flow.outgoing > LARGEST_WINDOW:
                raise self._broken("a window that is too large", ErrorCodes.FLOW_CONTROL_ERROR)

    def _ping(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        if stream or len(content) != 8:
            code = ErrorCodes.PROTOCOL_ERROR if stream else ErrorCodes.FRAME_SIZE_ERROR
            raise self._broken("a ping that cannot be", code)
        if not flags & ACK:
            self._out.append(frame(PING, ACK, 0, content))

    def _going_away(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        if stream or len(content) < 8:
            raise self._broken("a farewell that cannot be")
        self._parting = True
        event = ConnectionTerminated.__new__(ConnectionTerminated)
        event.error_code = _head(content, 4)[0]
        events.append(event)

    def _pushed(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        raise self._broken("a client pushes nothing")

    def _priority(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        if not stream:
            raise self._broken("a priority of no stream")


_TAKERS: dict[int, Any] = {
    Kind.CONTINUATION: Machine._continuation,
    RESET: Machine._reset,
    SETTINGS: Machine._set,
    PUSH: Machine._pushed,
    PING: Machine._ping,
    GOAWAY: Machine._going_away,
    PRIORITY: Machine._priority,
}
