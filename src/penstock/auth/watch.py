"""Keeps a `KeyRing` up to date with its store: looks twice a second, and goes on while the store is away.

Every process that takes API keys runs one, as a loop of the doorkeeper (`doorkeeper.py`).
"""

import asyncio
import logging

from penstock.auth.keys import KeyRing
from penstock.auth.records import KeyStore
from penstock.errors import PenstockError

EVERY = 0.5  # seconds; so a revoked key is refused everywhere within 2 seconds

_log = logging.getLogger(__name__)


class KeyWatch:
    """The watch over one store."""

    def __init__(self, store: KeyStore, ring: KeyRing, every: float = EVERY) -> None:
        self._store, self._ring, self._every = store, ring, every
        self._version: object = None  # of the records that the ring has
        self._away = False  # whether the store could not be read at the last look

    async def look(self) -> None:
        """Loads the records if they have changed. Raises PenstockError, and changes nothing, if it cannot."""
        version = await self._store.version()
        if version != self._version:
            self._ring.replace(await self._store.load())
            self._version = version  # asked for before the records, so that no change in between is missed

    async def run(self) -> None:
        """Looks until cancelled. While the store is away, known keys stay good, and the log says so once."""
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
