"""Answers that come in parts, between the admin plane's edge and its application; without sockets."""

import asyncio
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from edge_kit import Client, get, in_virtual_time, settle
from penstock.admin.guard import Guard
from penstock.edge.edge import EdgeLimits
from penstock.edge.http1_open_ended import MOST_WAITING
from penstock.server.admin_plane import MOST_AT_ONCE, AdminConnection, AdminEdge, AdminPlane


class Source:
    """An application with a stream of which the test says when something comes."""

    def __init__(self) -> None:
        self.parts: list[asyncio.Queue[bytes]] = []
        self.ended = 0
        self.app = Starlette(routes=[Route("/stream", self._stream), Route("/", self._page)])

    async def _page(self, request: Request) -> Response:
        return PlainTextResponse("page")

    async def _stream(self, request: Request) -> Response:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.parts.append(queue)

        async def events() -> AsyncIterator[bytes]:
            try:
                while part := await queue.get():
                    yield part
            finally:
                self.ended += 1

        return StreamingResponse(events(), media_type="text/plain")


def edge_of(source: Source) -> AdminEdge:
    loop = asyncio.get_running_loop()
    plane = AdminPlane(source.app, Guard("127.0.0.1", ["test"]))
    return AdminEdge(plane, EdgeLimits(), loop, loop.time)


def client_of(edge: AdminEdge, path: str = "/stream") -> Client:
    client = Client(edge, AdminConnection)
    client.send(get(path))
    return client


@in_virtual_time
async def test_parts_are_sent_as_they_come_and_the_connection_ends_with_the_last() -> None:
    source = Source()
    client = client_of(edge_of(source))
    await settle(20)
    source.parts[0].put_nowait(b"one")
    await settle(20)
    head, _, body = client.received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-length" not in head
    assert b"connection: close" in head
    assert (body, client.closed) == (b"one", False)
    source.parts[0].put_nowait(b" two")
    source.parts[0].put_nowait(b"")
    await settle(20)
    assert client.received.endswith(b"one two")
    assert client.closed
    assert source.ended == 1


@in_virtual_time
async def test_the_application_is_told_of_a_client_that_leaves() -> None:
    source = Source()
    client = client_of(edge_of(source))
    await settle(20)
    source.parts[0].put_nowait(b"one")
    await settle(20)
    client.leave()
    await settle(20)
    assert source.ended == 1


@in_virtual_time
async def test_a_client_that_does_not_read_is_cut_off() -> None:
    source = Source()
    client = client_of(edge_of(source))
    await settle(20)
    client.slow = True
    source.parts[0].put_nowait(bytes(MOST_WAITING + 1))
    await settle(20)
    assert (client.aborted, client.closed) == (False, False)
    source.parts[0].put_nowait(b"more")
    await settle(20)
    assert client.aborted
    assert source.ended == 1


@in_virtual_time
async def test_streams_do_not_take_the_places_of_requests() -> None:
    source = Source()
    edge = edge_of(source)
    for _ in range(MOST_AT_ONCE):
        client_of(edge)
    await settle(20)
    for queue in source.parts:
        queue.put_nowait(b"one")
    await settle(20)
    other = client_of(edge, "/")
    await settle(20)
    assert other.heard().bodies == [b"page"]
