"""Our own state machine of HTTP/2, frame by frame: what a client may not send ends its connection with the
right code. That it serves honest clients as the libraries do is told by `test_http2_library.py`."""

import struct
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamReset as ClientReset
from hpack import Encoder

from penstock.edge.http2_library import (
    DataReceived,
    ErrorCodes,
    ProtocolError,
    RequestReceived,
    SettingCodes,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from penstock.edge.http2_machine import MAGIC, Machine
from penstock.edge.http2_saying import frame
from penstock.edge.http2_sending import SETTINGS

DATA, HEADERS, PRIORITY, RESET, SET, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, HAS_PRIORITY = 1, 4, 8, 32
ASK = [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "b")]


def begun() -> Machine:
    machine = Machine(SETTINGS)
    machine.initiate_connection()
    machine.data_to_send()
    machine.receive_data(MAGIC + frame(SET, 0, 0, b""))
    machine.data_to_send()
    return machine


def head(fields: Any = ASK) -> bytes:
    return Encoder().encode(fields, huffman=False)


def opened(flags: int = END_HEADERS, stream: int = 1, fields: Any = ASK) -> bytes:
    return frame(HEADERS, flags, stream, head(fields))


def code_of(machine: Machine, said: bytes) -> ErrorCodes:
    """The code with which these bytes end the connection."""
    with pytest.raises(ProtocolError):
        machine.receive_data(said)
    sent = machine.data_to_send()
    at = sent.rindex(bytes((GOAWAY, 0, 0, 0, 0, 0)))
    return ErrorCodes(struct.unpack(">I", sent[at + 10 : at + 14])[0])


def kinds(events: Any) -> list[type]:
    return [type(event) for event in events]


def test_a_request_comes_as_its_head_its_data_and_its_end() -> None:
    machine = begun()
    events: Any = machine.receive_data(opened() + frame(DATA, END_STREAM, 1, b"body"))
    assert kinds(events) == [RequestReceived, DataReceived, StreamEnded]
    assert [tuple(field[:2]) for field in events[0].headers][:2] == [
        (b":method", b"POST"),
        (b":scheme", b"http"),
    ]
    assert (events[1].data, events[1].flow_controlled_length) == (b"body", 4)
    alone = machine.receive_data(opened(END_HEADERS | END_STREAM, 3))
    assert kinds(alone) == [RequestReceived, StreamEnded]


def test_bytes_may_come_one_by_one() -> None:
    machine = Machine(SETTINGS)
    said = MAGIC + opened(0)[:-1] + opened(0)[-1:] + frame(CONTINUATION, END_HEADERS, 1, b"")
    said += frame(DATA, PADDED, 1, b"\2ab\0\0") + frame(99, 0, 0, b"unknown")
    events: Any = [event for at in range(len(said)) for event in machine.receive_data(said[at : at + 1])]
    assert kinds(events) == [RequestReceived, DataReceived]
    assert (events[1].data, events[1].flow_controlled_length) == (b"ab", 5)


