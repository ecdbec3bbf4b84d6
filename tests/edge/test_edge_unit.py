"""Requests in and answers out, in order and however the bytes come; without sockets, in virtual time."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_kit import Client, EchoApp, chunked, edge_with, get, in_virtual_time, settle
from penstock.edge.bounds import MOST_HEAD, State
from penstock.testing import run_virtual
from wire import post

# ---- one after the other, on one connection ----------------------------------------------------------------


@in_virtual_time
async def test_a_connection_is_kept_for_the_next_request() -> None:
    client = Client(edge_with(EchoApp()))
    client.send(get("/a"))
    assert client.connection.state is State.IDLE
    client.send(post(b"body", path="/b"))
    assert client.heard().bodies == [b"GET /a ", b"POST /b body"]
    assert b"connection: close" not in client.received
    assert not client.closed


@pytest.mark.parametrize(
    "last",
    [
        get("/a", "connection: close"),
        get("/a", version="1.0"),
        get("/a", "connection: keep-alive", version="1.0"),
        get("test:80", method="CONNECT"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
@in_virtual_time
async def test_a_last_request_is_answered_and_nothing_after_it(last: bytes, at_once: bool) -> None:
    app = EchoApp(at_once)
    client = Client(edge_with(app))
    client.send(last + get("/never"))
    if not at_once:
        app.asked[0].answer()
    await settle()
    assert client.heard().statuses == [200]
    assert b"connection: close" in client.received
    assert (len(app.asked), app.refused, client.closed) == (1, [], True)


@in_virtual_time
async def test_the_answer_to_head_has_the_length_and_no_body() -> None:
    client = Client(edge_with(EchoApp()))
    client.send(get("/a", method="HEAD"), get("/b"))
    first, _, second = client.received.partition(b"\r\n\r\n")
    assert b"content-length: 8" in first
    assert second.startswith(b"HTTP/1.1 200 OK")
    assert second.endswith(b"GET /b ")


@in_virtual_time
async def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    client = Client(edge_with(EchoApp()))
    whole = post(b"body", "Expect: 100-Continue")
    client.send(whole[:-4])
    assert client.received == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(whole[-4:])
    assert client.heard().bodies == [b"POST /v1/inference body"]


@in_virtual_time
async def test_a_body_that_would_be_refused_is_not_asked_for() -> None:
    client = Client(edge_with(EchoApp(), max_body=3))
    client.send(post(b"body", "Expect: 100-continue")[:-4])
    assert client.heard().statuses == [413]
    assert b"100 Continue" not in client.received


@pytest.mark.parametrize("size", [len(post(b"x" * 40)), 20, 1])
@in_virtual_time
async def test_a_wish_to_speak_another_protocol_is_passed_over(size: int) -> None:
    """As curl --http2 and Java's client ask; the body and the next request are read all the same."""
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    app = EchoApp()
    client = Client(edge_with(app))
    stream = post(b"x" * 40, *wish) + get("/next")
    client.send(*(stream[at : at + size] for at in range(0, len(stream), size)))
    assert client.heard().bodies == [b"POST /v1/inference " + b"x" * 40, b"GET /next "]
    assert app.asked[0].headers[b"http2-settings"] == b"AAMAAABk"
    assert not client.closed


# ---- pipelining ----------------------------------------------------------------------------------------------


@in_virtual_time
async def test_pipelined_requests_are_handed_over_one_at_a_time_and_answered_in_order() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.send(get("/1") + get("/2") + get("/3"))
    for number in range(3):
        await settle()
        assert len(app.asked) == number + 1
        app.asked[number].answer()
    await settle()
    assert client.heard().bodies == [b"/1", b"/2", b"/3"]
    assert client.connection.state is State.IDLE


@in_virtual_time
async def test_nothing_more_is_read_until_what_came_early_is_answered() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.send(get("/1"))
    assert client.is_read()  # or its leaving would not be noticed
    client.send(get("/2"), get("/3"))
    assert not client.is_read()
    assert client.unread == len(get("/3"))
    for number in range(3):
        app.asked[number].answer()
        await settle()
    assert client.is_read()
    assert client.heard().bodies == [b"/1", b"/2", b"/3"]


@in_virtual_time
async def test_thousands_that_came_early_do_not_nest() -> None:
    client = Client(edge_with(EchoApp(at_once=False)))
    app = client.connection._edge.app
    client.send(get("/first") + get("/x") * 3000)
    app.at_once = True
    app.asked[0].answer()
    await settle(3001)
    assert len(client.heard().statuses) == 3001


