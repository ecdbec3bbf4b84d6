"""Notices that Redis is silent while an answer is awaited, long before the command times out. A gateway's publisher
(`redis/bus/publisher.py`) awaits its answers here; `hearing.py` says how long a silence may be.

Silence is counted only while this process runs: if the process did not get to run, what came meanwhile has not been
read yet. When half of the time that Redis may be silent is over, a PING goes out over another connection. If it is
answered, a slow disk, a long write or one lost packet holds up our answer, and not Redis. In a cluster only the
awaited answer counts, because everything else that is heard may come from another node.
"""

import asyncio
import logging
from collections.abc import Awaitable
from time import monotonic

from redis.exceptions import RedisError

from penstock.adapters.redis.link.connect import Store

log = logging.getLogger("penstock.gateway")

TICK = 0.01  # seconds between two looks


class SilenceWatch:
    """The answers that are awaited, and the loop that looks for silence."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The limit of each awaited answer, and how long we had listened when its question was sent.
        self._asked: dict[asyncio.Timeout, float] = {}
        self._asking = asyncio.Event()  # set while an answer is awaited
        self._listened = 0.0  # seconds that this process has run and listened
        self._heard = 0.0  # how long we had listened when Redis was last heard
        self._pinging = False  # whether a PING is on its way

    async def heard(self, answer: Awaitable[None], *, at_once: bool) -> None:
        """Await an answer, and raise TimeoutError as soon as Redis is silent. `at_once`: whether Redis answers
        without waiting for a disk or a replica, so that the answer tells how long a round trip takes."""
        async with asyncio.timeout(None) as limit:
            self._asked[limit] = self._listened
            self._asking.set()
            began = monotonic()
            try:
                await answer
            finally:
                del self._asked[limit]
        if at_once:
            self._store.link.answered(began)

    async def run(self) -> None:
        """Look for silence whenever an answer is awaited, until cancelled."""
        link = self._store.link
        while True:
            await self._asking.wait()
            before = monotonic()
            await asyncio.sleep(TICK)
            self._listened += min(monotonic() - before, 2 * TICK)
            if link.heard_at > before:
                self._heard = self._listened
            if self._asked:
                self._look(link.patience)
            else:
                self._asking.clear()

    def hears_redis(self) -> bool:
        """Whether Redis was heard of late, although an answer has not come. In a cluster nobody knows which node
        was heard."""
        return not self._store.clustered and self._listened - self._heard <= self._store.link.patience

    def _look(self, patience: float) -> None:
        clustered = self._store.clustered
        for limit, asked in list(self._asked.items()):
            silence = self._listened - (asked if clustered else max(asked, self._heard))
            if silence > patience:
                if limit.when() is None:
                    limit.reschedule(asyncio.get_running_loop().time())
            elif silence > patience / 2 and not clustered and not self._pinging:
                self._pinging = True
                self._store.send(self._ping())

    async def _ping(self) -> None:
        try:
            await self._store.commands.execute_command("PING")
            self._store.link.heard()
        # RuntimeError: uvloop's, if a connection was closed.
        except (RedisError, OSError, RuntimeError) as error:
            log.debug("no answer", extra={"error": str(error)})
        finally:
            self._pinging = False