def test_a_priority_before_a_head_is_passed_over() -> None:
    block = struct.pack(">IB", 0, 16) + head()
    assert kinds(begun().receive_data(frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, block))) == [
        RequestReceived
    ]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (frame(DATA, 0, 0, b"a"), ErrorCodes.PROTOCOL_ERROR),
        (frame(DATA, 0, 1, b"a"), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 2, head()), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 0, head()), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + head()), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, b"\0\0\0\1\0"), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, b"\0"), ErrorCodes.PROTOCOL_ERROR),
        (frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff"), ErrorCodes.COMPRESSION_ERROR),
        (frame(CONTINUATION, END_HEADERS, 1, head()), ErrorCodes.PROTOCOL_ERROR),
        (opened(0) + frame(PING, 0, 0, bytes(8)), ErrorCodes.PROTOCOL_ERROR),
        (opened(0) + frame(CONTINUATION, END_HEADERS, 3, b""), ErrorCodes.PROTOCOL_ERROR),
        (opened() + opened(), ErrorCodes.PROTOCOL_ERROR),
        (frame(PRIORITY, 0, 0, bytes(5)), ErrorCodes.PROTOCOL_ERROR),
        (frame(RESET, 0, 1, bytes(4)), ErrorCodes.PROTOCOL_ERROR),
        (opened() + frame(RESET, 0, 1, bytes(3)), ErrorCodes.FRAME_SIZE_ERROR),
        (frame(SET, 0, 1, b""), ErrorCodes.PROTOCOL_ERROR),
        (frame(SET, 0, 0, bytes(5)), ErrorCodes.FRAME_SIZE_ERROR),
        (frame(SET, 1, 0, bytes(6)), ErrorCodes.FRAME_SIZE_ERROR),
        (frame(SET, 0, 0, struct.pack(">HI", 2, 2)), ErrorCodes.PROTOCOL_ERROR),
        (frame(SET, 0, 0, struct.pack(">HI", 5, 1)), ErrorCodes.PROTOCOL_ERROR),
        (frame(SET, 0, 0, struct.pack(">HI", 4, 2**31)), ErrorCodes.FLOW_CONTROL_ERROR),
        (frame(PUSH, 0, 1, bytes(8)), ErrorCodes.PROTOCOL_ERROR),
        (frame(PING, 0, 1, bytes(8)), ErrorCodes.PROTOCOL_ERROR),
        (frame(PING, 0, 0, bytes(7)), ErrorCodes.FRAME_SIZE_ERROR),
        (frame(GOAWAY, 0, 1, bytes(8)), ErrorCodes.PROTOCOL_ERROR),
        (frame(WINDOW, 0, 0, bytes(4)), ErrorCodes.PROTOCOL_ERROR),
        (frame(WINDOW, 0, 0, bytes(3)), ErrorCodes.FRAME_SIZE_ERROR),
        (frame(WINDOW, 0, 1, struct.pack(">I", 1)), ErrorCodes.PROTOCOL_ERROR),
        (frame(WINDOW, 0, 0, struct.pack(">I", 2**31 - 1)), ErrorCodes.FLOW_CONTROL_ERROR),
        (opened() + frame(WINDOW, 0, 1, struct.pack(">I", 2**31 - 1)), ErrorCodes.FLOW_CONTROL_ERROR),
    ],
)  # fmt: skip
def test_what_breaks_the_protocol_ends_the_connection(said: bytes, code: ErrorCodes) -> None:
    assert code_of(begun(), said) is code


def test_what_does_not_begin_as_http_2_does_is_none() -> None:
    assert code_of(Machine(SETTINGS), b"GET / HTTP/1.1\r\n\r\n") is ErrorCodes.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "fields",
    [
        ASK[1:],
        [*ASK, (":path", "/b")],
        [*ASK, (":status", "200")],
        [("a", "b"), *ASK],
        [*ASK, ("A", "b")],
        [*ASK, ("a b", "b")],
        [*ASK, ("", "b")],
        [*ASK, ("a", "b\nc: d")],
        [*ASK, ("a", " b")],
        [*ASK, ("connection", "close")],
        [*ASK, ("transfer-encoding", "chunked")],
        [*ASK, ("te", "gzip")],
    ],
)
def test_a_head_that_no_request_may_have_ends_the_connection(fields: Any) -> None:
    assert code_of(begun(), opened(fields=fields)) is ErrorCodes.PROTOCOL_ERROR
    assert kinds(begun().receive_data(opened(fields=[*ASK, ("te", "trailers")]))) == [RequestReceived]


def test_more_than_the_windows_is_refused() -> None:
    machine = begun()
    machine.receive_data(opened())
    piece = frame(DATA, 0, 1, bytes(16_384))
    for _ in range(3):
        machine.receive_data(piece)
    assert code_of(machine, piece) is ErrorCodes.FLOW_CONTROL_ERROR


