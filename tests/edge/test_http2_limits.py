"""What HTTP/2 clients may not do, and how a connection ends; without sockets, in virtual time."""

import asyncio
import gc
import weakref
from collections.abc import Callable

import pytest
from h2.errors import ErrorCodes
from hpack import Encoder
from http2_kit import Line, line_to
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_kit import Client, EchoApp, edge_with, in_virtual_time, settle
from http2_client import Http2Client
from penstock.edge.http2 import Http2Connection
from penstock.edge.http2_frames import MOST_IDLE
from penstock.edge.http2_sending import MOST_STREAMS
from penstock.errors import BodyTooSlow, HeadTooLarge, Malformed, Overloaded, PenstockError, TooLarge
from penstock.testing import run_virtual

CALM = int(ErrorCodes.ENHANCE_YOUR_CALM)

# ---- one request too large, or too slow --------------------------------------------------------------------------


MANY = tuple((f"x-{number}", "y") for number in range(100))
REPEATED = tuple(("x", "y" * 100) for _ in range(90))


@pytest.mark.parametrize(
    ("headers", "body", "whole", "status", "kind"),
    [
        ((("content-length", "1001"),), b"x", False, 413, TooLarge),
        ((("content-length", "9" * 18),), b"x", False, 413, TooLarge),
        ((), b"x" * 1001, False, 413, TooLarge),
        ((), b"x" * 1001, True, 413, TooLarge),
        ((("content-length", "1"), ("content-length", "1")), b"x", True, 400, Malformed),
        (MANY, b"x", False, 431, HeadTooLarge),
        (MANY, b"x", True, 431, HeadTooLarge),
        (REPEATED, None, True, 431, HeadTooLarge),
    ],
)
@in_virtual_time
async def test_what_cannot_be_served_is_told_on_its_stream_and_the_others_go_on(
    headers: tuple[tuple[str, str], ...],
    body: bytes | None,
    whole: bool,
    status: int,
    kind: type[PenstockError],
) -> None:
    app = EchoApp()
    line = line_to(app, max_body=1000)
    heard = line.answer(line.ask("POST", "/", body, headers, whole=whole))
    assert (heard.status, heard.ended, heard.json()["error"]) == (status, True, kind.code)
    assert heard.reset == (None if whole else ErrorCodes.NO_ERROR)
    assert [type(exc) for exc in app.refused] == [kind]
    assert app.asked == []
    assert line.answer(line.get("/next")).status == 200


@in_virtual_time
async def test_what_a_refused_client_was_sending_does_not_use_up_the_window() -> None:
    line = line_to(max_body=1000)
    for _ in range(10):
        number = line.ask("POST", "/", b"x" * 900_000, whole=False)
        assert line.answer(number).status == 413
    assert line.answer(line.post("/", b"x")).status == 200


@in_virtual_time
async def test_a_body_that_does_not_come_is_refused_after_its_time_and_alone() -> None:
    app = EchoApp(at_once=False)
    line = line_to(app, body_seconds=5.0)
    patient = line.get("/patient")
    number = line.post("/", b"part", whole=False)
    await asyncio.sleep(4.9)
    assert line.answer(number).status == 0
    await asyncio.sleep(1.5)
    assert line.answer(number).status == 408
    assert [type(exc) for exc in app.refused] == [BodyTooSlow]
    app.asked[0].answer()
    assert line.answer(patient).status == 200


@in_virtual_time
async def test_streams_and_connections_are_bounded_together() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app, max_connections=3)
    line = Line(edge)
    first, second, third = (line.get(f"/{index}") for index in range(3))
    assert line.answer(third).status == 503
    assert [type(exc) for exc in app.refused] == [Overloaded]
    app.asked[0].answer()
    assert line.answer(first).status == 200
    assert line.answer(line.get("/more")).status == 0
    assert line.answer(second).status == 0
    assert len(app.asked) == 3


@in_virtual_time
async def test_more_streams_at_once_than_were_offered_end_the_connection() -> None:
    line = line_to(EchoApp(at_once=False))
    line.machine.remote_settings.update({3: 10_000})
    line.machine.remote_settings.acknowledge()
    for _ in range(MOST_STREAMS + 1):
        line.ask("GET", "/", headers=())
    line.talk()
    assert line.closed
    assert line.goaways == [int(ErrorCodes.PROTOCOL_ERROR)]


