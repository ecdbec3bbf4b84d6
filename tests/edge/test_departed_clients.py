"""Clients that leave while nothing is read from them; over real sockets, for only a kernel can tell."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from socket import create_connection, socket

import uvloop

from edge_kit import EchoApp, get
from penstock.edge.edge import Edge, EdgeLimits
from penstock.server.listen import DataListener, bind


@asynccontextmanager
async def served(app: EchoApp) -> AsyncIterator[tuple[Edge, socket]]:
    """An edge and a client that has connected to it."""
    bound = bind("127.0.0.1", 0, "")
    edge = Edge(app, EdgeLimits(), asyncio.get_running_loop(), time.monotonic)
    listener = DataListener(edge, bound)
    await listener.start()
    with create_connection(bound.getsockname()) as client:
        try:
            yield edge, client
        finally:
            listener.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60.0):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def run(scene: Callable[[], Awaitable[None]]) -> None:
    async def body() -> None:
        await scene()

    uvloop.run(body())


def test_what_a_client_sent_ahead_is_not_executed_once_it_has_left() -> None:
    async def scene() -> None:
        app = EchoApp(at_once=False)
        async with served(app) as (edge, client):
            client.sendall(get("/first") + get("/x") * 5000)
            await until(lambda: bool(edge.deaf))
            client.close()
            app.at_once = True
            app.asked[0].answer()
            await until(lambda: not edge.connections)
        assert len(app.asked) == 1

    run(scene)


def test_that_it_has_left_is_noticed_while_its_first_request_waits() -> None:
    async def scene() -> None:
        app = EchoApp(at_once=False)
        async with served(app) as (edge, client):
            client.sendall(get("/first") + get("/second"))
            await until(lambda: bool(edge.deaf))
            client.close()
            await until(lambda: bool(app.asked[0].times_left))
            assert (len(app.asked), edge.connections, edge.deaf) == (1, set(), set())

    run(scene)


def test_one_that_stays_is_answered() -> None:
    async def scene() -> None:
        app = EchoApp(at_once=False)
        async with served(app) as (edge, client):
            client.sendall(get("/first") + get("/x") * 500)
            await until(lambda: bool(edge.deaf))
            app.at_once = True
            app.asked[0].answer()
            await until(lambda: len(app.asked) == 501 and not edge.deaf)

    run(scene)