def test_windows_open_again_when_a_part_of_them_is_used_up() -> None:
    machine = begun()
    machine.increment_flow_control_window(4 * 2**20 - 65_535)
    machine.receive_data(opened())
    machine.data_to_send()
    opened_by = 0
    for _ in range(200):  # more than either window
        machine.receive_data(frame(DATA, 0, 1, bytes(16_384)))
        machine.acknowledge_received_data(16_384, 1)
        opened_by += machine.data_to_send().count(bytes((0, 0, 4, WINDOW)))
    assert opened_by == 200 * 16_384 // (2**20 // 4) + 200 * 16_384 // 2**20


def test_frames_for_a_stream_that_is_over_are_told_of_and_harm_nothing() -> None:
    machine = begun()
    machine.receive_data(opened())
    machine.reset_stream(1, ErrorCodes.CANCEL)
    late: Any = machine.receive_data(frame(DATA, 0, 1, b"late") + opened(END_HEADERS | END_STREAM))
    assert kinds(late) == [StreamReset, StreamReset]
    assert not any(event.remote_reset for event in late)
    quiet = (
        frame(WINDOW, 0, 1, struct.pack(">I", 9))
        + frame(RESET, 0, 1, bytes(4))
        + frame(PRIORITY, 0, 1, bytes(5))
    )
    assert machine.receive_data(quiet) == []
    with pytest.raises(ProtocolError):
        machine.send_data(1, b"a")
    with pytest.raises(ProtocolError):
        machine.reset_stream(1, ErrorCodes.CANCEL)


def test_fields_after_a_body_end_it() -> None:
    machine = begun()
    machine.receive_data(opened())
    assert kinds(machine.receive_data(opened(END_HEADERS | END_STREAM, fields=[("a", "b")]))) == [StreamEnded]


def test_one_stream_more_than_there_may_be_is_refused_alone() -> None:
    machine = begun()
    most = SETTINGS[SettingCodes.MAX_CONCURRENT_STREAMS]
    for number in range(most):
        assert kinds(machine.receive_data(opened(stream=2 * number + 1))) == [RequestReceived]
    machine.data_to_send()
    assert kinds(machine.receive_data(opened(stream=2 * most + 1))) == [StreamReset]
    assert machine.data_to_send() == frame(
        RESET, 0, 2 * most + 1, struct.pack(">I", ErrorCodes.REFUSED_STREAM)
    )
    machine.reset_stream(1, ErrorCodes.CANCEL)
    assert kinds(machine.receive_data(opened(stream=2 * most + 3))) == [RequestReceived]


def test_answers_are_read_by_a_client_and_keep_to_its_windows() -> None:
    client = H2Connection(H2Configuration(header_encoding=None))
    client.initiate_connection()
    client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    asked = [(name.encode(), value.encode()) for name, value in ASK]
    client.send_headers(1, asked, end_stream=True)
    machine = Machine(SETTINGS)
    machine.initiate_connection()
    machine.receive_data(client.data_to_send())
    assert machine.local_flow_control_window(1) == 10
    with pytest.raises(ProtocolError):
        machine.send_data(1, bytes(11))
    large = [(b":status", b"200"), *((b"x-%d" % number, b"y" * 1000) for number in range(40))]
    machine.send_headers(1, large)
    machine.send_data(1, bytes(10))
    client.receive_data(machine.data_to_send())
    client.increment_flow_control_window(5, 1)
    assert kinds(machine.receive_data(client.data_to_send()))[-1] is WindowUpdated
    assert machine.local_flow_control_window(1) == 5
    machine.send_data(1, b"last!", end_stream=True)
    events = client.receive_data(machine.data_to_send())
    assert b"".join(getattr(event, "data", b"") or b"" for event in events) == b"last!"
    assert not any(isinstance(event, ClientReset) for event in events)
