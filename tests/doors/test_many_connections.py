"""New connections get in however busy those are that are there: by turns of the loop, not by the clock."""

import asyncio
import time
from contextlib import ExitStack
from socket import create_connection, socket

import uvloop

from edge_kit import EchoApp, get
from penstock.edge.edge import Edge, EdgeLimits
from penstock.server.listen import DataListener, bind
from wire import Heard, read_responses

CLIENTS = 50


def test_all_who_wait_at_the_door_are_let_in_within_a_few_turns() -> None:
    assert uvloop.run(_turns_until_all_are_in()) <= 10


async def _turns_until_all_are_in() -> int:
    app, bound, turns = EchoApp(), bind("127.0.0.1", 0, ""), 0
    listener = DataListener(Edge(app, EdgeLimits(), asyncio.get_running_loop(), time.monotonic), bound)
    await listener.start()
    try:
        with ExitStack() as there:
            for _ in range(CLIENTS):  # without a turn of the loop in between
                there.enter_context(create_connection(bound.getsockname())).sendall(get("/"))
            async with asyncio.timeout(60.0):
                while len(app.asked) < CLIENTS:
                    await asyncio.sleep(0)
                    turns += 1
    finally:
        listener.close()
    return turns


class ShutMeanwhile(DataListener):
    """Ends while those are being taken in who came at once."""

    async def _take(self, connection: socket) -> None:
        self.close()
        await super()._take(connection)


def test_none_of_them_is_left_standing_there_when_the_door_is_shut() -> None:
    assert uvloop.run(_heard_after_the_end()) == [b""] * CLIENTS


def test_whoever_has_asked_before_the_door_is_shut_is_answered() -> None:
    assert uvloop.run(_answers_to_those_at_the_door()) == [200] * CLIENTS


async def _answers_to_those_at_the_door() -> list[int]:
    loop = asyncio.get_running_loop()
    bound = bind("127.0.0.1", 0, "")
    listener = DataListener(Edge(EchoApp(), EdgeLimits(), loop, time.monotonic), bound)
    await listener.start()
    with ExitStack() as there:
        clients = [there.enter_context(create_connection(bound.getsockname())) for _ in range(CLIENTS)]
        for client in clients:  # without a turn of the loop in between
            client.sendall(get("/"))
            client.setblocking(False)
        leaving = asyncio.create_task(listener.finish(60.0))
        async with asyncio.timeout(60.0):
            heard = [Heard(await loop.sock_recv(client, 65536)) for client in clients]
    await leaving
    listener.close()
    for each in heard:
        read_responses(each)
    return [status for each in heard for status in each.statuses]


async def _heard_after_the_end() -> list[bytes]:
    loop = asyncio.get_running_loop()
    bound = bind("127.0.0.1", 0, "")
    listener = ShutMeanwhile(Edge(EchoApp(), EdgeLimits(), loop, time.monotonic), bound)
    await listener.start()
    try:
        with ExitStack() as there:
            clients = [there.enter_context(create_connection(bound.getsockname())) for _ in range(CLIENTS)]
            for client in clients:
                client.setblocking(False)
            async with asyncio.timeout(60.0):
                return [await loop.sock_recv(client, 1) for client in clients]
    finally:
        listener.close()
