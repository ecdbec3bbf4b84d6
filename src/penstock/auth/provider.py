"""The keys that an identity provider publishes (JWKS): fetched again and again, and kept while the provider is
away. The verifier (`jwt.py`) makes the `Provider`, is handed the keys, and says when one is unknown. A server that
takes tokens runs the fetching as a loop (`doorkeeper.py`).

However many tokens name unknown keys, the provider is asked at most once in `gap` seconds, and all who wait share
one fetch. A fetch that fails, or brings no usable key, changes nothing.
"""

import asyncio
import ipaddress
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from penstock.auth.public_keys import VerifyingKey, offered_keys
from penstock.errors import UserMistake
from penstock.ports import Clock

MOST_BYTES = 512 * 1024  # a JWK set with more bytes is not read

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Where the keys are, and how often they are fetched."""

    url: str = field(repr=False)  # a user and a password may be in it
    refresh: float = 600.0  # seconds from one fetch to the next
    gap: float = 30.0  # seconds between two fetches at least, whatever asks for them
    timeout: float = 3.0  # seconds a fetch may take
    # Whether http:// is allowed to another machine too, although somebody on the way could forge the keys.
    allow_http: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise UserMistake("auth.jwt.jwks_url must start with https://")
        if parts.scheme == "http" and not (self.allow_http or is_this_machine(parts.hostname)):
            raise UserMistake(
                "auth.jwt.jwks_url must start with https://, since keys could be forged on the way; if you trust"
                " the network, set auth.jwt.allow_http = true"
            )

    @property
    def shown(self) -> str:
        """The host, as the log may show it."""
        return urlsplit(self.url).hostname or ""


class Provider:
    """Fetches keys, one fetch at a time. `on_keys` is called with the keys of each that succeeds."""

    def __init__(
        self,
        settings: ProviderSettings,
        on_keys: Callable[[list[VerifyingKey]], None],
        clock: Clock = time.monotonic,
    ) -> None:
        self._settings = settings
        self._on_keys = on_keys
        self._clock = clock
        self._asked: float | None = None  # when the provider was asked last
        self._fetching: asyncio.Task[None] | None = None  # the fetch that is under way
        self.answered = False  # whether the provider ever gave keys
        self.away = False  # whether the last fetch failed

    @property
    def due(self) -> bool:
        """Whether asking may help: a fetch is under way, or another one is allowed."""
        return self._fetching is not None or self.next_in <= 0

    @property
    def next_in(self) -> float:
        """Seconds until the provider may be asked again."""
        return 0.0 if self._asked is None else self._asked + self._settings.gap - self._clock()

    async def refresh(self) -> None:
        """Waits for the fetch that is under way, or starts one and waits for it. Never raises."""
        if self._fetching is None:
            if self.next_in > 0:
                return
            self._asked = self._clock()
            self._fetching = asyncio.create_task(self._fetch())
        # Shielded, because one caller may be cancelled while others wait for the same fetch.
        await asyncio.shield(self._fetching)

    async def run(self) -> None:
        """Fetches the keys at once, and again and again until cancelled, sooner while the provider is away."""
        while True:
            await self.refresh()
            pause = self._settings.gap if self.away else max(self._settings.refresh, self._settings.gap)
            await asyncio.sleep(max(pause, self.next_in))

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    async def _fetch(self) -> None:
        import aiohttp

        try:
            keys = offered_keys(json.loads(await self._read()))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, RecursionError) as error:
            if not self.away:
                kind = type(error).__name__  # the message itself may quote the URL
                _log.warning("no keys from %s (%s): those known stay good", self._settings.shown, kind)
            self.away = True
        else:
            if self.away:
                _log.info("%s gives keys again", self._settings.shown)
            self.away, self.answered = False, True
            self._on_keys(keys)
        finally:
            self._fetching = None

    async def _read(self) -> bytes:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=self._settings.timeout)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers={"accept": "application/json"}) as session,
            session.get(self._settings.url, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise ValueError(f"status {response.status}")
            body = bytearray()
            async for chunk in response.content.iter_chunked(64 * 1024):
                body += chunk
                if len(body) > MOST_BYTES:
                    raise ValueError("too large")
            return bytes(body)


def is_this_machine(host: str) -> bool:
    """Returns whether only this machine can be reached under that name or address, and reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
