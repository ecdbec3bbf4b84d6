"""Answers that clients do not read: sent in pieces, counted together, and who gives way."""

import asyncio
import logging

import pytest
from h2.errors import ErrorCodes
from http2_kit import Line

from edge_kit import Asked, Client, EchoApp, edge_with, get, in_virtual_time, settle
from penstock.edge.answer import Answer
from penstock.edge.edge import Edge, EdgeLimits
from penstock.edge.unsent import AT_ONCE, PIECE

MIB = 2**20
LARGE = bytes(range(256)) * 4096  # 1 MiB


def with_keys(app: EchoApp, **limits: int) -> Edge:
    loop = asyncio.get_running_loop()
    return Edge(app, EdgeLimits(**limits), loop, loop.time, keys=True)


def deaf(edge: Edge, app: EchoApp, tenant: str = "", size: int = MIB, path: str = "/") -> Client:
    """A client that has asked, and does not read its answer of this size."""
    client = Client(edge)
    client.slow = True
    client.send(get(path))
    answer(app.asked[-1], tenant, size)
    return client


def answer(asked: Asked, tenant: str = "", size: int = MIB) -> None:
    asked.connection.respond(Answer(200, [], LARGE[:size]), tenant)


# ---- one client ------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_a_large_answer_that_nobody_reads_is_kept_but_for_one_piece_and_counted_in_full() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    client = deaf(edge, app)
    await settle()
    assert len(client.received) == PIECE
    assert edge.unsent.total > MIB
    client.read_all()
    await settle()
    assert client.heard().bodies == [LARGE]
    assert edge.unsent.total == 0


@in_virtual_time
async def test_a_large_answer_takes_several_turns_and_others_go_between() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    clients = [Client(edge), Client(edge)]
    for client in clients:
        client.send(get("/"))
        answer(app.asked[-1])
    sent = []
    for _ in range(4):
        sent.append([len(client.received) for client in clients])
        await asyncio.sleep(0)
    assert sent == [[0, 0], [AT_ONCE, 0], [AT_ONCE, AT_ONCE], [2 * AT_ONCE, AT_ONCE]]
    await settle()
    assert [client.heard().bodies for client in clients] == [[LARGE], [LARGE]]


@in_virtual_time
async def test_nothing_more_is_read_or_asked_until_a_large_answer_has_gone() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    client = deaf(edge, app, path="/1")
    client.send(get("/2") + get("/3"), get("/4"))
    await asyncio.sleep(20)
    assert (app.urls, client.is_read()) == ([b"/1"], False)
    client.read_all()
    for _ in range(3):
        await settle()
        app.asked[-1].answer()
    await settle()
    assert client.heard().bodies == [LARGE, b"/2", b"/3", b"/4"][: len(app.urls)]
    assert app.urls == [b"/1", b"/2", b"/3", b"/4"]


@in_virtual_time
async def test_what_came_with_a_request_waits_for_its_large_answer() -> None:
    app = EchoApp(at_once=False)
    client = Client(edge_with(app))
    client.slow = True
    client.send(get("/1") + get("/2") + b"this is not HTTP\r\n\r\n")
    answer(app.asked[0])
    await settle()
    assert app.urls == [b"/1"]
    client.read_all()
    await settle()
    app.asked[1].answer()
    await settle()
    assert client.heard().statuses == [200, 200, 400]


@pytest.mark.parametrize("leaves", [False, True])
@in_virtual_time
async def test_the_last_answer_goes_in_full_before_the_connection_ends(leaves: bool) -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    client = Client(edge)
    client.slow = True
    client.send(get("/", "connection: close"))
    answer(app.asked[0])
    await settle()
    assert not client.closed
    if leaves:
        client.leave()
    else:
        client.read_all()
        await settle()
        assert client.heard().bodies == [LARGE]
        assert client.closed
    assert (edge.unsent.total, edge.connections) == (0, set())