# ---- floods ------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_requests_that_are_taken_back_again_and_again_end_the_connection() -> None:
    """CVE-2023-44487: each costs its client next to nothing."""
    app = EchoApp(at_once=False)
    line = line_to(app)
    tries = 0
    while not line.closed:
        number = line.ask("GET", "/", headers=())
        line.talk()
        line.machine.reset_stream(number)
        line.talk()
        tries += 1
        assert tries < 2 * MOST_IDLE
    assert line.goaways == [CALM]
    assert tries > MOST_IDLE // 2
    assert all(asked.times_left == 1 for asked in app.asked)


@in_virtual_time
async def test_a_few_that_are_taken_back_among_many_do_not() -> None:
    line = line_to()
    for index in range(3 * MOST_IDLE):
        number = line.ask("GET", "/", headers=())
        if index % 3 == 0:
            line.machine.reset_stream(number)
        line.talk()
    assert not line.closed


FLOODS: dict[str, Callable[[int], Frame]] = {
    "pings": lambda _: PingFrame(0, opaque_data=b"x" * 8),
    "settings": lambda _: SettingsFrame(0),
    "priorities": lambda _: PriorityFrame(1, depends_on=0, stream_weight=1),
    "windows": lambda _: WindowUpdateFrame(0, window_increment=1),
    "empty pieces": lambda number: DataFrame(number, data=b""),
}


@pytest.mark.parametrize("kind", FLOODS)
@in_virtual_time
async def test_frames_that_ask_for_nothing_may_not_come_without_end(kind: str) -> None:
    line = line_to(EchoApp(at_once=False))
    number = line.post("/", b"part", whole=False)
    frame = FLOODS[kind](number).serialize()
    sent = 0
    while not line.closed:
        line.wire.send(frame * 10)
        sent += 10
        assert sent < 2 * MOST_IDLE
    line.talk()
    assert line.goaways == [CALM]


@in_virtual_time
async def test_a_ping_now_and_then_is_answered_for_ever() -> None:
    line = line_to(EchoApp(at_once=False), body_seconds=1e6)
    line.post("/", b"part", whole=False)
    for _ in range(2 * MOST_IDLE):
        line.machine.ping(b"x" * 8)
        line.talk()
        await asyncio.sleep(0.1)
    assert not line.closed


@in_virtual_time
async def test_a_frame_that_is_too_long_is_not_waited_for() -> None:
    line = line_to()
    line.wire.send((2**24 - 1).to_bytes(3, "big") + b"\x00\x00" + (1).to_bytes(4, "big"))
    line.talk()
    assert line.closed
    assert line.goaways == [CALM]


@pytest.mark.parametrize("size", [16_384, 0])
@in_virtual_time
async def test_a_head_without_end_is_cut_off(size: int) -> None:
    line = line_to()
    line.wire.send(HeadersFrame(1, data=b"\x00" * size).serialize())
    for _ in range(MOST_IDLE):
        if line.closed:
            break
        line.wire.send(ContinuationFrame(1, data=b"\x00" * size).serialize())
    line.talk()
    assert line.closed
    assert line.goaways[-1] in (CALM, int(ErrorCodes.PROTOCOL_ERROR))


@in_virtual_time
async def test_a_small_head_that_unpacks_to_a_large_one_ends_the_connection() -> None:
    line = line_to()
    number = line.ask("GET", "/", headers=(("x", "y" * 3000),))
    line.talk()
    assert line.answer(number).status == 200
    line.ask("GET", "/", headers=tuple(("x", "y" * 3000) for _ in range(100)))
    line.talk()
    assert line.closed
    assert line.goaways == [CALM]


@pytest.mark.parametrize(
    "words", [b"GET / HTTP/1.1\r\n\r\n" + b"x" * 20, b"\x00" * 64, Http2Client().outgoing() + b"\xff" * 20]
)
@in_virtual_time
async def test_what_is_not_http_2_ends_the_connection(words: bytes) -> None:
    app = EchoApp()
    wire = Client(edge_with(app), Http2Connection)
    wire.send(words)
    assert wire.closed
    assert app.asked == []


# ---- time --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [b"", b"PRI * HTTP/2.0\r\n"])
@in_virtual_time
async def test_a_client_that_does_not_begin_is_let_go_after_its_time(words: bytes) -> None:
    edge = edge_with(EchoApp(), head_seconds=5.0)
    wire = Client(edge, Http2Connection)
    wire.send(words)
    await asyncio.sleep(4.9)
    early = wire.closed
    await asyncio.sleep(1.5)
    assert (early, wire.closed) == (False, True)
    assert not edge.connections


