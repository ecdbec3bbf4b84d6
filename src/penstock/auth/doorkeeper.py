"""The authenticator of a process, and the loops that keep its keys up to date. `roles/auth.py` makes a `Doorkeeper`
by the configuration; a server whose clients must say who they are opens it before it takes a request."""

import asyncio
import logging

from penstock.auth.authenticator import Authenticator
from penstock.auth.jwt import JwtVerifier
from penstock.auth.keys import KeyRing
from penstock.auth.records import KeyStore
from penstock.auth.watch import KeyWatch
from penstock.errors import StoreDown
from penstock.loops import Loops

AGAIN = 1.0  # seconds between two attempts at a store that was away from the start

log = logging.getLogger("penstock")


class Doorkeeper:
    """Implements `ports.process.Companion`: the authenticator, and the loops that keep its keys up to date."""

    def __init__(
        self, authenticator: Authenticator, store: KeyStore | None, ring: KeyRing, tokens: JwtVerifier | None
    ) -> None:
        self.authenticator = authenticator
        self._store = store
        self._ring = ring
        self._tokens = tokens

    async def open(self, loops: Loops) -> None:
        """Read the keys once, however long that takes, then start the loops. Raises UserMistake."""
        if self._store is not None:
            watch = KeyWatch(self._store, self._ring)
            await _first_look(watch)
            loops.keep("the watch over API keys", watch.run)
        if self._tokens is not None and self._tokens.provider is not None:
            loops.keep("the fetching of token keys", self._tokens.provider.run)

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()
        if self._tokens is not None and self._tokens.provider is not None:
            await self._tokens.provider.close()


async def _first_look(watch: KeyWatch) -> None:
    """Read the keys for the first time. Without them no client could be let in, so this waits for a store that is
    away."""
    while True:
        try:
            return await watch.look()
        except StoreDown as error:
            log.warning("waiting for the API keys", extra={"error": error.message})
            await asyncio.sleep(AGAIN)
