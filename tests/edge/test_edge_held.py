"""What requests hold that have not come in full: counted together, and who gives way."""

import asyncio
from collections.abc import Callable

import pytest
from http2_kit import Line
from hypothesis import given
from hypothesis import strategies as st

from edge_kit import Client, EchoApp, chunked, edge_with, get, in_virtual_time, settle
from penstock.edge.edge import Edge
from penstock.edge.fields import Headers
from penstock.edge.held import STRANGERS, WORTH_A_TRIM, Crowd, Held
from penstock.edge.http1_reading import SLICE
from penstock.errors import Overloaded, Unauthorized
from wire import post

KIB = 1024


class Holder:
    def __init__(self, account: Held, holder: str = STRANGERS) -> None:
        self.held = 0
        self.holder = holder
        self.refused = False
        self._account = account

    def hold(self, size: int) -> "Holder":
        self._account.change(self, size)
        return self

    def crowded_out(self) -> None:
        self.refused = True
        self.hold(0)


# ---- the account -------------------------------------------------------------------------------------------


def test_whoever_holds_the_most_gives_way_and_not_the_one_who_came_last() -> None:
    account = Held(1000)
    greedy = [Holder(account, "greedy").hold(300) for _ in range(3)]
    modest = Holder(account, "modest").hold(90)
    another = Holder(account, "another").hold(50)
    assert [each.refused for each in (*greedy, modest, another)] == [True, False, False, False, False]
    assert account.total == 740


def test_of_one_holder_the_largest_of_the_earliest_gives_way() -> None:
    account = Held(1000)
    small, large, _, latest = (Holder(account).hold(size) for size in (10, 400, 390, 300))
    assert (large.refused, small.refused, latest.refused) == (True, False, False)


def test_strangers_share_a_quarter_where_others_can_prove_who_they_are() -> None:
    account = Held(1000, keys=True)
    strangers = [Holder(account).hold(100) for _ in range(3)]
    known = Holder(account, "acme").hold(700)
    assert [each.refused for each in strangers] == [True, False, False]
    assert not known.refused
    open_to_all = Held(1000)
    assert not any(Holder(open_to_all).hold(100).refused for _ in range(10))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 600))))
def test_the_total_is_what_all_hold_and_never_more_than_the_bound(changes: list[tuple[int, int]]) -> None:
    account = Held(1000, keys=True)
    holders = [Holder(account, name) for name in ("", "", "", "", "a", "a", "a", "b", "b", "c")]
    for index, size in changes:
        holders[index].hold(size)
        assert account.total == sum(each.held for each in holders) <= account.most
    for each in holders:
        each.hold(0)
    assert (account.total, account._accounts) == (0, {})


def test_what_a_crowd_held_is_given_back_to_the_system_once() -> None:
    trims: list[int] = []
    account = Held(2 * WORTH_A_TRIM, trim=lambda: trims.append(account.total))
    one = Holder(account).hold(WORTH_A_TRIM + 1)
    account.look()
    one.hold(10)
    account.look()
    account.look()
    assert trims == [10]


def test_memory_is_given_back_when_a_crowd_has_gone_and_stays_away() -> None:
    trims: list[int] = []
    crowd = Crowd(trim=lambda: trims.append(1))
    for here in (300, 20, 20, 300, 20, 300):
        crowd.look(here)
    assert trims == []
    for _ in range(10):
        crowd.look(20)
    assert trims == [1]


# ---- connections and streams -------------------------------------------------------------------------------


def unfinished(size: int) -> bytes:
    return post(b"x" * (size - 1), length=size)


@in_virtual_time
async def test_unfinished_bodies_are_bounded_together_and_the_rest_is_told_why() -> None:
    app = EchoApp()
    edge = edge_with(app, max_unfinished=1000 * KIB)
    clients = [Client(edge) for _ in range(20)]
    for client in clients:
        client.send(unfinished(100 * KIB))
        assert edge.held.total <= edge.held.most
    refused = [client for client in clients if client.received]
    assert len(refused) == 10
    assert clients[-1] not in refused
    for client in refused:
        assert client.heard().statuses == [503]
        assert "limits.max_unfinished_bytes" in client.heard().json()["message"]
    clients[-1].send(b"x")
    await settle(100)  # after so much of a body others have their turn first
    assert clients[-1].heard().statuses == [200]
    for client in clients:
        if not client.closed:
            client.leave()
    assert edge.held.total == 0


