"""Whom webhooks call, and whom never."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from socket import create_server
from typing import Any

import pytest
from aiohttp import web

from penstock.adapters.webhooks.addresses import literal, may_be_called
from penstock.adapters.webhooks.courier import HttpCourier
from penstock.ports.webhooks import Undelivered

HERE = [ip_network("127.0.0.0/8"), ip_network("::1/128")]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
        "2002:a00:1::1",
        # Others that stand for one of IPv4: of a site's own translation, of SIIT, and with nothing before it.
        "64:ff9b:1::7f00:1", "64:ff9b:1::101:101", "::ffff:0:7f00:1", "::ffff:0:a9fe:a9fe", "::7f00:1",
        "::a9fe:a9fe",
        # Outside of what is routed: site-local, segments, documentation, the relay of 6to4.
        "fec0::1", "feff::1", "5f00::1", "3fff::1", "4000::1", "192.88.99.1",
        # Under which Azure and Oracle tell credentials to their machines.
        "168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110", "192.0.0.192",
    ],
)  # fmt: skip
def test_an_address_that_is_not_open_to_all_the_world_is_never_called(address: str) -> None:
    assert not may_be_called(address, [])


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_one_that_is_may_be_called(address: str) -> None:
    assert may_be_called(address, [])


def test_private_networks_that_are_listed_may_be_called_and_no_others() -> None:
    listed = [ip_network(each) for each in ("10.1.0.0/16", "fd12::/32", "64:ff9b:1::/48", "168.63.129.16/32")]
    assert may_be_called("10.1.2.3", listed)
    assert may_be_called("::ffff:10.1.2.3", listed)
    assert may_be_called("fd12::5", listed)
    assert may_be_called("64:ff9b:1::a01:203", listed)
    assert may_be_called("168.63.129.16", listed)
    assert not may_be_called("10.2.2.3", listed)
    assert not may_be_called("fd13::5", listed)


def test_a_host_that_is_an_address_is_told_from_a_name() -> None:
    assert [literal(each) for each in ("10.0.0.1", "[::1]", "a.example", "127.1")] == [
        "10.0.0.1",
        "::1",
        None,
        None,
    ]


@pytest.mark.parametrize(
    "host",
    [
        "127.1", "2130706433", "0x7f000001", "0X7F.0.0.1", "0x7f.1", "0177.0.0.1", "017700000001", "127.0.0.1.",
        "8.8.8.010", "999.1.1.1", "a.example.0x7f", "1.2.3.4.5",
    ],
)  # fmt: skip
def test_an_address_in_an_unusual_form_is_no_name(host: str) -> None:
    everything = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    assert "usual form" in HttpCourier(everything, 1.0).why_not(host)


@pytest.mark.parametrize(
    "host", ["a.example", "127.example", "0x7f.example.", "xn--80ak6aa92e.example", "a1", "8.8.8.8"]
)
def test_a_name_is_no_number(host: str) -> None:
    assert HttpCourier([], 1.0).why_not(host) == ""


@asynccontextmanager
async def listening(
    status: int = 200, headers: dict[str, str] | None = None
) -> AsyncIterator[tuple[int, list[Any]]]:
    heard = list[Any]()

    async def take(request: web.Request) -> web.Response:
        heard.append((request.path, dict(request.headers), await request.read()))
        return web.Response(status=status, headers=headers or {}, body=b"x" * 100_000)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1], heard
    finally:
        await runner.cleanup()


@asynccontextmanager
async def courier_to(*networks: Any, timeout: float = 60.0) -> AsyncIterator[HttpCourier]:
    courier = HttpCourier(networks, timeout)
    try:
        yield courier
    finally:
        await courier.close()


async def told_of(status: int, headers: dict[str, str]) -> tuple[int, float | None, list[Any]]:
    async with listening(status, headers) as (port, heard), courier_to(*HERE) as courier:
        posted = await courier.post(f"http://127.0.0.1:{port}/done?a=b", {"x-a": "1"}, b"{}")
        return posted.status, posted.retry_after, heard


@pytest.mark.parametrize(
    ("status", "headers", "pause"),
    [
        (200, {}, None),
        (503, {"Retry-After": "17"}, 17.0),
        (429, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, None),
        (302, {"Location": "http://127.0.0.1:1/elsewhere"}, None),
    ],
)
def test_a_message_is_carried_and_its_answer_told_and_nothing_is_followed(
    status: int, headers: dict[str, str], pause: float | None
) -> None:
    told, wait, heard = asyncio.run(told_of(status, headers))
    assert (told, wait) == (status, pause)
    [(path, fields, body)] = heard
    assert (path, fields["x-a"], body) == ("/done", "1", b"{}")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "[::1]", "0.0.0.0"])
def test_what_leads_to_this_machine_is_not_called_unless_it_is_listed(host: str) -> None:
    async def scene() -> None:
        async with listening() as (port, heard), courier_to() as courier:
            if not courier.why_not(host):
                with pytest.raises(Undelivered):
                    await courier.post(f"http://{host}:{port}/", {}, b"")
            assert heard == []

    asyncio.run(scene())


def test_a_name_that_leads_to_what_is_listed_is_called() -> None:
    async def scene() -> None:
        async with listening() as (port, heard), courier_to(*HERE) as courier:
            assert (await courier.post(f"http://localhost:{port}/", {}, b"")).status == 200
            assert len(heard) == 1

    asyncio.run(scene())


def test_whoever_does_not_answer_is_told_without_its_address() -> None:
    async def scene() -> None:
        async with courier_to(*HERE) as courier:
            with pytest.raises(Undelivered) as refused:
                await courier.post("http://127.0.0.1:1/secret", {}, b"")
            assert "secret" not in refused.value.message
        with create_server(("127.0.0.1", 0)) as silent:
            # A short time, so that the test need not wait.
            async with courier_to(*HERE, timeout=0.05) as courier:
                with pytest.raises(Undelivered, match="no answer in time"):
                    await courier.post(f"http://127.0.0.1:{silent.getsockname()[1]}/", {}, b"")

    asyncio.run(scene())
