"""Bodies that may be larger than others, as files are: they are let in at one address alone, have more time, and
stay in pieces. And answers in parts, which wait until their client has taken them."""

import asyncio

import pytest
from http2_kit import line_to

from edge_kit import Client, EchoApp, edge_with, get, in_virtual_time, settle
from penstock.edge.answer import Answer
from penstock.edge.body import LARGE, STRIDE, Body, Pieces
from penstock.errors import BodyTooSlow, TooLarge

USUAL, MOST = 1000, 2 * 2**20


def head(path: str, size: int | None) -> bytes:
    length = "transfer-encoding: chunked" if size is None else f"content-length: {size}"
    return get(path, length, method="POST")


def in_chunks(body: bytes) -> bytes:
    pieces = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("size", [USUAL, USUAL + 1, 300_000, MOST])
@in_virtual_time
async def test_at_its_address_a_larger_body_comes_in_full(known: bool, size: int) -> None:
    app, body = EchoApp(at_once=False, most=MOST), bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    client = Client(edge_with(app, max_body=USUAL))
    client.send(head("/large", size if known else None))
    client.send(*([body[at : at + 65_536] for at in range(0, size, 65_536)] if known else [in_chunks(body)]))
    for _ in range(200):
        await asyncio.sleep(0.001)
    [asked] = app.asked
    assert asked.body == body
    asked.answer(b"thanks")
    await settle()
    assert client.heard().bodies == [b"thanks"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("path", "size"), [("/other", USUAL + 1), ("/large", MOST + 1)])
@in_virtual_time
async def test_elsewhere_or_beyond_its_own_limit_it_is_refused(known: bool, path: str, size: int) -> None:
    app = EchoApp(most=MOST)
    client = Client(edge_with(app, max_body=USUAL))
    client.send(head(path, size if known else None))
    if not known:
        client.send(in_chunks(b"x" * size))
    for _ in range(200):
        await asyncio.sleep(0.001)
    assert [type(exc) for exc in app.refused] == [TooLarge]
    assert client.heard().statuses == [413]
    assert app.asked == []


@in_virtual_time
async def test_each_stride_of_it_has_the_time_of_a_body() -> None:
    app = EchoApp(most=MOST)
    client = Client(edge_with(app, max_body=USUAL, body_seconds=5.0))
    client.send(head("/large", MOST))
    for _ in range(4):
        await asyncio.sleep(4.0)
        client.send(b"x" * STRIDE)
        assert app.refused == []
    await asyncio.sleep(4.0)
    client.send(b"x" * (STRIDE - 1))
    await asyncio.sleep(2.0)
    assert [type(exc) for exc in app.refused] == [BodyTooSlow]


@pytest.mark.parametrize("known", [True, False])
@in_virtual_time
async def test_over_http2_it_is_the_same(known: bool) -> None:
    app, body = EchoApp(at_once=False, most=400_000), b"x" * 300_000
    line = line_to(app, max_body=USUAL)
    length = (("content-length", str(len(body))),) if known else ()
    number = line.ask("POST", "/large", body, length)
    line.talk()
    assert app.asked[0].body == body
    app.asked[0].answer(b"thanks")
    assert line.answer(number).status == 200
    for path, size in (("/other", USUAL + 1), ("/large", 400_001)):
        length = (("content-length", str(size)),) if known else ()
        number = line.ask("POST", path, b"x" * size, length, whole=False)
        assert line.answer(number).status == 413


def test_a_body_stays_in_pieces_whatever_it_was_before() -> None:
    apart = Body(b"first", 10 * LARGE)
    apart.add(b"x" * LARGE, crowded=True)
    apart.stay_in_pieces()
    apart.add(b"y" * LARGE, crowded=True)
    apart.add(b"z", crowded=True)
    whole = apart.whole()
    assert isinstance(whole, Pieces)
    assert all(isinstance(piece, bytes) for piece in whole.pieces)
    assert b"".join(whole.pieces) == b"first" + b"x" * LARGE + b"y" * LARGE + b"z"


@in_virtual_time
async def test_parts_wait_until_their_client_has_read() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.send(get("/"))
    parts = app.asked[0].connection.begin(Answer(200, [], b""))
    assert parts is not None
    parts.send(b"one")
    await parts.taken()
    client.slow = True
    parts.send(b"two")
    waiting = asyncio.create_task(parts.taken())
    await settle()
    assert not waiting.done()
    client.read_all()
    await waiting
    client.slow = True
    parts.send(b"three")
    waiting = asyncio.create_task(parts.taken())
    await settle()
    client.leave()
    await waiting
    await parts.taken()


@in_virtual_time
async def test_parts_that_are_cut_end_the_connection() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.send(get("/"))
    parts = app.asked[0].connection.begin(Answer(200, [("content-length", "10")], b""))
    assert parts is not None
    parts.send(b"one")
    parts.cut()
    await settle()
    assert client.aborted


@in_virtual_time
async def test_parts_wait_for_the_window_of_a_stream() -> None:
    app = EchoApp(at_once=False)
    line = line_to(app)
    line.get("/")
    parts = app.asked[0].connection.begin(Answer(200, [], b""))
    assert parts is not None
    parts.send(b"x" * 200_000)
    waiting = asyncio.create_task(parts.taken())
    await settle()
    assert not waiting.done(), "the window of a stream has 65,535 bytes"
    line.talk()
    for _ in range(10):
        await settle()
        line.talk()
    await waiting
    parts.cut()
    line.talk()
    assert line.streams[1].reset is not None
    await parts.taken()
