"""Leads jobs, some at a time, and decides whose line goes next. `service.py` makes it, and keeps its loop.

    jobs that are not over ──some at a time──► led ──their lines──► may it go? (`core/job_restraint.py`) ──► asked

Tenants take turns: the next line is one of the tenant whose last line was asked longest ago. A line that may not go
now is looked at again when an answer has come, and every `LOOK` seconds, since nobody tells when workers fall idle.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from penstock.core.job_restraint import Restraint, RestraintRules
from penstock.errors import Refused
from penstock.jobs import Job, Slack, job_of_line
from penstock.ports.observers import RequestObserver
from penstock.runtime.jobs.led_job import Around, LedJob, Ready
from penstock.types import Reply, Request

AT_ONCE = 8  # jobs that are led; the others wait
LOOK = 0.05  # seconds
AGAIN = 10.0  # seconds after which a job that stopped is led anew

log = logging.getLogger("penstock.jobs")


class Runner(RequestObserver):
    """Is told of all answers too, since those to others say whether lines are in anybody's way."""

    def __init__(
        self, slack: Callable[[str | None], Slack], rules: RestraintRules, clock: Callable[[], float]
    ) -> None:
        self._slack, self._rules, self._clock = slack, rules, clock
        self._restraints: dict[str, Restraint] = {}
        self._waiting: dict[str, Job] = {}  # jobs that are not led yet, the earliest first
        self._led: dict[str, LedJob] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns: Counter[str] = Counter()  # by tenant: when its last line was asked
        self._turn = 0
        self._event = asyncio.Event()

    # ---- jobs --------------------------------------------------------------------------------------------

    def add(self, job: Job) -> None:
        self._waiting[job.id] = job
        self._event.set()

    def led_job(self, job_id: str) -> LedJob | None:
        return self._led.get(job_id)

    def withdraw(self, job_id: str) -> Job | None:
        """Takes a job back that is not led yet."""
        return self._waiting.pop(job_id, None)

    async def run(self, around: Around) -> None:
        """Lead jobs and ask lines, until cancelled."""
        try:
            while True:
                self._lead_jobs(around)
                self._event.clear()
                blocked = self._ask_lines()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK if blocked else None):
                        await self._event.wait()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # A task that is cancelled before its first step says nothing of its job.
            self._waiting |= {job_id: led.job for job_id, led in self._led.items()}
            self._led.clear()
            self._tasks.clear()

    def look(self) -> None:
        """Look what may go: something has changed."""
        self._event.set()

    def _lead_jobs(self, around: Around) -> None:
        while self._waiting and len(self._led) < AT_ONCE:
            running = Counter(led.job.tenant for led in self._led.values())
            job = min(self._waiting.values(), key=lambda job: running[job.tenant])
            del self._waiting[job.id]
            led = self._led[job.id] = LedJob(job, around)
            self._tasks[job.id] = asyncio.create_task(self._lead(led), name=f"the batch {job.id}")

    async def _lead(self, led: LedJob) -> None:
        job_id = led.job.id
        try:
            await led.run(self._ended)
        except asyncio.CancelledError:
            self._drop(led)
            raise
        except Exception:
            log.exception("a batch stopped, and is begun anew", extra={"batch": job_id})
            self._drop(led)
            await asyncio.sleep(AGAIN)
        finally:
            if not led.job.is_over:
                self._waiting[job_id] = led.job
            self._led.pop(job_id, None)
            self._tasks.pop(job_id, None)
            if not self._led:
                self._turns.clear()
            self._event.set()

    def _drop(self, led: LedJob) -> None:
        for line in led.drop():
            self._ended(line)

    # ---- lines -------------------------------------------------------------------------------------------

    def _ask_lines(self) -> bool:
        """Ask the lines that may go. Returns whether others are ready."""
        blocked = set[str]()  # jobs whose next line may not go now
        while True:
            ready = [
                (led, line)
                for led in self._led.values()
                if led.job.id not in blocked and (line := led.next_line()) is not None
            ]
            if not ready:
                return bool(blocked)
            led, line = min(ready, key=lambda each: self._turns[each[0].job.tenant])
            if not self._may_go(line):
                blocked.add(led.job.id)
                continue
            self._turn += 1
            self._turns[led.job.tenant] = self._turn
            led.start(self._ended)

    def _may_go(self, line: Ready) -> bool:
        now, name = self._clock(), line.read.model or ""
        try:
            slack = self._slack(line.read.model)
        except Refused:
            return True  # nobody serves it: it is told so when it is asked
        restraint = self._restraints.setdefault(name, Restraint(self._rules))
        if not restraint.may_start(line.read.requests, slack, now):
            return False
        restraint.started(line.read.requests, now)
        line.paced = True
        return True

    def _ended(self, line: Ready) -> None:
        if line.paced:
            line.paced = False
            self._restraints[line.read.model or ""].ended(line.read.requests, self._clock())
        self._event.set()

    # ---- what observers are told ---------------------------------------------------------------------------

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        if not self._led:
            return
        for reply in replies:
            if not self._is_mine(reply.request):
                started = now if reply.execution is None else reply.execution.started
                for restraint in self._restraints_of(reply.request.model):
                    restraint.other_answered(reply.request.arrival, started, now)

    def _is_mine(self, request: Request) -> bool:
        job_id = job_of_line(request.request_id)
        return job_id is not None and job_id in self._led

    def _restraints_of(self, model: str) -> list[Restraint]:
        """The restraint of a model, and that of lines which name none: any model may be meant by these."""
        return [restraint for name in (model, "") if (restraint := self._restraints.get(name)) is not None]