@in_virtual_time
async def test_half_a_head_has_the_time_of_a_head_and_an_idle_connection_its_own() -> None:
    line = line_to(head_seconds=5.0, idle_seconds=75.0)
    line.get("/")
    await asyncio.sleep(70)
    line.ask("GET", "/", headers=())
    line.wire.send(line.outgoing()[:-5])
    await asyncio.sleep(4.9)
    early = line.closed
    await asyncio.sleep(1.5)
    line.talk()
    assert (early, line.closed, line.goaways) == (False, True, [int(ErrorCodes.NO_ERROR)])

    line = line_to(idle_seconds=75.0)
    line.get("/")
    await asyncio.sleep(77)
    line.talk()
    assert line.goaways == [int(ErrorCodes.NO_ERROR)]


# ---- draining ----------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_draining_server_answers_what_is_under_way_says_so_and_answers_what_was_sent_meanwhile() -> (
    None
):
    app = EchoApp(at_once=False)
    line = line_to(app, linger_seconds=2.0)
    line.get("/1")
    before = len(line.wire.received)
    line.edge.retire()
    app.asked[0].answer()
    await settle()
    late = line.ask("GET", "/2", headers=())  # the client has not heard it yet
    line.wire.send(line.outgoing())
    app.asked[1].answer()
    await settle()
    early = line.closed
    await asyncio.sleep(3.5)
    assert (early, line.closed) == (False, True)
    answer, goaway = ["HeadersFrame", "DataFrame"], ["GoAwayFrame"]
    said = line.wire.received[before:]
    assert frames_of(said) == answer + goaway + answer + goaway
    assert said.count(goaway_with(2**31 - 1)) == 1  # the first one takes back no stream
    assert said.endswith(goaway_with(late))


def goaway_with(number: int) -> bytes:
    """The body of one without an error, up to this stream."""
    return number.to_bytes(4, "big") + bytes(4)


def frames_of(data: bytes) -> list[str]:
    names = []
    while data:
        frame, length = Frame.parse_frame_header(memoryview(data[:9]))
        names.append(type(frame).__name__)
        data = data[9 + length :]
    return names


@in_virtual_time
async def test_a_connection_that_asks_nothing_is_let_go_when_the_server_closes() -> None:
    line = line_to()
    line.get("/")
    line.edge.finish()
    line.talk()
    assert line.closed
    assert line.goaways == [int(ErrorCodes.NO_ERROR)] * 2


@in_virtual_time
async def test_a_connection_that_is_ended_leaves_nothing_behind() -> None:
    edge = edge_with(EchoApp(at_once=False))
    line = Line(edge)
    line.get("/")
    edge.close()
    await settle()
    assert not edge.connections


@in_virtual_time
async def test_a_connection_that_is_gone_leaves_nothing_to_the_garbage_collector() -> None:
    gc.disable()
    try:
        app = EchoApp(at_once=False)
        line = line_to(app)
        alive = [weakref.ref(line.wire.connection), weakref.ref(line.wire.connection._machine)]
        line.get("/")
        line.wire.leave()
        await settle()
        del line
        app.asked.clear()
        assert [each() for each in alive] == [None, None]
    finally:
        gc.enable()


# ---- whatever comes ----------------------------------------------------------------------------------------------

HEADERS = Encoder().encode([(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")])
FRAMES = st.builds(
    lambda kind, flags, number, body: len(body).to_bytes(3, "big") + bytes([kind, flags]) + number + body,
    st.integers(0, 11),
    st.integers(0, 255),
    st.sampled_from([0, 1, 3, 5, 2, 2**31 - 1]).map(lambda number: number.to_bytes(4, "big")),
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from([HEADERS[:size] for size in (len(HEADERS), len(HEADERS) - 1, 3)]),
    ),
)


@settings(max_examples=100)
@given(st.lists(FRAMES, max_size=12), st.booleans())
def test_whatever_frames_come_the_connection_serves_on_or_ends(frames: list[bytes], together: bool) -> None:
    async def body() -> None:
        app = EchoApp(at_once=False)
        edge = edge_with(app)
        wire = Client(edge, Http2Connection)
        wire.send(Http2Client().outgoing())
        wire.send(*([b"".join(frames)] if together else frames))
        for asked in app.asked:
            asked.answer()
        await settle()
        if not wire.closed:
            wire.leave()
            await settle()
        assert not edge.connections

    run_virtual(body())
