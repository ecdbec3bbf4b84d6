"""An endpoint behind TLS: whom we trust, who we say we are, and what a worker says when that fails."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from http_kit import backend_for, batch_of, echo, serving

from certificates import Authority, Pair
from penstock.adapters.backends.endpoint_tls import EndpointTls
from penstock.adapters.backends.http import HttpBackend, HttpShape
from penstock.config import load
from penstock.errors import BackendUnavailable, UserMistake
from penstock.roles.backends import backend_maker
from server import eventually, running

BATCH = batch_of(b'"a"', b'"b"')
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Both loops: they find out about a refused certificate in ways of their own."""
    chosen: Run = request.param
    return chosen


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def server(authority: Authority, tmp_path: Path) -> Pair:
    return authority.issue(tmp_path, "server")


def asking(pair: Pair, clients: Authority | None = None) -> ssl.SSLContext:
    """An endpoint's context; with `clients` it demands a certificate that they signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem.decode())
    return context


def trust(authority: Authority, folder: Path, client: Pair | None = None, **more: Any) -> EndpointTls:
    if client is not None:
        more |= {"client_certificate": str(client.certificate), "client_key": str(client.key)}
    return EndpointTls(ca_file=str(authority.save(folder)), **more)


async def outputs(url: str, tls: EndpointTls, shape: HttpShape | None = None) -> list[bytes]:
    async with backend_for(url, shape, tls=tls) as backend:
        return list((await backend.run(BATCH)).outputs)


async def refusal(url: str, tls: EndpointTls, shape: HttpShape | None = None) -> str:
    with pytest.raises(BackendUnavailable) as caught:
        await outputs(url, tls, shape)
    return caught.value.message


def test_an_endpoint_that_demands_a_certificate_is_shown_ours(
    run: Run, authority: Authority, server: Pair, tmp_path: Path
) -> None:
    tls = trust(authority, tmp_path, authority.issue(tmp_path, "client"))

    async def body() -> None:
        async with serving(echo, health=echo_health, tls=asking(server, authority)) as url:
            assert await outputs(url, tls) == [b'"a"', b'"b"']
            assert await outputs(url, tls, HttpShape(health="/health")) == [b'"a"', b'"b"']

    run(body())


async def echo_health(_: web.Request) -> web.Response:
    return web.Response()


@pytest.mark.parametrize("shape", [HttpShape(), HttpShape(health="/health")], ids=["connect", "health"])
def test_without_our_certificate_the_worker_does_not_start_and_says_why(
    run: Run, authority: Authority, server: Pair, tmp_path: Path, shape: HttpShape
) -> None:
    async def body() -> None:
        async with serving(echo, health=echo_health, tls=asking(server, authority)) as url:
            assert "cannot be reached" in await refusal(url, trust(authority, tmp_path), shape)

    run(body())


@pytest.mark.parametrize("shape", [HttpShape(), HttpShape(health="/health")], ids=["connect", "health"])
def test_an_endpoint_of_another_authority_is_not_trusted(
    run: Run, authority: Authority, server: Pair, tmp_path: Path, shape: HttpShape
) -> None:
    async def body() -> None:
        async with serving(echo, health=echo_health, tls=asking(server)) as url:
            for tls in (trust(Authority("another"), tmp_path), EndpointTls()):
                said = await refusal(url, tls, shape)
                assert "its certificate is not trusted" in said
                assert "http.ca_file" in said
            assert await outputs(url, EndpointTls(verify=False), shape) == [b'"a"', b'"b"']

    run(body())


def test_the_name_in_the_certificate_may_be_another_than_the_host(
    authority: Authority, tmp_path: Path
) -> None:
    async def body() -> None:
        named = authority.issue(tmp_path, "named", "gpu.internal")
        async with serving(echo, tls=asking(named)) as url:
            assert "not trusted" in await refusal(url, trust(authority, tmp_path))
            right = trust(authority, tmp_path, server_name="gpu.internal")
            assert await outputs(url, right) == [b'"a"', b'"b"']

    asyncio.run(body())


def test_a_renewed_certificate_is_shown_at_the_next_batch(
    authority: Authority, server: Pair, tmp_path: Path
) -> None:
    shown: list[str] = []

    async def remember(request: web.Request) -> web.Response:
        assert request.transport is not None
        shown.append(request.transport.get_extra_info("peercert")["subject"][0][0][1])
        return await echo(request)

    async def body() -> None:
        client, renewed = authority.issue(tmp_path, "client"), authority.issue(tmp_path, "renewed")
        async with (
            serving(remember, tls=asking(server, authority)) as url,
            backend_for(url, tls=trust(authority, tmp_path, client)) as backend,
        ):
            await backend.run(BATCH)
            client.certificate.write_text("half of a")
            await backend.run(BATCH)
            client.replace(renewed)
            await backend.run(BATCH)

    asyncio.run(body())
    assert shown == ["client", "client", "renewed"]


def test_files_and_settings_that_cannot_be_used_are_told_before_anything_starts(
    authority: Authority, server: Pair, tmp_path: Path
) -> None:
    other = authority.issue(tmp_path, "other")

    def mistake(url: str = "https://h/batch", **settings: str) -> str:
        with pytest.raises(UserMistake) as caught:
            HttpBackend(url, tls=EndpointTls(**settings))  # type: ignore[arg-type]
        return caught.value.message

    assert mistake(ca_file="none.pem") == "http.ca_file: none.pem cannot be read: No such file or directory"
    assert "holds no certificate" in mistake(ca_file=str(server.key))
    pair = {"client_certificate": str(server.certificate), "client_key": str(other.key)}
    assert "not a certificate and its key" in mistake(**pair)
    assert "starts with https://" in mistake("http://h/batch", ca_file=str(authority.save(tmp_path)))


def test_the_settings_of_a_model_reach_its_backend(tmp_path: Path) -> None:
    given = {"model.target": "https://gpu/batch", "model.http.ca_file": "none.pem"}
    model = load(None, {}, given).models["gpu"]
    with pytest.raises(UserMistake, match="cannot be read"):
        backend_maker("gpu", model)(0)


def test_a_server_whose_endpoint_is_not_trusted_starts_without_that_worker_and_says_why(
    authority: Authority, server: Pair
) -> None:
    async def body() -> None:
        async with serving(echo, tls=asking(server)) as url:
            await asyncio.to_thread(served, url)

    def served(url: str) -> None:
        with running(url) as gateway:
            eventually(
                lambda: "its certificate is not trusted" in gateway.admin("/internal/workers").body.decode()
            )
            assert gateway.admin("/readyz").status == 503

    asyncio.run(body())
