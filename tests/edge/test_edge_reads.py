"""How much is read in one turn of the loop, and from whom: on real sockets, by turns and not by the clock."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from math import ceil
from socket import create_connection, socket
from typing import Any

import uvloop

from edge_kit import EchoApp
from penstock.edge.edge import Edge, EdgeLimits
from penstock.edge.http1 import Connection
from penstock.edge.reads import AT_ONCE, FIRST_WORDS, LEAST, NEW_AT_ONCE, Reads
from penstock.server.listen import DataListener, bind
from wire import post

CLIENTS = 40
SIZE = 200_000
HALF = SIZE // 2


class Counted(Connection):
    """Counts what the loop reads."""

    reads = 0

    def data_received(self, data: bytes) -> None:
        Counted.reads += 1
        super().data_received(data)


Scene = Callable[[Edge, EchoApp, list[socket]], Coroutine[Any, Any, None]]


def with_clients(scene: Scene) -> None:
    """Clients that are connected, have said nothing, and are known to the edge."""

    async def body() -> None:
        app, bound, loop = EchoApp(), bind("127.0.0.1", 0, ""), asyncio.get_running_loop()
        edge = Edge(app, EdgeLimits(), loop, time.monotonic)
        edge._make = Counted
        listener = DataListener(edge, bound)
        await listener.start()
        try:
            with ExitStack() as there:
                clients = [
                    there.enter_context(create_connection(bound.getsockname())) for _ in range(CLIENTS)
                ]
                await turns_until(lambda: len(edge.reads._watched) == CLIENTS)
                Counted.reads = 0
                await scene(edge, app, clients)
        finally:
            listener.close()

    uvloop.run(body())


async def turns_until(so: Callable[[], bool]) -> int:
    """The most that was read in one turn meanwhile."""
    most = 0
    async with asyncio.timeout(60.0):
        while not so():
            before = Counted.reads
            await asyncio.sleep(0)
            most = max(most, Counted.reads - before)
    return most


def test_of_many_new_clients_that_ask_at_the_same_moment_a_turn_hears_a_few() -> None:
    async def scene(edge: Edge, app: EchoApp, clients: list[socket]) -> None:
        for client in clients:  # without a turn of the loop in between
            client.sendall(post(b"body"))
        assert await turns_until(lambda: len(app.asked) == CLIENTS) <= NEW_AT_ONCE

    with_clients(scene)


def test_of_many_large_bodies_a_turn_reads_so_many_bytes_and_all_arrive() -> None:
    async def scene(edge: Edge, app: EchoApp, clients: list[socket]) -> None:
        most, before = 0, 0

        def so_far(size: int) -> bool:
            nonlocal most, before
            most, before = max(most, edge.held.total - before), edge.held.total
            return edge.held.total == size

        for client in clients:
            client.sendall(post(b"x" * HALF, length=SIZE))
        await turns_until(lambda: so_far(CLIENTS * HALF))
        assert most <= AT_ONCE + NEW_AT_ONCE * FIRST_WORDS
        most = 0
        for client in clients:  # all of them have had their turn, and send at the same moment again
            client.sendall(b"x" * (HALF - 1))
        await turns_until(lambda: so_far(CLIENTS * (SIZE - 1)))
        assert most <= AT_ONCE
        for client in clients:
            client.sendall(b"x" + post(b"next"))  # what follows a body is not taken for its end
        await turns_until(lambda: len(app.asked) == 2 * CLIENTS)
        assert sorted(len(asked.body) for asked in app.asked) == [4] * CLIENTS + [SIZE] * CLIENTS

    with_clients(scene)


def test_a_small_request_of_a_new_client_waits_for_the_heads_of_others_and_not_for_their_bodies() -> None:
    async def scene(edge: Edge, app: EchoApp, clients: list[socket]) -> None:
        for client in clients[:-1]:
            client.sendall(post(b"x" * HALF, length=SIZE))
        clients[-1].sendall(post(b"small"))
        await turns_until(lambda: bool(app.asked))
        assert edge.held.total <= CLIENTS * FIRST_WORDS + ceil(CLIENTS / NEW_AT_ONCE) * AT_ONCE
        assert edge.held.total < CLIENTS * HALF

    with_clients(scene)


def test_many_who_leave_in_their_bodies_are_let_go_a_few_at_a_time() -> None:
    async def scene(edge: Edge, app: EchoApp, clients: list[socket]) -> None:
        for client in clients:
            client.sendall(post(b"x" * HALF, length=SIZE))
        await turns_until(lambda: edge.held.total == CLIENTS * HALF)
        for client in clients:
            client.close()
        most, before = 0, len(edge.connections)

        def all_gone() -> bool:
            nonlocal most, before
            most, before = max(most, before - len(edge.connections)), len(edge.connections)
            return not edge.connections

        await turns_until(all_gone)
        assert most <= AT_ONCE // LEAST

    with_clients(scene)


def test_chunks_of_a_large_body_are_read_in_turns_too() -> None:
    async def scene(edge: Edge, app: EchoApp, clients: list[socket]) -> None:
        chunk = b"%x\r\n%b\r\n" % (HALF, b"x" * HALF)
        for client in clients:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
        await turns_until(lambda: edge.held.total == CLIENTS * HALF)
        for client in clients:
            client.sendall(chunk + b"0\r\n\r\n" + post(b"next"))
        await turns_until(lambda: len(app.asked) == 2 * CLIENTS)
        assert sorted(len(asked.body) for asked in app.asked) == [4] * CLIENTS + [SIZE] * CLIENTS

    with_clients(scene)


def test_a_refused_client_is_heard_until_it_has_read_why() -> None:
    async def scene(edge: Edge, app: EchoApp, clients: list[socket]) -> None:
        client = clients[0]
        client.sendall(post(b"x" * HALF, length=SIZE))
        await turns_until(lambda: edge.held.total == HALF)
        next(
            iter(holding for account in edge.held._accounts.values() for holding in account.members)
        ).crowded_out()
        client.sendall(b"x" * 1000)
        await turns_until(lambda: len(edge.reads._watched) == CLIENTS)
        client.setblocking(False)
        answered = await asyncio.get_running_loop().sock_recv(client, 65536)
        assert answered.startswith(b"HTTP/1.1 503")
        client.close()
        await turns_until(lambda: len(edge.connections) == CLIENTS - 1)

    with_clients(scene)


def test_one_who_waits_and_leaves_is_forgotten() -> None:
    async def scene(edge: Edge, app: EchoApp, clients: list[socket]) -> None:
        for client in clients[: CLIENTS // 2]:
            client.sendall(post(b"x" * HALF, length=SIZE))
        await turns_until(lambda: edge.held.total == HALF * CLIENTS // 2)
        for client in clients:
            client.close()
        await turns_until(lambda: not edge.connections)
        assert (edge.reads._watched, edge.held.total) == ({}, 0)

    with_clients(scene)


class Sender:
    state = 3

    def __init__(self, holder: str, order: list[str]) -> None:
        self.holder = holder
        self._order = order

    def hear(self, most: int) -> int:
        self._order.append(self.holder)
        return most


def test_tenants_take_turns_whatever_one_of_them_has_sent_before() -> None:
    async def body() -> None:
        order: list[str] = []
        reads = Reads(asyncio.get_running_loop(), bare=False)
        for holder in [*["greedy"] * 20, "modest", "modest"]:
            reads.wait(Sender(holder, order), -1)
        await turns_until(lambda: len(order) == 22)
        assert order[:4] == ["greedy", "modest", "greedy", "modest"]

    uvloop.run(body())
