"""Keeps a ring of keys as its store has them: looks twice a second, and outlives the store."""

import asyncio
import logging

from penstock.auth.keys import KeyRing
from penstock.auth.records import KeyStore
from penstock.errors import PenstockError

EVERY = 0.5  # seconds: a revoked key is refused everywhere within 2

_log = logging.getLogger(__name__)


class KeyWatch:
    def __init__(self, store: KeyStore, ring: KeyRing, every: float = EVERY) -> None:
        self._store, self._ring, self._every = store, ring, every
        self._version: object = None
        self._away = False

    async def look(self) -> None:
        """Takes in what has changed; raises PenstockError, and changes nothing, when the store cannot say."""
        version = await self._store.version()
        if version != self._version:
            self._ring.replace(await self._store.load())
            self._version = version  # asked for first: what changes in between is seen the next time

    async def run(self) -> None:
        """Until cancelled. While the store is away the keys that are known stay good, and the log says so once."""
        while True:
            try:
                await self.look()
            except PenstockError as error:
                if not self._away:
                    _log.warning("API keys stay as they were known last: %s", error.message)
                self._away = True
            else:
                if self._away:
                    _log.info("API keys are read again")
                self._away = False
            await asyncio.sleep(self._every)