@in_virtual_time
async def test_streams_are_counted_with_connections() -> None:
    edge = edge_with(EchoApp(), max_unfinished=1000 * KIB, body_seconds=1e6)
    line = Line(edge)
    numbers = [line.post("/", b"x" * 99 * KIB, whole=False) for _ in range(10)]
    client = Client(edge)
    client.send(unfinished(20 * KIB))
    assert [line.answer(number).status for number in numbers] == [503] + [0] * 9
    assert client.received == b""
    line.machine.end_stream(numbers[1])
    line.talk()
    assert line.answer(numbers[1]).status == 200
    assert edge.held.total == 8 * 99 * KIB + 20 * KIB - 1
    line.wire.leave()
    client.leave()
    assert edge.held.total == 0


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nhost: test\r\nx: " + b"y" * 10 * KIB,
        unfinished(20 * KIB),
        chunked(b"x" * 20 * KIB),
        get("/") + get("/") * 1000,
    ],
)
@in_virtual_time
async def test_whatever_is_held_is_counted_and_released_when_its_client_leaves(sent: bytes) -> None:
    edge = edge_with(EchoApp(at_once=False))
    client = Client(edge)
    client.send(sent)
    assert edge.held.total >= 10 * KIB
    client.leave()
    assert (edge.held.total, len(edge.deaf)) == (0, 0)


@in_virtual_time
async def test_small_bodies_are_not_counted() -> None:
    edge = edge_with(EchoApp())
    client = Client(edge)
    client.send(unfinished(1000))
    assert edge.held.total == 0


@in_virtual_time
async def test_whoever_sends_too_many_requests_ahead_is_refused_when_there_is_no_room() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app, max_unfinished=200 * KIB)
    client = Client(edge)
    client.send(get("/") * 6000)
    app.asked[0].answer()
    await settle()
    assert client.heard().statuses == [200, 503]
    assert [type(exc) for exc in app.refused] == [Overloaded]
    assert edge.held.total == 0


# ---- who asks, before a body is taken ----------------------------------------------------------------------


def only(tenant: bytes) -> Callable[[Headers], str]:
    def tenant_of(headers: Headers) -> str:
        if headers.get(b"x-tenant") != tenant:
            raise Unauthorized("who are you?")
        return tenant.decode()

    return tenant_of


def asking(app: EchoApp, **limits: int) -> Edge:
    app.tenant = only(b"acme")
    return edge_with(app, **limits)


@pytest.mark.parametrize(
    "sent",
    [
        post(b"", length=100 * KIB),
        unfinished(100 * KIB),
        post(b"", "Expect: 100-continue", length=10),
        chunked(b"x" * 2 * SLICE),
    ],
)
@in_virtual_time
async def test_a_stranger_is_told_so_from_the_head_and_its_body_is_not_taken(sent: bytes) -> None:
    app = EchoApp()
    client = Client(asking(app))
    client.send(sent)
    assert client.heard().statuses == [401]
    assert b"100 Continue" not in client.received
    assert (app.asked, client.shut) == ([], True)


@in_virtual_time
async def test_one_who_is_known_sends_its_body() -> None:
    app = EchoApp()
    edge = asking(app)
    client = Client(edge)
    whole = post(b"x" * 100 * KIB, "x-tenant: acme")
    client.send(whole[:-1])
    assert edge.held.total == 100 * KIB - 1
    client.send(whole[-1:], post(b"", length=100 * KIB))
    await settle()
    assert client.heard().statuses == [200, 401]
    assert len(app.asked[0].body) == 100 * KIB
    assert edge.held.total == 0


@in_virtual_time
async def test_a_strangers_stream_is_refused_and_the_others_on_its_connection_go_on() -> None:
    app = EchoApp()
    line = Line(asking(app))
    stranger = line.answer(line.ask("POST", "/", b"x", whole=False))
    assert (stranger.status, stranger.reset) == (401, 0)
    known = line.answer(line.ask("POST", "/", b"body", (("x-tenant", "acme"),)))
    assert (known.status, known.body) == (200, b"POST / body")
    assert len(app.asked) == 1


@in_virtual_time
async def test_what_a_pipelined_stranger_gets_waits_for_its_turn() -> None:
    app = EchoApp(at_once=False)
    client = Client(asking(app))
    client.send(get("/1") + post(b"", length=100 * KIB))
    assert client.received == b""
    app.asked[0].answer()
    await asyncio.sleep(0)
    assert client.heard().statuses == [200, 401]