@pytest.mark.parametrize("size", [100, MIB])
@in_virtual_time
async def test_a_client_that_never_reads_is_ended_after_its_time_and_counts_no_more(size: int) -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app, send_seconds=30.0)
    client = deaf(edge, app, size=size)
    assert edge.unsent.total >= size
    await asyncio.sleep(32)
    assert client.aborted
    assert (edge.unsent.total, edge.connections) == (0, set())


# ---- all of them together --------------------------------------------------------------------------------------


@in_virtual_time
async def test_unread_answers_are_bounded_together_and_the_earliest_are_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app, max_unsent=10 * MIB)
    with caplog.at_level(logging.WARNING, "penstock.doors"):
        clients = []
        for _ in range(20):
            clients.append(deaf(edge, app))
            assert edge.unsent.total <= 10 * MIB
    await settle()
    cut = [client.aborted for client in clients]
    assert cut == [True] * 11 + [False] * 9
    assert edge.unsent.crowded_out == 11
    assert "limits.max_unsent_bytes" in caplog.text
    for client in clients[11:]:
        client.read_all()
    await settle(100)
    assert [client.heard().bodies for client in clients[11:]] == [[LARGE]] * 9
    assert edge.unsent.total == 0


@in_virtual_time
async def test_strangers_give_way_first_and_then_the_tenant_with_the_most() -> None:
    app = EchoApp(at_once=False)
    edge = with_keys(app, max_unsent=8 * MIB)
    modest = deaf(edge, app, "modest")
    strangers = [deaf(edge, app) for _ in range(3)]
    greedy = [deaf(edge, app, "greedy") for _ in range(6)]
    await settle()
    assert not modest.aborted
    assert [each.aborted for each in strangers] == [True, True, False]
    assert [each.aborted for each in greedy] == [True] + [False] * 5


@in_virtual_time
async def test_without_keys_a_name_is_no_way_around_the_bound() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app, max_unsent=4 * MIB)
    clients = [deaf(edge, app, f"name-{index}") for index in range(6)]
    await settle()
    assert [each.aborted for each in clients] == [True, True, True, False, False, False]


# ---- HTTP/2 ----------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_streams_with_shut_windows_are_counted_in_full_and_reset_when_there_is_no_room() -> None:
    app = EchoApp(at_once=False)
    edge = with_keys(app, max_unsent=4 * MIB)
    line = Line(edge, reads=False)
    line.machine.update_settings({4: 10})
    numbers = []
    for index in range(6):
        numbers.append(line.get(f"/{index}"))
        answer(app.asked[-1], "acme")
        assert edge.unsent.total <= 4 * MIB
    assert [line.answer(number).reset for number in numbers] == [ErrorCodes.CANCEL] * 2 + [None] * 4
    assert edge.unsent.total == 4 * MIB
    line.machine.increment_flow_control_window(2 * MIB)
    line.machine.increment_flow_control_window(MIB - 11, numbers[-1])
    assert line.answer(numbers[-1]).body == LARGE[:-1]
    assert edge.unsent.total == 4 * MIB  # a byte keeps all of it
    line.machine.increment_flow_control_window(1, numbers[-1])
    assert line.answer(numbers[-1]).ended
    assert edge.unsent.total == 3 * MIB
    await asyncio.sleep(32)
    assert (edge.unsent.total, line.closed) == (0, False)


@in_virtual_time
async def test_a_client_of_many_streams_that_does_not_read_keeps_one_piece_in_the_transport() -> None:
    app = EchoApp(at_once=False)
    edge = edge_with(app)
    line = Line(edge, reads=False)
    line.machine.update_settings({4: 2 * MIB})
    line.machine.increment_flow_control_window(100 * MIB)
    numbers = [line.get(f"/{index}") for index in range(4)]
    line.wire.slow = True
    before = len(line.wire.received)
    for asked in app.asked:
        answer(asked)
    await settle()
    assert len(line.wire.received) - before < 2 * PIECE
    assert edge.unsent.total >= 4 * MIB
    line.wire.read_all()
    await settle(100)
    assert [line.answer(number).body for number in numbers] == [LARGE] * 4
    assert edge.unsent.total == 0
