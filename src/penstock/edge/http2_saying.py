"""What our own machine of HTTP/2 sends: frames, and the windows that bound them. The base class of
`http2_machine.Machine`, which reads what comes."""

import struct
from collections.abc import Mapping, Sequence

from penstock.edge.http2_frames import MOST_FRAME, Flag, Kind
from penstock.edge.http2_heads import Encoder, encodable
from penstock.edge.http2_library import ErrorCodes, ProtocolError, SettingCodes

FIRST_WINDOW = 65_535  # bytes that either side may send, on a stream and in all, unless it is told more
# Kinds of frames that say something of a stream or the connection.
RESET, SETTINGS, PING, GOAWAY, WINDOW = 3, 4, 6, 7, 8
PART = 4  # a window is opened again when this part of it is used up

four = struct.Struct(">I").pack
setting = struct.Struct(">HI")


class Flow:
    """The windows of one stream."""

    __slots__ = ("ended", "incoming", "outgoing", "over", "owed")

    def __init__(self, incoming: int, outgoing: int, ended: bool) -> None:
        self.incoming = incoming  # bytes that the client may send
        self.outgoing = outgoing  # bytes that we may send
        self.owed = 0  # bytes that have come and by which the window is not open again
        self.ended = ended  # the client has sent all of its request
        self.over = False  # we have sent all of our answer


def frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return b"%b%c%c%b%b" % (len(content).to_bytes(3, "big"), kind, flags, four(stream), content)


class Saying:
    """What we send on one connection."""

    def __init__(self, settings: Mapping[SettingCodes, int]) -> None:
        self._settings = settings
        self._window = settings[SettingCodes.INITIAL_WINDOW_SIZE]  # of each stream, towards us
        self._encoder = Encoder()
        self._out = list[bytes]()
        self._flows: dict[int, Flow] = {}
        self._newest = 0  # the last stream that the client has begun
        self._incoming = self._outgoing = FIRST_WINDOW
        self._whole = FIRST_WINDOW  # of the connection, towards us, when it is open
        self._owed = 0
        self.max_outbound_frame_size = MOST_FRAME  # a client may allow more, which would not help us

    def initiate_connection(self) -> None:
        said = b"".join(setting.pack(int(code), value) for code, value in self._settings.items())
        self._out.append(frame(SETTINGS, 0, 0, said))

    def increment_flow_control_window(self, size: int) -> None:
        self._incoming += size
        self._whole += size
        self._out.append(frame(WINDOW, 0, 0, four(size)))

    def data_to_send(self) -> bytes:
        if not self._out:
            return b""
        said = b"".join(self._out)
        self._out.clear()
        return said

    def send_headers(
        self, stream: int, fields: Sequence[tuple[bytes, bytes]], *, end_stream: bool = False
    ) -> None:
        flow = self._open(stream)
        block, most = self._encoder.encode(encodable(fields)), self.max_outbound_frame_size
        flags = Flag.END_STREAM if end_stream else 0
        if len(block) <= most:
            self._out.append(frame(Kind.HEADERS, flags | Flag.END_HEADERS, stream, block))
        else:
            self._out.append(frame(Kind.HEADERS, flags, stream, block[:most]))
            for at in range(most, len(block), most):
                last = Flag.END_HEADERS if at + most >= len(block) else 0
                self._out.append(frame(Kind.CONTINUATION, last, stream, block[at : at + most]))
        if end_stream:
            self._sent_all(stream, flow)

    def send_data(self, stream: int, data: bytes, *, end_stream: bool = False) -> None:
        flow = self._open(stream)
        size = len(data)
        if size > min(flow.outgoing, self._outgoing):
            raise ProtocolError("more than the client's window")
        flow.outgoing -= size
        self._outgoing -= size
        self._out.append(frame(Kind.DATA, Flag.END_STREAM if end_stream else 0, stream, data))
        if end_stream:
            self._sent_all(stream, flow)

    def local_flow_control_window(self, stream: int) -> int:
        return min(self._open(stream).outgoing, self._outgoing)

    def _open(self, stream: int) -> Flow:
        flow = self._flows.get(stream)
        if flow is None or flow.over:
            raise ProtocolError(f"stream {stream} is over")
        return flow

    def _sent_all(self, stream: int, flow: Flow) -> None:
        flow.over = True
        if flow.ended:
            del self._flows[stream]

    def reset_stream(self, stream: int, code: ErrorCodes) -> None:
        if self._flows.pop(stream, None) is None:
            raise ProtocolError(f"stream {stream} is over")
        self._out.append(frame(RESET, 0, stream, four(int(code))))

    def close_connection(self, code: ErrorCodes) -> None:
        self._out.append(frame(GOAWAY, 0, 0, four(self._newest) + four(int(code))))

    def ping(self, content: bytes) -> None:
        self._out.append(frame(PING, 0, 0, content))

    def acknowledge_received_data(self, size: int, stream: int) -> None:
        """Open the windows again by so many bytes; the client is told when a quarter of one is used up."""
        self.open_connection(size)
        self.open_stream(size, stream)

    def open_connection(self, size: int) -> None:
        self._owed += size
        if self._owed >= self._whole // PART:
            self._out.append(frame(WINDOW, 0, 0, four(self._owed)))
            self._incoming += self._owed
            self._owed = 0

    def open_stream(self, size: int, stream: int) -> None:
        flow = self._flows.get(stream)
        if flow is not None and not flow.ended:
            flow.owed += size
            if flow.owed >= self._window // PART:
                self._out.append(frame(WINDOW, 0, stream, four(flow.owed)))
                flow.incoming += flow.owed
                flow.owed = 0
