"""What an operator sees of a process and, over Redis, of all of them. Each `Process` has an `OwnOverview`; the
admin plane asks it.

It keeps the diary of the process, a step every ten seconds, and logs then which policy is in force, if that or its
reason has changed. Everything else happens only while somebody looks.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
from msgspec import msgpack

from penstock import __version__
from penstock.adapters.observe.metrics import Metrics
from penstock.adapters.observe.sampling import counts_of, promises_of, standings_of
from penstock.cluster.condition import all_worker_rows, process_rows
from penstock.cluster.member import Member
from penstock.gauges import ServerGauges
from penstock.overview.diary import STEP, Diary
from penstock.overview.overview import Overview, Past, ProcessLook, WorkerLook
from penstock.overview.reports import ModelReport, Report
from penstock.overview.view import Looker, overview_of, past_of
from penstock.ports import Clock
from penstock.runtime.condition import WorkerRow
from penstock.runtime.embedded_server import EmbeddedServer
from penstock.runtime.policy_log import PolicyLog

LATER = 0.05  # seconds after the end of a step, so that it is never noted before

_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(Report).decode


class OwnOverview:
    """What one process knows of itself, and what it hears from the others."""

    def __init__(
        self,
        inside: Member | EmbeddedServer,
        metrics: Metrics,
        gauges: Callable[[], ServerGauges],
        clock: Clock,
        wall_clock: Clock,
    ) -> None:
        self._inside, self._metrics, self._gauges = inside, metrics, gauges
        self._clock, self._wall_clock = clock, wall_clock
        self._role = inside.role
        self._name = inside.name if isinstance(inside, Member) else inside.role
        self._diary = Diary(clock())
        self._policies = PolicyLog()
        if isinstance(inside, Member):
            inside.lookout.describe = self._told

    # ---- this process --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the diary. Steps end when the clock shows whole tens of seconds, so that those of all processes
        belong together."""
        self._policies.look(self._gauges().models, self._clock())
        while True:
            await asyncio.sleep(STEP - self._wall_clock() % STEP + LATER)
            gauges = self._gauges()
            sample = counts_of(self._metrics, gauges, self._role)
            self._policies.look(gauges.models, self._clock())
            self._diary.note(sample, standings_of(gauges), self._clock(), self._wall_clock())

    def report(self, *, hour: bool) -> Report:
        """Returns how this process stands. `hour`: whether with the steps of the last hour."""
        gauges = self._gauges()
        total = counts_of(self._metrics, gauges, self._role)
        seconds, recent = self._diary.recent(total, self._clock())
        standings, promises = standings_of(gauges), promises_of(gauges.desks)
        models = {
            name: ModelReport(total[name], recent[name], standings.get(name), promises.get(name))
            for name in total
        }
        steps = [*self._diary.hour()] if hour else []
        return Report(self._name, self._role, seconds, models, gauges.waiting_clients, steps)

    def _told(self, hour: bool) -> bytes:
        """Returns the report as another process gets it that asks."""
        return _encode(self.report(hour=hour))

    # ---- all processes -------------------------------------------------------------------------------------

    async def now(self) -> Overview:
        """Returns how everything stands."""
        inside = self._inside
        reports = await self._reports(hour=False)
        looker = Looker(self._name, self._role, __version__, inside.not_ready())
        if isinstance(inside, Member):
            rows, processes = all_worker_rows(inside.registry), _processes(inside)
        else:
            rows, processes = inside.workers(), []
        return overview_of(looker, reports, _workers(rows), processes, self._wall_clock())

    async def hour(self) -> Sequence[Past]:
        """Returns the last hour, step by step."""
        return past_of(await self._reports(hour=True))

    async def _reports(self, *, hour: bool) -> list[Report]:
        reports = [self.report(hour=hour)]
        if isinstance(self._inside, Member):
            for body in await self._inside.lookout.look(hour=hour):
                try:
                    reports.append(_decode(body))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue  # it is from a process of another release, which is shown as one that does not tell
        return reports


def _processes(member: Member) -> list[ProcessLook]:
    return [
        ProcessLook(row.name, row.role, row.host, row.last_seen, told=False)
        for row in process_rows(member.registry)
    ]


def _workers(rows: Sequence[WorkerRow]) -> list[WorkerLook]:
    return [
        WorkerLook(
            row.worker, row.model, row.host, row.status, row.state, row.utilization, row.in_flight, row.batches,
            row.relative_service_time, row.restarts, row.last_seen, row.last_error,
        )
        for row in rows
    ]  # fmt: skip
