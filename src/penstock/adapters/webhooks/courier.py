"""Carries one message over HTTP, and never to an address that may not be called (`addresses.py`). The webhooks of a
process call it (`runtime/webhooks.py`).

A name is looked up for each connection, and the very addresses that were looked at are connected to: a name that
stands for another address a moment later gains nothing. Redirections are not followed, and proxies that the
environment names are not used.
"""

import asyncio
from collections.abc import Mapping, Sequence
from socket import AddressFamily

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from penstock.adapters.webhooks.addresses import Network, is_number, literal, may_be_called
from penstock.ports.webhooks import Posted, Undelivered

MOST_READ = 1024  # bytes of an answer: only its status counts


class HttpCourier:
    """Implements `ports.webhooks.Courier`."""

    def __init__(self, private: Sequence[Network], timeout: float) -> None:
        """`private`: networks that may be called although they are not open to all the world."""
        self._private = private
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    def why_not(self, host: str) -> str:
        if is_number(host):
            return f"{host} is a number: write the address in its usual form"
        address = literal(host)
        if address is None or may_be_called(address, self._private):
            return ""
        return f"{address} is a private address, and not in webhooks.private"

    async def post(self, url: str, fields: Mapping[str, str], body: bytes) -> Posted:
        try:
            async with self._open().post(url, data=body, headers=fields, allow_redirects=False) as response:
                await response.content.read(MOST_READ)
                return Posted(response.status, _seconds(response.headers.get("retry-after", "")))
        except TimeoutError:
            raise Undelivered("no answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Undelivered(_words(error)) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Nothing is kept open: calls to one address are seldom.
            connector = aiohttp.TCPConnector(
                resolver=_Checked(self._private), use_dns_cache=False, force_close=True, limit=0
            )
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session


class _Checked(AbstractResolver):
    """Looks a name up, and gives no address that may not be called."""

    def __init__(self, private: Sequence[Network]) -> None:
        self._private = private
        self._names: ThreadedResolver | None = None

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AddressFamily.AF_INET
    ) -> list[ResolveResult]:
        if self._names is None:
            self._names = ThreadedResolver(asyncio.get_running_loop())
        found = await self._names.resolve(host, port, family)
        open_ = [each for each in found if may_be_called(each["host"], self._private)]
        if not open_:
            raise OSError("its name stands for private addresses only (webhooks.private)")
        return open_

    async def close(self) -> None:
        if self._names is not None:
            await self._names.close()


def _seconds(said: str) -> float | None:
    """Returns the seconds of a Retry-After; None if it does not name any."""
    return float(said) if said.isascii() and said.isdigit() and len(said) < 7 else None


def _words(error: Exception) -> str:
    """Returns what went wrong, without the URL, which may hold a secret."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {error.os_error.strerror or error.os_error}"
    return type(error).__name__
