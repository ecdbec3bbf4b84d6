"""What the edge refuses, how long it waits, how a connection ends; without sockets, in virtual time."""

import asyncio
import gc
import weakref

import pytest

from edge_kit import Client, EchoApp, chunked, edge_with, get, in_virtual_time, settle
from penstock.edge.bounds import MOST_HEAD, MOST_REPEATED, MOST_THROWN_AWAY, State
from penstock.edge.http1 import Connection
from penstock.errors import HeadTooLarge, Malformed, Overloaded, TooLarge
from wire import post

# ---- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status", "kind"),
    [
        (get("/", *(f"x-{number}: y" for number in range(100))), 431, HeadTooLarge),
        (get("/", *("x: " + "y" * 100 for _ in range(MOST_REPEATED // 100))), 431, HeadTooLarge),
        (get("/", "host: other"), 400, Malformed),
        (get("/", "host: test"), 400, Malformed),
        (b"GET / HTTP/1.1\r\n\r\n", 400, Malformed),
        (get("/", "content-length: 1001", method="POST"), 413, TooLarge),
        (get("/", "content-length: " + "9" * 30, method="POST"), 400, Malformed),
        (chunked(b"x" * 600, b"x" * 600), 413, TooLarge),
        (get("/", "content-length: 5", "transfer-encoding: chunked", method="POST"), 400, Malformed),
        (b"\x16\x03\x01\x02\x00", 400, Malformed),
    ],
)
@in_virtual_time
async def test_what_cannot_be_served_is_told_and_is_the_last(
    sent: bytes, status: int, kind: type[Exception]
) -> None:
    app = EchoApp()
    client = Client(edge_with(app, max_body=1000))
    client.send(sent)
    assert client.heard().statuses == [status]
    assert b"connection: close" in client.received
    assert [type(exc) for exc in app.refused] == [kind]
    assert app.asked == []
    assert client.connection.state is State.LINGERING


@in_virtual_time
async def test_ninety_nine_headers_besides_the_host_are_not_too_many() -> None:
    client = Client(edge_with(EchoApp()))
    client.send(get("/", *(f"x-{number}: y" for number in range(99))))
    assert client.heard().statuses == [200]


@pytest.mark.parametrize("size", [100, 5000])
@in_virtual_time
async def test_a_head_that_never_ends_is_cut_off_at_its_limit(size: int) -> None:
    client = Client(edge_with(EchoApp()))
    client.send(b"GET /")
    sent = 5
    while not client.received:
        client.send(b"x" * size)
        sent += size
    assert client.heard().statuses == [431]
    assert MOST_HEAD < sent <= MOST_HEAD + size


@pytest.mark.parametrize("parts", [1, 3])
@in_virtual_time
async def test_a_long_body_that_is_answered_at_once_is_answered_once(parts: int) -> None:
    """The length of a body is no part of the next head."""
    client = Client(edge_with(EchoApp()))
    whole = post(b"x" * 2 * MOST_HEAD)
    size = len(whole) // parts + 1
    client.send(*(whole[at : at + size] for at in range(0, len(whole), size)))
    client.send(b"\r\n" + get("/next"))
    await settle(100)  # others have their turn between two pieces
    assert client.heard().statuses == [200, 200]


@in_virtual_time
async def test_a_refused_client_may_go_on_sending_a_little_and_no_more() -> None:
    client = Client(edge_with(EchoApp(), linger_seconds=2.0))
    client.send(post(b"", length=2**30))
    assert (client.heard().statuses, client.shut, client.closed) == ([413], True, False)
    for _ in range(100):
        client.send(b"x" * 1024)
    assert client.unread == 100 * 1024 - MOST_THROWN_AWAY - 1024
    assert not client.aborted
    await asyncio.sleep(3)
    assert client.aborted


@in_virtual_time
async def test_one_connection_too_many_is_refused_with_a_wait() -> None:
    app = EchoApp()
    edge = edge_with(app, max_connections=2)
    kept = [Client(edge), Client(edge)]
    third = Client(edge)
    (refused,) = app.refused
    assert isinstance(refused, Overloaded)
    assert refused.retry_after
    assert third.heard().statuses == [503]
    third.leave()
    kept[0].leave()
    fourth = Client(edge)
    fourth.send(get("/"))
    assert fourth.heard().statuses == [200]


# ---- those who leave -------------------------------------------------------------------------------------------


@in_virtual_time
async def test_whoever_waits_for_an_answer_is_told_once_that_its_client_left() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    client = Client(edge)
    client.send(get("/1") + get("/2"))
    client.leave()
    await settle()
    assert [asked.times_left for asked in app.asked] == [1]
    app.asked[0].answer()  # it comes too late, and goes nowhere
    assert client.received == b""
    assert not edge.connections


@in_virtual_time
async def test_an_answered_request_is_not_told_that_its_client_left() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.send(get("/1"))
    app.asked[0].answer()
    client.leave()
    assert app.asked[0].times_left == 0


@in_virtual_time
async def test_a_body_that_ends_too_soon_is_told_so() -> None:
    client = Client(edge_with(EchoApp()))
    client.send(post(b"half", length=8))
    assert not client.connection.eof_received()
    assert client.heard().statuses == [400]


class Watched(Connection):
    """One that a weak reference can follow."""


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        get("/"),
        get("/") + get("/"),
        get("/")[:10],
        post(b"", length=5),
        b"nonsense\r\n\r\n",
        post(b"", length=2**30),
        get("/") + post(b"", length=2**30),
        get("/", "connection: close"),
        get("/", "connection: upgrade", "upgrade: h2c"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
@in_virtual_time
async def test_nothing_keeps_a_connection_that_is_over(sent: bytes, at_once: bool) -> None:
    gc.disable()
    try:
        app = EchoApp(at_once)
        client = Client(edge_with(app), Watched)
        alive = weakref.ref(client.connection)
        client.send(sent)
        await settle()
        if not client.closed:
            client.leave()
        await settle()
        del client
        app.asked.clear()
        app.refused.clear()
        assert alive() is None
    finally:
        gc.enable()


# ---- time limits and the end -----------------------------------------------------------------------------------

LIMITS = {"head_seconds": 3.0, "body_seconds": 4.0, "idle_seconds": 10.0, "linger_seconds": 2.0}


@pytest.mark.parametrize(
    ("sent", "state", "seconds", "told"),
    [
        (b"", State.NEW, 3.0, []),
        (get("/")[:9], State.HEAD, 3.0, [408]),
        (post(b"x", length=2), State.BODY, 4.0, [408]),
        (get("/"), State.IDLE, 10.0, [200]),
        (b"nonsense\r\n\r\n", State.LINGERING, 2.0, [400]),
    ],
)
@in_virtual_time
async def test_a_client_has_its_whole_time_in_each_state_and_not_much_more(
    sent: bytes, state: State, seconds: float, told: list[int]
) -> None:
    edge = edge_with(EchoApp(), **LIMITS)
    await asyncio.sleep(0.499)  # at the end of a tick
    client = Client(edge)
    client.send(sent)
    assert client.connection.state is state
    before = len(client.received)
    await asyncio.sleep(seconds)
    assert (len(client.received), client.aborted) == (before, False)
    await asyncio.sleep(1.5)
    assert client.aborted or client.shut
    assert client.heard().statuses == told


@in_virtual_time
async def test_a_client_that_sends_a_byte_now_and_then_gains_no_time() -> None:
    client = Client(edge_with(EchoApp(), **LIMITS))
    for byte in get("/a-rather-long-address"):
        client.send(bytes([byte]))
        await asyncio.sleep(0.2)
    assert client.heard().statuses == [408]


@in_virtual_time
async def test_waiting_for_an_answer_has_no_limit_here() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app, **LIMITS))
    client.send(get("/"))
    await asyncio.sleep(1000)
    app.asked[0].answer()
    assert client.heard().statuses == [200]
    await asyncio.sleep(9)
    assert not client.closed  # its time between requests begins with the answer


@in_virtual_time
async def test_finishing_lets_the_idle_go_and_makes_every_answer_the_last() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    new, idle, reading, busy, pipelining = (Client(edge) for _ in range(5))
    idle.send(get("/idle"))
    app.asked.pop().answer()
    reading.send(get("/reading")[:10])
    busy.send(get("/busy"))
    pipelining.send(get("/1") + get("/2"))
    edge.finish()
    assert [client.shut for client in (new, idle, reading, busy, pipelining)] == [True, True, *[False] * 3]
    app.at_once = True
    reading.send(get("/reading")[10:] + get("/never"))
    for asked in app.asked[:2]:
        asked.answer()
    await settle()
    for client, answers in ((reading, 1), (busy, 1), (pipelining, 2)):
        assert client.heard().statuses == [200] * answers
        head, *rest = client.received.split(b"connection: close")
        assert len(rest) == 1, head
        assert (client.shut, client.closed, client.is_read()) == (True, False, True)
    assert b"/never" not in app.urls


@in_virtual_time
async def test_closing_aborts_whoever_is_left() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    clients = [Client(edge), Client(edge)]
    clients[0].send(get("/"))
    edge.close()
    await settle()
    assert all(client.aborted for client in clients)
    assert app.asked[0].times_left == 1
    assert not edge.connections
