"""What the fault tests of Redis share: a load on every gateway whatever it says of itself, and what it met."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle

from history import Ask, History, Record
from installation import Installation, Member, patiently
from open_loop import drive
from server import call

SLOW = 0.5  # seconds from which on an answer counts as trouble
LOOK = 0.05  # seconds between two looks at /livez
QUEUE = 2.0  # seconds: the default of timeouts.queue
LAST = 0.4  # seconds before the end of a fault in which a request may meet its end, if a gateway is late


def some(long: bool) -> int:
    """How many gateways and workers: two, but one where the installation must start soon."""
    return 2 if long else 1


class Fault:
    """Something that begins, lasts for a while, and is over."""

    def __init__(self, begin: Callable[[], object], end: Callable[[], object], after: float, lasts: float):
        self._begin, self._end = begin, end
        self._after, self._lasts = after, lasts
        self.began = 0.0  # from here on it was there
        self.ending = 0.0  # up to here nothing was done about it
        self.ended = 0.0  # from here on it was gone

    async def happen(self) -> None:
        await asyncio.sleep(self._after)
        await asyncio.to_thread(self._begin)
        self.began = time.monotonic()
        await asyncio.sleep(self._lasts)
        self.ending = time.monotonic()
        await asyncio.to_thread(self._end)
        self.ended = time.monotonic()

    def met_by(self, record: Record) -> bool:
        """Whether it was there when the request was sent, and for as long as it takes to be told so."""
        return self.began <= record.sent < self.ending - LAST


async def one_after_another(faults: Sequence[Fault]) -> None:
    for fault in faults:
        await fault.happen()


async def drive_during(
    site: Installation, schedule: Sequence[Ask], seed: int, fault: Coroutine[None, None, None]
) -> History:
    """Each request to the next gateway, ready or not, while the fault takes its course."""
    urls = cycle([gateway.url for gateway in site.gateways])
    async with asyncio.TaskGroup() as group:
        group.create_task(fault)
        return await drive(lambda: next(urls), schedule, seed)


def troubled_for(history: History, since: float, until: float = float("inf")) -> float:
    """Seconds from then until the last request was sent that failed or had to wait. `until`: when the next fault
    began, which those sent just before it met too."""
    troubled = [
        record.sent - since
        for record in history.records
        if since <= record.sent < until - SLOW and (not record.ok or history.seconds(record) > SLOW)
    ]
    return max(troubled, default=0.0)


def slowest_recovery(history: History, faults: Sequence[Fault]) -> float:
    """Seconds of trouble after the end of a fault, at the worst."""
    nexts = [*(fault.began for fault in faults[1:]), float("inf")]
    return max(troubled_for(history, fault.ended, began) for fault, began in zip(faults, nexts, strict=True))


def check_that_only_waiting_ends_in_504(history: History) -> None:
    """What Redis had taken just before a fault waits for its end, at the defaults for as long as timeouts.queue.
    Nobody else is told that it is too late."""
    late = [record for record in history.records if record.status == 504]
    assert [record for record in late if record.done - record.sent < QUEUE] == [], history.endings()


def wait_until_served(site: Installation) -> None:
    """By every gateway, however slow the machine is."""
    for gateway in site.gateways:
        patiently(partial(_serves, gateway))


def _serves(gateway: Member) -> bool:
    body, headers = b'{"input": "good:again"}', {"content-type": "application/json"}
    return call(gateway.url, "POST", "/v1/inference", body, headers).status == 200


class Pulse:
    """What /livez said all the time, and how long it took."""

    def __init__(self) -> None:
        self.statuses: set[int] = set()
        self.seconds: list[float] = []

    def take(self, member: Member) -> None:
        before = time.monotonic()
        self.statuses.add(call(member.admin_url, "GET", "/livez").status)
        self.seconds.append(time.monotonic() - before)


@asynccontextmanager
async def feeling(members: Sequence[Member]) -> AsyncIterator[Pulse]:
    """The pulse of each of these while the block runs."""
    pulse = Pulse()

    async def watch(member: Member) -> None:
        while True:
            await asyncio.to_thread(pulse.take, member)
            await asyncio.sleep(LOOK)

    tasks = [asyncio.create_task(watch(member)) for member in members]
    try:
        yield pulse
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):  # somebody did not answer at all
                raise ended
