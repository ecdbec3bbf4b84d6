"""The edge and the handshakes that come to nothing: counted, forgotten, and without a trace; on real sockets."""

import asyncio
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import uvloop

from certificates import Authority, Pair
from penstock.edge.answer import Answer
from penstock.edge.bounds import State
from penstock.edge.caller import Caller
from penstock.edge.edge import Edge, EdgeLimits
from penstock.edge.fields import Headers
from penstock.edge.heads import Head
from penstock.edge.http1 import Connection
from penstock.edge.http2 import Http2Connection
from penstock.edge.opening import Opening
from penstock.edge.tls import AdminTls, ServerTls, Tls, TlsSettings
from redis_servers import becomes

Attempt = Callable[[int], Coroutine[Any, Any, None]]


async def not_tls(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with closing(writer):
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await ended(reader)


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


class Refusing:
    """An application that wants nothing of anybody."""

    def handle(
        self, caller: Caller, method: bytes, url: bytes, headers: dict[bytes, bytes], body: bytes
    ) -> None:
        caller.respond(Answer(400, [], b""))

    def handle_ordinary(self, caller: Caller, head: Head, body: bytes) -> None:
        caller.respond(Answer(400, [], b""))

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        caller.respond(Answer(400, [], b""))


@asynccontextmanager
async def edge_behind(tls: Tls, **limits: float) -> AsyncIterator[tuple[Edge, int]]:
    """An edge and its port."""
    loop = asyncio.get_running_loop()
    edge = Edge(Refusing(), EdgeLimits(**limits), loop, loop.time, tls)  # type: ignore[arg-type]
    server = await loop.create_server(edge, "127.0.0.1", 0)
    try:
        yield edge, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        edge.close()
        await becomes(lambda: not edge.connections)


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def pair(authority: Authority, tmp_path: Path) -> Pair:
    return authority.issue(tmp_path, "server")


def test_the_tls_of_the_admin_plane_promises_nothing_that_it_does_not_have(pair: Pair) -> None:
    def names(of: object) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")}

    whole = ServerTls(TlsSettings(pair.certificate, pair.key))
    admin = AdminTls(whole)
    assert names(admin) == names(Tls)
    assert admin.context is whole.admin_context


@pytest.mark.parametrize("attempt", [not_tls, half_a_greeting, too_old])
def test_a_handshake_that_fails_leaves_nothing_behind(attempt: Attempt, pair: Pair) -> None:
    tls = ServerTls(TlsSettings(pair.certificate, pair.key, minimum="1.3"))

    async def body() -> None:
        async with edge_behind(tls) as (edge, port):
            gc.collect()
            gc.disable()
            try:
                for _ in range(5):
                    await attempt(port)
                await becomes(lambda: tls.failed_handshakes == 5)
                await becomes(lambda: not edge.connections)
                await becomes(lambda: not any(isinstance(each, Opening) for each in gc.get_objects()))
            finally:
                gc.enable()

    uvloop.run(body())


class Unfit:
    """Its context is none, which no handshake expects."""

    context: Any = "not a context"
    dead = False
    failed_handshakes = 0

    def handshake_failed(self) -> None:
        self.failed_handshakes += 1

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_handshake_that_fails_inside_the_server_is_over_too(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        tls = Unfit()
        async with edge_behind(tls) as (edge, port):
            for _ in range(3):
                await not_tls(port)
            await becomes(lambda: not edge.connections)
            assert tls.failed_handshakes == 3

    uvloop.run(body())
    assert [record.getMessage() for record in caplog.records] == [
        "a TLS handshake failed inside the server"
    ] * 3


def test_a_handshake_that_takes_too_long_is_ended(pair: Pair) -> None:
    async def body() -> None:
        tls = ServerTls(TlsSettings(pair.certificate, pair.key))
        async with edge_behind(tls, head_seconds=0.1) as (edge, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with closing(writer):
                await ended(reader)
                await becomes(lambda: not edge.connections)

    uvloop.run(body())


def test_a_refused_client_that_does_not_take_leave_is_cut_off(authority: Authority, pair: Pair) -> None:
    def refused(port: int) -> ssl.SSLSocket:
        bare = socket.create_connection(("127.0.0.1", port), timeout=60)
        secured = authority.trusting().wrap_socket(bare, server_hostname="localhost")
        try:
            secured.sendall(b"nonsense\r\n\r\n")
            assert secured.recv(12) == b"HTTP/1.1 400"
        except BaseException:
            secured.close()
            raise
        return secured

    async def body() -> None:
        tls = ServerTls(TlsSettings(pair.certificate, pair.key))
        async with edge_behind(tls, linger_seconds=0.2, send_seconds=1000.0) as (edge, port):
            with await asyncio.to_thread(refused, port):
                await becomes(lambda: not edge.connections)

    uvloop.run(body())


@pytest.mark.parametrize(
    ("offered", "http2", "agreed"),
    [
        (["h2", "http/1.1"], True, "h2"),
        (["http/1.1"], True, "http/1.1"),
        (["h2", "http/1.1"], False, "http/1.1"),
        ([], True, None),
    ],
)
def test_http_2_is_spoken_where_both_sides_offer_it(
    authority: Authority, pair: Pair, offered: list[str], http2: bool, agreed: str | None
) -> None:
    async def body() -> None:
        tls = ServerTls(TlsSettings(pair.certificate, pair.key, http2=http2))
        context = authority.trusting(None, *offered)
        async with edge_behind(tls) as (edge, port), shaken(port, context) as session:
            assert session.selected_alpn_protocol() == agreed
            kind = Http2Connection if agreed == "h2" else Connection
            await becomes(lambda: [type(each) for each in edge.connections] == [kind])

    uvloop.run(body())


@asynccontextmanager
async def shaken(port: int, context: ssl.SSLContext) -> AsyncIterator[ssl.SSLObject]:
    """A client that has done its part of the handshake, and says nothing more."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield writer.get_extra_info("ssl_object")
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(("wanted", "strangers", "nobodies"), [("optional", 0, 1), ("none", 1, 1)])
def test_a_certificate_is_asked_for_as_the_settings_say(
    authority: Authority, pair: Pair, tmp_path: Path, wanted: str, strangers: int, nobodies: int
) -> None:
    own, stranger = authority.issue(tmp_path, "own"), Authority("another").issue(tmp_path, "stranger")
    tls = ServerTls(TlsSettings(pair.certificate, pair.key, authority.save(tmp_path), wanted))

    async def served(client: Pair | None) -> int:
        before = tls.failed_handshakes
        async with edge_behind(tls) as (edge, port), shaken(port, authority.trusting(client)):
            await becomes(lambda: State.NEW in states(edge, Connection) or tls.failed_handshakes > before)
            return len(states(edge, Connection))

    async def body() -> None:
        assert await served(own) == 1
        assert await served(None) == nobodies
        assert await served(stranger) == strangers

    uvloop.run(body())


def states(edge: Edge, kind: type) -> list[int]:
    return [each.state for each in edge.connections if isinstance(each, kind)]
