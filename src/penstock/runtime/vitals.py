"""How the backend of one slot is: how full it is by its own word, whether it takes nothing for that, and its last
error. Each slot has one `Vitals` (`slot.py`), and asks it for room before each batch.

    room ──above FULL──► full: probed, and again ──below RELIEVED──► room
                              │ full for too long, or no answer: it must be started anew
"""

import asyncio
import logging
from zlib import crc32

from penstock.core.backoff import backoff
from penstock.errors import BackendError
from penstock.ports import Backend, Clock
from penstock.runtime.dock import Dock
from penstock.types import Result, WorkerId

log = logging.getLogger("penstock.worker")

PROBE_LIMIT = 2.0  # seconds that a backend may take to say how it is
# A backend is full above the first part of what it holds, and has room below the second. There are two bounds so
# that the slot does not flutter.
FULL, RELIEVED = 0.9, 0.8
FULL_PROBE = 0.5  # seconds between two probes of a full backend
# Seconds that a backend may be full. What leaked never comes back by itself, so after this a new one is started.
LONGEST_FULL = 30.0
FIRST_BUSY, LONGEST_UNSAID = 0.1, 5.0  # seconds that a busy backend is let rest, if it does not say how long
SHORTEST_BUSY, LONGEST_BUSY = 0.01, 60.0  # seconds that a busy backend is let rest, whatever it says


class Vitals:
    def __init__(self, worker: WorkerId, dock: Dock, clock: Clock) -> None:
        self._worker, self._dock, self._clock = worker, dock, clock
        self.pressure = 0.0  # how full the backend last said it is
        self.full = False  # whether it takes nothing, since it said that it is full, or busy
        self.last_error = ""

    def began(self) -> None:
        """Note that another backend begins to serve. Nothing is known of it yet."""
        self.pressure = 0.0

    def succeeded(self, result: Result) -> None:
        self.pressure = result.pressure

    def failed(self, why: str) -> None:
        self.last_error = why

    def did_not_start(self, why: str) -> None:
        self.full, self.last_error = False, why

    @property
    def has_room(self) -> bool:
        """Whether the backend holds so little that it can take a batch."""
        return self.pressure <= FULL

    def becomes_full(self) -> None:
        """Take nothing from now on."""
        self.full = True
        log.warning("worker full", extra={"worker": self._worker, "pressure": round(self.pressure, 3)})
        self._dock.gone(self._worker, None)

    async def relieved(self, backend: Backend) -> bool:
        """Wait until a full backend has room. False if it must be started anew."""
        since = self._clock()
        while self._clock() - since < LONGEST_FULL:
            await asyncio.sleep(FULL_PROBE)
            if not await self.are_good(backend):
                return False
            if self.pressure < RELIEVED:
                self.full = False
                log.info(
                    "worker has room", extra={"worker": self._worker, "pressure": round(self.pressure, 3)}
                )
                self._dock.ready(self._worker)
                return True
        return self._unhealthy(f"it was {self.pressure:.0%} full for {LONGEST_FULL:g} s")

    async def are_good(self, backend: Backend) -> bool:
        """Ask the backend how it is. False if it must be started anew."""
        try:
            async with asyncio.timeout(PROBE_LIMIT):
                self.pressure = await backend.probe()
        except BackendError as error:
            return self._unhealthy(error.message)
        except TimeoutError:
            return self._unhealthy(f"the health probe did not answer within {PROBE_LIMIT:g} s")
        return True

    def _unhealthy(self, why: str) -> bool:
        self.last_error = why
        log.warning("worker unhealthy", extra={"worker": self._worker, "error": why})
        return False

    def becomes_busy(self, why: str, said: float | None, in_a_row: int) -> float:
        """Take nothing until the backend wants more. Returns how many seconds to let it rest: as long as it says,
        or longer each time if it says nothing."""
        wait = (
            backoff(in_a_row, FIRST_BUSY, LONGEST_UNSAID, crc32(self._worker.encode()))
            if said is None
            else said
        )
        wait = min(max(wait, SHORTEST_BUSY), LONGEST_BUSY)
        if in_a_row == 1:
            log.info("endpoint busy", extra={"worker": self._worker, "seconds": round(wait, 3)})
        self.full, self.last_error = True, why
        return wait

    def has_rested(self) -> None:
        self.full = False
