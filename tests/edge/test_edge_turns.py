"""How much one client may have done in a turn of the loop, and what ends it; in virtual time."""

import asyncio
from typing import Any

import pytest
from h2.errors import ErrorCodes
from http2_kit import Line, line_to
from hyperframe.frame import DataFrame, HeadersFrame, RstStreamFrame

from edge_kit import Client, EchoApp, chunked, edge_with, get, in_virtual_time, settle
from penstock.edge.bounds import MOST_BLANK, MOST_HEAD, State
from penstock.edge.http1_reading import SLICE
from penstock.edge.http2_frames import MOST_IDLE, MOST_WORK, PREFACE, FrameWatch, TooMuch
from penstock.edge.turns import Turns
from penstock.errors import HeadTooLarge, Malformed, UnknownCoding, UnknownVersion
from wire import post

READ = 256_000  # bytes that one read brings at most
WISH = ("Connection: Upgrade", "Upgrade: h2c")


async def all_done(client: Client) -> int:
    """The turns of the loop that it took."""
    turns = 0
    while client.unread or client.connection._rest or client.connection._later:
        await asyncio.sleep(0)
        turns += 1
        assert turns < 100_000
    return turns


# ---- HTTP/1.1 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        get("/") * (READ // len(get("/"))),
        get("/", *WISH) * (READ // len(get("/", *WISH))),
        chunked(*[b"x"] * (READ // 6)),
    ],
    ids=["requests", "upgrades", "chunks"],
)
@in_virtual_time
async def test_of_a_read_full_of_small_things_a_turn_handles_a_slice(sent: bytes) -> None:
    edge = edge_with(EchoApp(at_once=False))
    client = Client(edge)
    client.send(sent)
    assert len(client.connection._rest) >= len(sent) - 2 * SLICE
    assert not client.is_read()


@pytest.mark.parametrize("number", [600, 4000])
@in_virtual_time
async def test_wishes_for_another_protocol_one_after_the_other_do_not_nest(number: int) -> None:
    app = EchoApp()
    client = Client(edge_with(app))
    client.send(get("/", *WISH) * number)
    await all_done(client)
    assert client.heard().statuses == [200] * number
    assert (app.refused, client.is_read()) == ([], True)


@in_virtual_time
async def test_a_body_in_a_thousand_chunks_arrives_whole() -> None:
    app = EchoApp()
    client = Client(edge_with(app))
    chunks = [b"%04d" % number for number in range(10_000)]
    client.send(chunked(*chunks) + b"0\r\n\r\n" + get("/next"))
    assert await all_done(client) > 1
    assert [asked.body for asked in app.asked] == [b"".join(chunks), b""]


@in_virtual_time
async def test_a_large_body_of_a_known_length_is_taken_in_one_turn() -> None:
    app = EchoApp()
    client = Client(edge_with(app))
    client.send(get("/", "content-length: 200000", method="POST") + b"x" * 200_000)
    assert (len(app.asked), client.connection._rest) == (1, b"")


@in_virtual_time
async def test_nobody_is_served_before_those_who_waited_longer() -> None:
    order: list[str] = []
    turns = Turns(asyncio.get_running_loop())

    class Worker:
        def __init__(self, name: str, shares: int) -> None:
            self.name, self.shares = name, shares
            turns.wait(self)

        def go_on(self) -> bool:
            order.append(self.name)
            self.shares -= 1
            if self.shares:
                turns.wait(self)
            return False

    for name, shares in (("a", 3), ("b", 1), ("c", 2)):
        Worker(name, shares)
    assert order == []
    await asyncio.sleep(0)
    assert order == ["a"]
    await settle()
    assert order == ["a", "b", "c", "a", "c", "a"]


@in_virtual_time
async def test_whoever_stands_in_line_already_has_no_second_place() -> None:
    order: list[str] = []
    turns = Turns(asyncio.get_running_loop())

    class Worker:
        def __init__(self, name: str) -> None:
            self.name = name

        def go_on(self) -> bool:
            order.append(self.name)
            return False

    greedy, modest = Worker("greedy"), Worker("modest")
    for each in (greedy, modest, greedy, greedy):
        turns.wait(each)
    assert len(turns) == 2
    await settle()
    assert order == ["greedy", "modest"]
    turns.wait(greedy)
    await settle()
    assert order == ["greedy", "modest", "greedy"]


@in_virtual_time
async def test_a_client_that_stops_reading_and_goes_on_has_one_share_of_a_turn() -> None:
    edge = edge_with(EchoApp(at_once=False))
    client = Client(edge)
    client.send(chunked(*[b"x"] * (READ // 6)))
    for _ in range(10):
        client.connection.pause_writing()
        client.connection.resume_writing()
    assert len(edge.turns) == 1


@pytest.mark.parametrize(
    "trailers",
    [b"".join(b"x-%d: %s\r\n" % (number, b"y" * 100) for number in range(10_000)), b"x: " + b"y" * 10**6],
    ids=["many", "long"],
)
@in_virtual_time
async def test_trailers_without_end_are_cut_off(trailers: bytes) -> None:
    app = EchoApp()
    edge = edge_with(app)
    client = Client(edge)
    client.send(chunked(b"body") + b"0\r\n")
    sent = 0
    while not client.received:
        client.send(trailers[sent : sent + 1000])
        sent += 1000
        await asyncio.sleep(0)
    assert sent <= MOST_HEAD + 2000
    assert client.heard().statuses == [431]
    assert [type(exc) for exc in app.refused] == [HeadTooLarge]
    assert edge.held.total == 0


@in_virtual_time
async def test_empty_lines_without_end_are_refused() -> None:
    client = Client(edge_with(EchoApp()))
    sent = 0
    while not client.received:
        client.send(b"\r\n" * 50)
        sent += 100
    assert client.heard().statuses == [400]
    assert sent <= MOST_BLANK + 100


@in_virtual_time
async def test_empty_lines_now_and_then_have_the_time_of_a_head() -> None:
    client = Client(edge_with(EchoApp(), head_seconds=5.0, idle_seconds=75.0))
    client.send(get("/"))
    seconds = 0
    while not client.aborted:
        client.send(b"\r\n")
        await asyncio.sleep(1)
        seconds += 1
    assert seconds < 10
    assert client.heard().statuses == [200]


@in_virtual_time
async def test_one_empty_line_after_a_body_takes_no_time_away() -> None:
    client = Client(edge_with(EchoApp(), head_seconds=5.0, idle_seconds=75.0))
    for _ in range(3):
        client.send(post(b"body"), b"\r\n")
        await asyncio.sleep(60)
    client.send(get("/"))
    assert client.heard().statuses == [200] * 4


@pytest.mark.parametrize(
    ("sent", "status", "kind"),
    [
        (get("/", "transfer-encoding: gzip, chunked", method="POST"), 501, UnknownCoding),
        (
            get("/", "transfer-encoding: gzip", "transfer-encoding: chunked", method="POST"),
            501,
            UnknownCoding,
        ),
        (get("/", version="2.0"), 505, UnknownVersion),
        (post(b"x", length=0).replace(b"HTTP/1.1", b"HTTP/2.0"), 505, UnknownVersion),
        (get("/", "transfer-encoding: chunked, gzip", method="POST"), 400, Malformed),
    ],
)
@in_virtual_time
async def test_what_is_not_understood_is_refused(sent: bytes, status: int, kind: type[Exception]) -> None:
    app = EchoApp()
    client = Client(edge_with(app))
    client.send(sent)
    assert client.heard().statuses == [status]
    assert [type(exc) for exc in app.refused] == [kind]


# ---- HTTP/2 ------------------------------------------------------------------------------------------------


def piece(number: int, data: bytes, padding: int | None = None) -> bytes:
    frame = DataFrame(number, data=data)
    if padding is not None:
        frame.flags.add("PADDED")
        frame.pad_length = padding
    return frame.serialize()


@pytest.mark.parametrize(
    "frame", [piece(1, b"x"), piece(1, b"", 0), piece(1, b"", 255), piece(1, b"x" * 200), piece(1, b"x", 255)]
)
@in_virtual_time
async def test_pieces_that_are_hardly_more_than_their_frames_end_the_connection(frame: bytes) -> None:
    line = line_to(EchoApp(at_once=False))
    line.post("/", b"part", whole=False)
    sent = 0
    while not line.closed:
        line.wire.send(frame * 100)
        line.talk()
        sent += 100
        assert sent <= 4 * MOST_IDLE + 100
    assert line.goaways == [int(ErrorCodes.ENHANCE_YOUR_CALM)]


@in_virtual_time
async def test_a_body_in_a_thousand_small_pieces_is_taken() -> None:
    app = EchoApp()
    line = line_to(app)
    number = line.post("/", b"", whole=False)
    for _ in range(1000):
        line.send(number, b"x", last=False)
    line.send(number, b"")
    assert line.answer(number).status == 200
    assert app.asked[0].body == b"x" * 1000


@pytest.mark.parametrize("size", [1, 1000])
@in_virtual_time
async def test_pieces_for_a_request_that_has_ended_end_the_connection(size: int) -> None:
    line = line_to(EchoApp(at_once=False))
    number = line.post("/", b"part", whole=False)
    line.wire.send(RstStreamFrame(number, error_code=8).serialize())
    sent = 0
    while not line.closed:
        line.wire.send(piece(number, b"x" * size) * 100)
        while line.edge.turns:
            line.edge.turns.take()
        sent += 100
        assert sent <= 4 * MOST_IDLE + 100


@in_virtual_time
async def test_over_http_2_too_a_client_that_stops_reading_and_goes_on_has_one_share_of_a_turn() -> None:
    line = Line(edge_with(EchoApp(at_once=False)))
    for number in range(100):
        line.ask("POST", f"/{number}", b"x" * 1000)
    line.wire.send(line.outgoing())
    for _ in range(10):
        line.wire.connection.pause_writing()
        line.wire.connection.resume_writing()
    assert len(line.edge.turns) == 1


def frames(*kinds: Any) -> bytes:
    return b"".join(frame if isinstance(frame, bytes) else frame.serialize() for frame in kinds)


def test_a_turn_handles_so_many_frames_and_no_more() -> None:
    watch = FrameWatch(0.0)
    assert watch.look(b"x" * PREFACE, 0.0) == PREFACE
    small, begins = piece(1, b"x"), HeadersFrame(1, data=b"head").serialize()
    data = small * 1000
    assert (
        watch.look(data, 0.0, {1}) == len(small) * (MOST_WORK - 1) + 9
    )  # the head of the last, and not its piece
    watch = FrameWatch(0.0)
    watch.look(b"x" * PREFACE, 0.0)
    assert watch.look(begins * 1000, 0.0) == len(begins) * (MOST_WORK // 8 - 1) + 9


def test_a_stream_that_begins_in_the_same_read_is_not_taken_for_one_that_has_ended() -> None:
    watch = FrameWatch(0.0)
    watch.look(b"x" * PREFACE, 0.0)
    for number in range(1, 4 * MOST_IDLE, 2):
        begins = HeadersFrame(number, data=b"", flags=["END_HEADERS"])
        watch.look(frames(begins, piece(number, b"x" * 1000)), 0.0, set())
    late = piece(1, b"x" * 1000)
    for _ in range(4 * MOST_IDLE):
        watch.look(late, 0.0, set())
    with pytest.raises(TooMuch):
        watch.look(late, 0.0, set())


@in_virtual_time
async def test_many_frames_in_one_read_are_handled_over_several_turns_and_in_order() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    line = Line(edge)
    for number in range(100):
        line.ask("POST", f"/{number}", b"x" * 1000)
    line.wire.send(line.outgoing())
    early = len(app.asked)
    assert not line.wire.is_read()
    assert line.wire.connection.state is State.BUSY
    await settle(100)
    assert 0 < early < 20
    assert app.urls == [b"/%d" % number for number in range(100)]
    assert line.wire.is_read()
    assert edge.held.total == 0
