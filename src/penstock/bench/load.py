"""Runs the load of `penstock bench`: an open loop, in which requests go out when the schedule says, even if earlier
ones are not answered. `cli/bench.py` and the benchmarks run a `Load`.

One alarm walks the schedule, so that no request needs a task or a timer.
"""

import asyncio
import gc
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.bench.alarm import Alarm
from penstock.bench.outcomes import Outcomes
from penstock.bench.plan import Plan
from penstock.bench.pool import Address, Pool
from penstock.bench.scrape import Scrape, compare, scrape
from penstock.load.report import Summary

PATIENCE = 10.0  # seconds to wait for answers after the last request, beyond its own time-out
MOMENT = 0.2  # seconds, about as long as a batch takes; see `_busiest`
SPARE_FILES = 64  # descriptors that are not used for connections


@dataclass(slots=True, frozen=True)
class Run:
    """A finished or interrupted run."""

    plan: Plan
    outcomes: Outcomes
    start: float  # when the measured window begins, in seconds of the schedule
    end: float  # when the measured window ends, in the same seconds
    summary: Summary


class Load:
    """One run of a plan."""

    def __init__(
        self,
        plan: Plan,
        address: Address,
        *,
        connections: int = 20_000,
        admin: str | None = None,
        on_second: Callable[["Load"], None] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self.plan = plan
        self.outcomes = Outcomes(plan.times)
        self.sent = 0  # requests of the schedule whose time has come
        self._address = address
        self._connections = min(connections, _descriptors())
        self._admin = admin
        self._on_second = on_second
        self._patience = patience + (plan.timeout or 0.0)
        self._stops = 0  # how often `stop` was called
        self._ended = asyncio.Event()  # set when the schedule has ended
        self._settled = asyncio.Event()  # set when nothing is in flight, or we stop waiting for answers
        self._start = 0.0  # when the schedule began

    def stop(self) -> None:
        """Ends the schedule early; called again, it ends the wait for answers too."""
        self._stops += 1
        self._ended.set()
        if self._stops > 1:
            self._settled.set()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._start

    async def run(self) -> Run:
        """Carries out the plan, and returns what came of it."""
        collecting = gc.isenabled()
        gc.disable()  # nothing made here is cyclic, and a collection is a pause of milliseconds
        try:
            return await self._run(asyncio.get_running_loop())
        finally:
            if collecting:
                gc.enable()

    async def _run(self, loop: asyncio.AbstractEventLoop) -> Run:
        plan = self.plan
        self._pool = Pool(self._address, self._connections, plan.request, self.outcomes)
        await self._pool.prepare(_busiest(plan.times))
        self._start = self._pool.start = time.monotonic()
        self._alarm = Alarm(loop, self._walk)
        opening = loop.create_task(self._scrape_after(plan.warmup))
        ticking = loop.create_task(self._tick())
        try:
            self._walk()
            await self._ended.wait()
            end = min(plan.duration, self.elapsed)
            self._alarm.close()
            # In a short run the first scrape may still be under way; the second must come after it.
            before = await opening if end > plan.warmup else None
            closing = await self._scrape_after(0.0) if before is not None else None
            await self._drain()
        finally:
            self._alarm.close()
            ticking.cancel()
            opening.cancel()
            await self._pool.close(unanswered="NO_ANSWER" if self._stops < 2 else "INTERRUPTED")
        # A run that was stopped in its warm-up reports the warm-up.
        start = plan.warmup if end > plan.warmup else 0.0
        window = compare(before, closing, plan.model)
        summary = self.outcomes.summary(start, end, timeout=plan.timeout, window=window, source=plan.source)
        return Run(plan, self.outcomes, start, end, summary)

    def _walk(self) -> None:
        """Send all that is due, then sleep until the next, or until the schedule's end."""
        times, count, submit = self.plan.times, len(self.plan.times), self._pool.submit
        index, now = self.sent, self.elapsed
        while index < count and times[index] <= now:
            submit(index)
            index += 1
        self.sent = index
        if index == count and now >= self.plan.duration:
            self._alarm.close()
            self._ended.set()
        else:
            self._alarm.set(self._start + (times[index] if index < count else self.plan.duration))

    async def _drain(self) -> None:
        """Wait for the answers that have not come yet."""
        self._pool.on_settled = self._check_settled
        self._check_settled()
        try:
            async with asyncio.timeout(self._patience):
                await self._settled.wait()
        except TimeoutError:
            pass  # the pool counts what is unanswered when it closes

    def _check_settled(self) -> None:
        if self.outcomes.settled >= self.sent:
            self._settled.set()

    async def _scrape_after(self, delay: float) -> Scrape | None:
        if self._admin is None:
            return None
        await asyncio.sleep(delay)
        return await asyncio.to_thread(scrape, self._admin)

    async def _tick(self) -> None:
        while self._on_second is not None:
            await asyncio.sleep(1.0)
            self._on_second(self)


def _busiest(times: Sequence[float]) -> int:
    """Returns the most requests due within a MOMENT: about as many as will be under way together."""
    most = first = 0
    for last, at in enumerate(times):
        while times[first] < at - MOMENT:
            first += 1
        most = max(most, last - first + 1)
    return most


def _descriptors() -> int:
    """Raises the soft limit of open files to the hard one. Returns how many connections this process may then
    hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 1_000_000 if hard == resource.RLIM_INFINITY else max(1, hard - SPARE_FILES)
