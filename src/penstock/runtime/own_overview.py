"""What an operator sees of a process and, over a bus, of all of them. Each process has an `OwnOverview`
(`roles/process.py` puts it together); the admin plane asks it.

It keeps the diary of the process, a step every ten seconds. Everything else happens only while somebody looks.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from msgspec import msgpack

from penstock import __version__
from penstock.overview.diary import STEP, Diary
from penstock.overview.overview import Overview, Past, ProcessLook, WorkerLook
from penstock.overview.reports import ModelReport, Report, Sample
from penstock.overview.view import Looker, overview_of, past_of
from penstock.ports import Clock
from penstock.runtime.condition import WorkerRow

LATER = 0.05  # seconds after the end of a step, so that it is never noted before

_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(Report).decode


class Surroundings(Protocol):
    """What is around a process: the workers, and the other processes. `cluster.lookout.Lookout` implements it for a
    member of an installation."""

    def workers(self) -> Sequence[WorkerRow]:
        """Returns all workers that are known."""
        ...

    def processes(self) -> list[ProcessLook]:
        """Returns all processes, this one included; none if this process is the only one."""
        ...

    async def look(self, *, hour: bool = False) -> list[bytes]:
        """Returns the reports of all other processes that answer in time."""
        ...


class Alone:
    """Implements `Surroundings` for a server that does everything in one process."""

    def __init__(self, workers: Callable[[], Sequence[WorkerRow]]) -> None:
        self.workers = workers

    def processes(self) -> list[ProcessLook]:
        return []

    async def look(self, *, hour: bool = False) -> list[bytes]:
        return []


class OwnOverview:
    """What one process knows of itself, and what it hears from the others."""

    def __init__(
        self,
        name: str,
        role: str,
        not_ready: Callable[[], str],
        sample: Callable[[], Sample],
        around: Surroundings,
        clock: Clock,
        wall_clock: Clock,
    ) -> None:
        """`not_ready`: says why no traffic should come. `sample`: what this process has counted until now."""
        self._name, self._role = name, role
        self._not_ready, self._sample, self._around = not_ready, sample, around
        self._clock, self._wall_clock = clock, wall_clock
        self._diary = Diary(clock())

    # ---- this process --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the diary. Steps end when the clock shows whole tens of seconds, so that those of all processes
        belong together."""
        while True:
            await asyncio.sleep(STEP - self._wall_clock() % STEP + LATER)
            sample = self._sample()
            self._diary.note(sample.counts, sample.standings, self._clock(), self._wall_clock())

    def report(self, *, hour: bool) -> Report:
        """Returns how this process stands. `hour`: whether with the steps of the last hour."""
        sample = self._sample()
        seconds, recent = self._diary.recent(sample.counts, self._clock())
        models = {
            name: ModelReport(total, recent[name], sample.standings.get(name), sample.promises.get(name))
            for name, total in sample.counts.items()
        }
        steps = [*self._diary.hour()] if hour else []
        return Report(self._name, self._role, seconds, models, sample.waiting, steps)

    def told(self, hour: bool) -> bytes:
        """Returns the report as another process gets it that asks."""
        return _encode(self.report(hour=hour))

    # ---- all processes -------------------------------------------------------------------------------------

    async def now(self) -> Overview:
        """Returns how everything stands."""
        reports = await self._reports(hour=False)
        looker = Looker(self._name, self._role, __version__, self._not_ready())
        workers = [_worker(row) for row in self._around.workers()]
        return overview_of(looker, reports, workers, self._around.processes(), self._wall_clock())

    async def hour(self) -> Sequence[Past]:
        """Returns the last hour, step by step."""
        return past_of(await self._reports(hour=True))

    async def _reports(self, *, hour: bool) -> list[Report]:
        reports = [self.report(hour=hour)]
        for body in await self._around.look(hour=hour):
            try:
                reports.append(_decode(body))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # it is from a process of another release, which is shown as one that does not tell
        return reports


def _worker(row: WorkerRow) -> WorkerLook:
    return WorkerLook(
        row.worker, row.model, row.host, row.status, row.state, row.utilization, row.in_flight, row.batches,
        row.relative_service_time, row.restarts, row.last_seen, row.last_error,
    )  # fmt: skip
