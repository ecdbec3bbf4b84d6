"""Real HTTP endpoints for tests, well-behaved and otherwise, and a backend that talks to them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from penstock.adapters.backends.http import HttpBackend, HttpShape
from penstock.errors import BackendError
from penstock.types import Batch, Reason, Request, Result
from redis_servers import becomes

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# An endpoint that is well may answer late: who tests one of these limits sets it.
PATIENT: dict[str, Any] = {"connect_timeout": 60.0, "probe_timeout": 60.0}


def batch_of(*inputs: bytes, parameters: bytes = b"", traceparents: tuple[str | None, ...] = ()) -> Batch:
    requests = [Request(f"k{i}", "m", text, 0.0, 9.0, 9.0) for i, text in enumerate(inputs)]
    for request, traceparent in zip(requests, traceparents, strict=False):
        request.traceparent = traceparent
        request.tracestate = traceparent and f"vendor={request.key}"
    return Batch(17, "m", parameters, requests, Reason.FULL, 0.0)


async def echo(request: web.Request) -> web.Response:
    return web.json_response({"outputs": (await request.json())["inputs"]})


@asynccontextmanager
async def serving(
    handler: Handler, health: Handler | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/batch", handler)
    if health:
        app.router.add_get("/health", health)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{runner.addresses[0][1]}/batch"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def saying(words: bytes, *, reset: bool = False) -> AsyncIterator[str]:
    """A server that answers every request with these bytes and hangs up (or resets)."""

    writers: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if await reader.read(65536):
            writer.write(words)
            if reset:
                writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/batch"
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def backend_for(
    url: str, shape: HttpShape | None = None, **settings: Any
) -> AsyncIterator[HttpBackend]:
    backend = HttpBackend(url, shape, **{"output_kind": "json", **PATIENT, **settings})
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


async def loss_noticed(backend: HttpBackend) -> None:
    """Until it knows that the connections it has kept are gone."""
    connector = backend._open().connector
    assert connector is not None
    kept = [protocol for connections in connector._conns.values() for protocol, _ in connections]
    await becomes(lambda: not any(protocol.is_connected() for protocol in kept))


def answer(
    handler: Handler, batch: Batch, shape: HttpShape | None = None, **settings: Any
) -> Result | BackendError:
    """What one run against such a handler gives: a result, or the backend's error."""

    async def body() -> Result | BackendError:
        async with serving(handler) as url, backend_for(url, shape, **settings) as backend:
            try:
                return await backend.run(batch)
            except BackendError as error:
                return error

    return asyncio.run(body())


def answer_to_words(words: bytes, *, reset: bool = False) -> BackendError:
    async def body() -> BackendError:
        async with saying(words, reset=reset) as url, backend_for(url) as backend:
            with pytest.raises(BackendError) as caught:
                await backend.run(batch_of(b"1"))
            return caught.value

    return asyncio.run(body())


def handler_of(response: Callable[[], web.Response]) -> Handler:
    async def handle(_: web.Request) -> web.Response:
        return response()

    return handle


async def hang(_: web.Request) -> web.Response:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("never reached")
