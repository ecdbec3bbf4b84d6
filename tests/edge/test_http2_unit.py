"""Requests and answers over HTTP/2, each on its stream; without sockets, in virtual time."""

import asyncio

import pytest
from h2.errors import ErrorCodes
from http2_kit import Line, line_to
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_kit import Client, EchoApp, edge_with, in_virtual_time, settle
from http2_client import Http2Client
from penstock.edge.answer import Answer
from penstock.edge.bounds import BULK, State
from penstock.edge.http2 import Http2Connection
from penstock.testing import run_virtual

MIB = 2**20

# ---- answers in parts ------------------------------------------------------------------------------------------


@in_virtual_time
async def test_an_answer_in_parts_comes_as_they_are_sent_and_ends_with_the_last() -> None:
    app = EchoApp(at_once=False)
    line = line_to(app)
    number = line.get("/parts")
    parts = app.asked[0].connection.begin(Answer(200, [("content-type", "text/plain")], b""))
    assert parts is not None
    heard = line.answer(number)
    assert (heard.status, heard.body, heard.ended) == (200, b"", False)
    assert "content-length" not in heard.headers
    for part in (b"one ", b"two "):
        parts.send(part)
    assert (line.answer(number).body, heard.ended) == (b"one two ", False)
    parts.end(b"three")
    heard = line.answer(number)
    assert (heard.body, heard.ended) == (b"one two three", True)
    assert line.edge.unsent.total == 0


@in_virtual_time
async def test_a_large_last_part_waits_for_the_window_of_its_client() -> None:
    app = EchoApp(at_once=False)
    line = line_to(app)
    number = line.get("/parts")
    parts = app.asked[0].connection.begin(Answer(200, [], b""))
    assert parts is not None
    parts.send(b"x" * 100_000)
    parts.end(b"y" * MIB)
    await settle()
    heard = line.answer(number)
    assert (heard.body, heard.ended) == (b"x" * 100_000 + b"y" * MIB, True)
    assert line.edge.unsent.total == 0


@in_virtual_time
async def test_a_client_that_resets_its_stream_is_told_of_while_parts_are_sent() -> None:
    app = EchoApp(at_once=False)
    line = line_to(app)
    number = line.get("/parts")
    asked = app.asked[0]
    parts = asked.connection.begin(Answer(200, [], b""))
    assert parts is not None
    parts.send(b"one")
    line.machine.reset_stream(number)
    line.talk()
    assert asked.times_left == 1
    parts.send(b"two")
    parts.end(b"three")
    assert asked.connection.begin(Answer(200, [], b"")) is None


# ---- many at once ----------------------------------------------------------------------------------------------


@in_virtual_time
async def test_many_streams_on_one_connection_each_get_their_own_answer() -> None:
    app = EchoApp(at_once=False)
    line = line_to(app)
    numbers = [line.post(f"/{index}", b"x" * 2048) for index in range(200)]
    assert len(app.asked) == 200
    for asked in reversed(app.asked):
        asked.answer()
    for index, number in enumerate(numbers):
        heard = line.answer(number)
        assert (heard.status, heard.body, heard.ended) == (200, b"/%d" % index, True)
    assert line.wire.connection.state is State.IDLE


@in_virtual_time
async def test_a_request_reaches_the_application_as_in_http_1() -> None:
    app = EchoApp()
    line = line_to(app)
    fields = (("x-a", "1"), ("x-b", "2"), ("x-a", "3"), ("cookie", "c"))
    number = line.post("/path?q=1", b"body", headers=fields)
    [asked] = app.asked
    assert (asked.method, asked.url, asked.body) == (b"POST", b"/path?q=1", b"body")
    assert asked.headers == {b"host": b"test", b"x-a": b"1, 3", b"x-b": b"2", b"cookie": b"c"}
    heard = line.answer(number)
    assert heard.headers["content-length"] == str(len(heard.body))
    assert "date" in heard.headers
    assert "connection" not in heard.headers


@in_virtual_time
async def test_the_answers_of_one_turn_are_written_at_once() -> None:
    app = EchoApp(at_once=False)
    line = line_to(app)
    for index in range(10):
        line.get(f"/{index}")
    before = line.wire.writes
    for asked in app.asked:
        asked.answer()
    await settle()
    assert line.wire.writes == before + 1


@in_virtual_time
async def test_the_answer_to_head_has_no_body() -> None:
    line = line_to()
    number = line.ask("HEAD", "/", headers=())
    heard = line.answer(number)
    assert (heard.status, heard.body, heard.ended) == (200, b"", True)
    assert heard.headers["content-length"] == "7"


@in_virtual_time
async def test_a_client_that_wants_to_be_told_to_go_on_is() -> None:
    line = line_to()
    number = line.post("/", b"", headers=(("expect", "100-continue"),), whole=False)
    assert line.streams[number].informed == [100]
    line.send(number, b"body")
    assert line.answer(number).body == b"POST / body"


# ---- windows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 2048, MIB])
@in_virtual_time
async def test_a_body_of_any_size_is_read_and_sent_back(size: int) -> None:
    line = line_to(max_body=MIB)
    number = line.post("/", b"x" * size)
    heard = line.answer(number)
    assert heard.body == b"POST / " + b"x" * size
    assert heard.ended


@in_virtual_time
async def test_many_large_bodies_one_after_the_other_do_not_use_up_the_window() -> None:
    line = line_to(max_body=MIB)
    for _ in range(10):
        assert line.answer(line.post("/", b"x" * MIB)).status == 200


