"""The stream of overviews for those who look: server-sent events, one a second. The admin application has one
`Stream`, from which everybody who looks is served (`app.py`).

    event: hour        once, at the start: the last hour, step by step
    event: overview    now and every second: how everything stands

All who look share one reading a second. While nobody looks, nothing is read.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from msgspec import json

from penstock.errors import Overloaded
from penstock.overview.overview import Overview, Past

EVERY = 1.0  # seconds
MOST = 32  # as many may look at once

log = logging.getLogger("penstock.admin")


class Stream:
    """The events, and all who look at them."""

    def __init__(
        self, now: Callable[[], Awaitable[Overview]], hour: Callable[[], Awaitable[Sequence[Past]]]
    ) -> None:
        """`now`: reads how everything stands. `hour`: reads how everything stood in the last hour."""
        self._now, self._hour = now, hour
        self._looking = 0  # how many look
        self._reading: asyncio.Task[None] | None = None  # the loop that reads, while anybody looks
        self._next: asyncio.Future[bytes] | None = None  # the next event, for all who wait for it

    def check(self) -> None:
        """Raises Overloaded if too many look already."""
        if self._looking >= MOST:
            raise Overloaded(f"{MOST} look at this process already: close a page", retry_after=EVERY)

    async def events(self) -> AsyncIterator[bytes]:
        """Yields the events for one who looks, until they leave."""
        self._looking += 1
        try:
            yield _event("hour", await self._hour())
            yield _event("overview", await self._now())
            while True:
                yield await self._following()
        finally:
            self._looking -= 1
            if not self._looking and self._reading is not None:
                self._reading.cancel()
                self._reading = None

    async def _following(self) -> bytes:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(self._next)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + EVERY, loop.time())
            await asyncio.sleep(due - loop.time())
            try:
                event = _event("overview", await self._now())
            except Exception as error:
                # The next reading may succeed. Whoever looks sees that this one is late.
                log.error("the overview could not be made", exc_info=error)
                continue
            following, self._next = self._next, None
            if following is not None:
                following.set_result(event)


def _event(name: str, said: Overview | Sequence[Past]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), json.encode(said))