@in_virtual_time
async def test_what_is_wrong_with_a_later_request_is_told_in_its_turn() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.send(get("/1") + b"nonsense\r\n\r\n")
    assert client.received == b""
    app.asked[0].answer()
    await settle()
    assert client.heard().statuses == [200, 400]
    assert client.shut


@in_virtual_time
async def test_a_head_that_comes_while_another_is_answered_has_the_same_limits() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.send(get("/1"), b"GET /2 HTTP/1.1\r\nx: ")
    for _ in range(MOST_HEAD // 1000 + 1):
        client.send(b"y" * 1000)
    assert client.unread == 0
    app.asked[0].answer()
    await settle()
    assert client.heard().statuses == [200, 431]


@in_virtual_time
async def test_a_body_that_comes_while_another_is_answered_has_the_same_limit() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app, max_body=10))
    client.send(get("/1"), get("/2", "transfer-encoding: chunked", method="POST"), b"b\r\n" + b"y" * 11)
    app.asked[0].answer()
    await settle()
    assert client.heard().statuses == [200, 413]


@in_virtual_time
async def test_half_a_head_that_came_early_waits_for_the_rest_as_a_head() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.send(get("/1"), get("/2")[:20])
    app.asked[0].answer()
    assert client.connection.state is State.HEAD
    client.send(get("/2")[20:])
    app.asked[1].answer()
    assert client.heard().bodies == [b"/1", b"/2"]


# ---- clients that do not read ----------------------------------------------------------------------------------


@in_virtual_time
async def test_a_client_that_does_not_read_is_not_served_further_until_it_does() -> None:
    app = EchoApp()
    client = Client(edge_with(app))
    client.slow = True
    client.send(get("/1") + get("/2"), get("/3"))
    await settle()
    assert client.connection.state is State.SENDING
    assert [client.is_read(), client.unread] == [False, len(get("/3"))]
    handed_over = len(app.asked)
    await asyncio.sleep(1)
    assert len(app.asked) == handed_over
    client.read_all()
    await settle()
    assert client.heard().bodies == [b"GET /1 ", b"GET /2 ", b"GET /3 "]
    assert client.is_read()


@pytest.mark.parametrize("headers", [(), ("connection: close",)])
@in_virtual_time
async def test_a_client_that_never_reads_is_ended_after_its_time(headers: tuple[str, ...]) -> None:
    edge = edge_with(EchoApp(), send_seconds=30.0)
    client = Client(edge)
    client.slow = True
    client.send(get("/1", *headers))
    await asyncio.sleep(30)
    still_there = client.connection in edge.connections
    await asyncio.sleep(2)
    assert (still_there, client.aborted) == (True, True)
    assert not edge.connections


# ---- however the bytes come --------------------------------------------------------------------------------------

REQUESTS = st.sampled_from(
    [
        get("/plain"),
        get("/with", "x-a: 1", "x-b: 2", "x-a: 3"),
        get("/head", method="HEAD"),
        post(b"body" * 5, path="/post"),
        post(b"", path="/empty"),
        chunked(b"one", b"two" * 10) + b"0\r\n\r\n",
        chunked(b"trailed") + b"0\r\nx-trailer: 1\r\n\r\n",
        post(b"wish", "Connection: Upgrade", "Upgrade: h2c", path="/upgrade"),
        get("/blank") + b"\r\n",
    ]
)
ENDINGS = st.sampled_from(
    [b"", get("/last", "connection: close"), get("/old", version="1.0"), b"nonsense\r\n\r\n"]
)


async def served(parts: list[bytes]) -> tuple[bytes, list[tuple[bytes, ...]]]:
    app = EchoApp()
    client = Client(edge_with(app))
    for part in parts:
        client.send(part)
        await settle()
    return re.sub(rb"date: .+\r\n", b"", client.received), [
        (each.method, each.url, each.body, *each.headers.values()) for each in app.asked
    ]


@given(st.lists(REQUESTS, min_size=1, max_size=5), ENDINGS, st.data())
def test_however_a_stream_is_cut_the_same_answers_come_in_the_same_order(
    requests: list[bytes], ending: bytes, data: st.DataObject
) -> None:
    stream = b"".join(requests) + ending
    cuts = data.draw(st.lists(st.integers(1, len(stream)), max_size=20).map(sorted))
    parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True) if a < b]
    assert run_virtual(served(parts)) == run_virtual(served([stream]))
