"""The edge and the handshakes that come to nothing: counted, forgotten, and without a trace; on real sockets."""

import asyncio
import gc
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from certificates import Authority
from penstock.http.app import DataPlane
from penstock.http.edge import Edge, EdgeLimits
from penstock.http.opening import Opening
from penstock.http.tls import ServerTls, TlsSettings
from redis_servers import becomes

Attempt = Callable[[int], Coroutine[Any, Any, None]]


async def not_tls(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await ended(reader)
    writer.close()


async def half_a_greeting(port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16\x03\x01\x02\x00\x01")
    writer.close()


async def too_old(port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError):  # it is told nothing
        await asyncio.open_connection("127.0.0.1", port, ssl=context)


async def ended(reader: asyncio.StreamReader) -> None:
    try:
        assert not await reader.read()
    except ConnectionResetError:
        pass


@pytest.mark.parametrize("attempt", [not_tls, half_a_greeting, too_old])
def test_a_handshake_that_fails_leaves_nothing_behind(attempt: Attempt, tmp_path: Path) -> None:
    pair = Authority().issue(tmp_path, "server")
    tls = ServerTls(TlsSettings(pair.certificate, pair.key, minimum="1.3"))

    async def body() -> None:
        loop = asyncio.get_running_loop()
        app: DataPlane = object()  # type: ignore[assignment]  # nobody gets so far
        edge = Edge(app, EdgeLimits(), loop, loop.time, tls)
        server = await loop.create_server(edge, "127.0.0.1", 0)
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                await attempt(server.sockets[0].getsockname()[1])
            await becomes(lambda: tls.failed_handshakes == 5)
            assert not edge.connections
            assert not [each for each in gc.get_objects() if isinstance(each, Opening)]
        finally:
            gc.enable()
            server.close()
            edge.close()

    uvloop.run(body())


def test_a_handshake_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    pair = Authority().issue(tmp_path, "server")
    tls = ServerTls(TlsSettings(pair.certificate, pair.key))

    async def body() -> None:
        loop = asyncio.get_running_loop()
        app: DataPlane = object()  # type: ignore[assignment]
        edge = Edge(app, EdgeLimits(head_seconds=0.1), loop, loop.time, tls)
        server = await loop.create_server(edge, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await ended(reader)
        await becomes(lambda: not edge.connections)
        writer.close()
        server.close()
        edge.close()

    uvloop.run(body())
