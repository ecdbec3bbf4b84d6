"""How many connections are read from in one turn of the loop: on real sockets, by turns and not by the clock."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from socket import create_connection, socket
from typing import Any

import uvloop

from edge_kit import EchoApp
from penstock.edge.edge import Edge, EdgeLimits
from penstock.edge.http1 import Connection
from penstock.edge.reads import LARGE_AT_ONCE, NEW_AT_ONCE, Reads
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


def test_of_many_large_bodies_a_turn_reads_a_few_and_all_arrive() -> None:
    async def scene(edge: Edge, app: EchoApp, clients: list[socket]) -> None:
        for client in clients:
            client.sendall(post(b"", length=SIZE))
        await turns_until(lambda: Counted.reads == CLIENTS)
        for client in clients:
            client.setblocking(False)
        for _ in range(2):  # all of them have their turn, and send at the same moment again
            for client in clients:
                assert client.send(b"x" * 1000) == 1000
            Counted.reads = 0
            assert await turns_until(lambda: Counted.reads == CLIENTS) <= LARGE_AT_ONCE
        loop = asyncio.get_running_loop()
        rest = b"x" * (SIZE - 2000)
        sending = asyncio.gather(*(loop.sock_sendall(client, rest) for client in clients))
        assert await turns_until(lambda: len(app.asked) == CLIENTS) <= LARGE_AT_ONCE
        await sending
        assert {len(asked.body) for asked in app.asked} == {SIZE}

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

    def go_on(self) -> bool:
        self._order.append(self.holder)
        return False


def test_tenants_take_turns_whatever_one_of_them_has_sent_before() -> None:
    async def body() -> None:
        order: list[str] = []
        reads = Reads(asyncio.get_running_loop(), bare=False)
        for holder in [*["greedy"] * 20, "modest", "modest"]:
            reads.wait(Sender(holder, order), -1)
        await turns_until(lambda: len(order) == 22)
        assert order[:4] == ["greedy", "modest", "greedy", "modest"]

    uvloop.run(body())