@in_virtual_time
async def test_an_answer_waits_for_its_window_and_holds_up_no_other() -> None:
    app = EchoApp(at_once=False)
    line = line_to(app)
    line.reads = False
    large, small = line.get("/large"), line.get("/small")
    app.asked[0].answer(b"x" * 200_000)
    line.machine.increment_flow_control_window(100_000)  # of the connection, and of no stream
    app.asked[1].answer(b"y")
    assert not line.answer(large).ended
    assert line.answer(small).ended
    assert len(line.streams[large].body) == 65_535
    line.machine.increment_flow_control_window(200_000, large)
    line.machine.increment_flow_control_window(200_000)
    assert line.answer(large).ended
    assert line.streams[large].body == b"x" * 200_000


@in_virtual_time
async def test_a_larger_first_window_lets_waiting_answers_go_on() -> None:
    line = line_to()
    line.reads = False
    line.machine.increment_flow_control_window(MIB)
    number = line.post("/", b"x" * 200_000)
    assert not line.answer(number).ended
    line.machine.update_settings({4: MIB})
    assert line.answer(number).ended


@in_virtual_time
async def test_an_answer_that_is_not_taken_is_given_up_after_its_time() -> None:
    line = line_to(send_seconds=30.0)
    line.reads = False
    number = line.post("/", b"x" * 200_000)
    await asyncio.sleep(29)
    assert line.answer(number).reset is None
    await asyncio.sleep(2)
    assert line.answer(number).reset == ErrorCodes.CANCEL
    assert not line.answer(line.post("/", b"")).ended  # the connection's own window is still full
    assert not line.closed


@in_virtual_time
async def test_a_client_that_does_not_read_at_all_is_not_read_from_and_is_cut_off() -> None:
    edge = edge_with(EchoApp(), send_seconds=30.0)
    line = Line(edge)
    line.wire.slow = True
    line.get("/")
    assert not line.wire.is_read()
    await asyncio.sleep(20)
    line.wire.read_all()
    assert line.wire.is_read()
    assert line.answer(line.get("/")).status == 200
    line.wire.slow = True
    line.get("/")
    await asyncio.sleep(32)
    assert line.wire.aborted
    assert not edge.connections


# ---- leaving -----------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_stream_that_is_reset_has_left_and_the_others_stay() -> None:
    app = EchoApp(at_once=False)
    line = line_to(app)
    first, second = line.get("/1"), line.get("/2")
    line.machine.reset_stream(first, ErrorCodes.CANCEL)
    line.talk()
    assert [asked.times_left for asked in app.asked] == [1, 0]
    for asked in app.asked:
        asked.answer()  # too late for the first
    assert line.answer(second).body == b"/2"
    assert not line.closed


@in_virtual_time
async def test_a_request_that_is_taken_back_in_the_same_breath_is_not_asked() -> None:
    app = EchoApp()
    line = line_to(app)
    number = line.ask("GET", "/", headers=())
    line.machine.reset_stream(number)
    line.talk()
    assert app.asked == []
    assert line.answer(line.get("/next")).status == 200


@pytest.mark.parametrize("how", ["connection", "goaway"])
@in_virtual_time
async def test_all_streams_have_left_when_their_client_has(how: str) -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    line = Line(edge)
    for index in range(3):
        line.get(f"/{index}")
    assert len(edge.connections) == 4
    if how == "goaway":
        line.machine.close_connection()
        line.talk()
        assert line.closed
    else:
        line.wire.leave()
    await settle()
    assert [asked.times_left for asked in app.asked] == [1, 1, 1]
    for asked in app.asked:
        asked.answer()
    assert not edge.connections


# ---- however the bytes come ------------------------------------------------------------------------------------


def script() -> bytes:
    """A client's side of three requests and a change of mind, as one piece."""
    client = Http2Client()
    client.ask("GET", "/plain", headers=())
    client.ask("POST", "/body", b"x" * 3000)
    client.ask("POST", "/empty", b"")
    client.machine.ping(b"12345678")
    number = client.ask("POST", "/gone", b"part", whole=False)
    client.machine.reset_stream(number)
    return client.outgoing()


SCRIPT = script()


async def served(parts: list[bytes]) -> tuple[list[bytes], list[tuple[int, bytes, bool]]]:
    app = EchoApp()
    wire = Client(edge_with(app), Http2Connection)
    for part in parts:
        wire.send(part)
        await settle()
    listener = Http2Client()
    for path in ("/plain", "/body", "/empty", "/gone"):
        listener.ask("GET", path, headers=())
    listener.take(wire.received)
    return app.urls, [(each.status, each.body, each.ended) for each in listener.streams.values()]


@settings(max_examples=50)
@given(st.lists(st.integers(1, len(SCRIPT)), max_size=20).map(sorted))
def test_however_a_connection_is_cut_into_pieces_the_answers_are_the_same(cuts: list[int]) -> None:
    parts = [SCRIPT[a:b] for a, b in zip([0, *cuts], [*cuts, len(SCRIPT)], strict=True) if a < b]
    urls, heard = run_virtual(served(parts))
    assert urls == [b"/plain", b"/body", b"/empty"]
    assert heard == [
        (200, b"GET /plain ", True),
        (200, b"POST /body " + b"x" * 3000, True),
        (200, b"POST /empty ", True),
        (0, b"", False),
    ]


@in_virtual_time
async def test_between_two_pieces_of_a_large_body_others_have_their_turn() -> None:
    line, piece = line_to(), b"x" * 16_000
    number = line.ask("POST", "/", piece, whole=False)
    line.talk()
    read_at_once = []
    for _ in range(8):
        line.machine.send_data(number, piece)
        line.wire.send(line.outgoing())
        read_at_once.append(line.wire.is_read())
        line.talk()
    small = BULK // len(piece) - 1  # pieces until the body is a large one
    assert read_at_once == [True] * small + [False] * (8 - small)
