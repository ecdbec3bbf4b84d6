"""One process, put together: a member or an embedded server, its admin plane, its metrics and, if it has clients,
its data plane. Each role makes one, and `server/life.py` runs it. Nothing is opened here."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.adapters.observe.exposition import Exposition
from penstock.adapters.observe.pauses import LoopPauses
from penstock.adapters.observe.sampling import sample_of
from penstock.admin.app import DeadLetters, SetAside, admin_app
from penstock.cluster.member import Member
from penstock.edge.edge import Edge
from penstock.edge.tls import ServerTls
from penstock.gauges import ServerGauges
from penstock.overview.overview import Overview, Past
from penstock.overview.reports import Sample
from penstock.ports import Clock
from penstock.roles.auth import check_admin
from penstock.roles.data_plane import tls_gauges, tls_health, unsent_gauges
from penstock.roles.ledger import ledger_gauges, ledger_health
from penstock.roles.observers import Observing
from penstock.roles.recording import recording_gauges
from penstock.roles.tracing import tracing_gauges
from penstock.runtime.condition import WorkerRow
from penstock.runtime.embedded_server import EmbeddedServer
from penstock.runtime.own_overview import Alone, OwnOverview
from penstock.server.drain import Drain
from penstock.server.listen import AdminListener, DataListener
from penstock.server.live_settings import LiveSettings


class Process:
    """Implements `server.life.Role`, which `life.live` starts and stops, and `admin.app.RunningServer`, which the
    admin plane asks."""

    def __init__(
        self,
        inside: Member | EmbeddedServer,
        settings: LiveSettings,
        observing: Observing,
        *,
        edge: Edge | None = None,
        grpc: Edge | None = None,
        tls: ServerTls | None = None,
        letters: DeadLetters | None = None,
        aside: SetAside | None = None,
        scale: Callable[[], Mapping[str, Any] | None] | None = None,
    ) -> None:
        """`inside`: a member of an installation, or a server that does everything itself. `settings`: what it goes
        by. `grpc`: its edge for gRPC. `tls`: the TLS of both. `scale`: says how many workers there should be, in an
        autoscaler."""
        config = settings.config
        check_admin(config)
        self.inside = inside
        self.settings = settings
        self.edge = edge
        self.grpc = grpc
        self.tls = tls
        self._recorder, self._metrics = observing.recorder, observing.metrics
        self._ledger, self._tracing = observing.ledger, observing.tracing
        self._spool_limit = config.ledger.spool_size
        self._drain: Drain  # set by `drained_by`, before the admin plane opens
        self.pauses = LoopPauses()
        self._exposition = Exposition(observing.metrics, self._gauges, self.pauses, inside.role)
        self._overview = self._own_overview(observing.clock)
        self.admin = admin_app(self, letters, config.server.admin_token, aside, scale)

    def _own_overview(self, clock: Clock) -> OwnOverview:
        inside = self.inside
        if not isinstance(inside, Member):
            role, alone = inside.role, Alone(inside.workers)
            return OwnOverview(role, role, inside.not_ready, self._sample, alone, clock, time.time)
        overview = OwnOverview(
            inside.name, inside.role, inside.not_ready, self._sample, inside.lookout, clock, time.time
        )
        inside.lookout.describe = overview.told
        return overview

    # ---- life ----------------------------------------------------------------------------------------------

    @property
    def started(self) -> "asyncio.Future[None]":
        return self.inside.started

    @property
    def unfinished(self) -> int:
        return self.inside.unfinished

    def start(self) -> None:
        self.inside.start()
        self.inside.loops.keep("the diary", self._overview.run)

    def watch(self, *listeners: DataListener | AdminListener) -> None:
        admin = next((each.url for each in listeners if isinstance(each, AdminListener)), "")
        self.inside.watch(admin, listeners)

    def retire(self) -> None:
        self.inside.retire()

    async def drain(self, seconds: float) -> bool:
        return await self.inside.drain(seconds)

    def drained_by(self, drain: Drain) -> None:
        self._drain = drain

    async def finish(self) -> tuple[bool, int]:
        return await self._drain.ask(), self.inside.unfinished

    def abandon(self) -> None:
        self.inside.abandon()

    async def stop(self) -> None:
        await self.settings.close()
        await self.inside.stop()

    # ---- what the admin plane asks -------------------------------------------------------------------------

    def dead_loops(self) -> Sequence[str]:
        return self.inside.dead_loops()

    def not_ready(self) -> str:
        return self.inside.not_ready()

    def health(self) -> Mapping[str, object]:
        tls = {} if self.edge is None else {"tls": tls_health(self.tls)}
        return {**self.inside.health(), **tls, **ledger_health(self._ledger)}

    def workers(self) -> Sequence[WorkerRow]:
        return self.inside.workers()

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        return await self.inside.request(request_id, tenant)

    async def slowest(self, most: int, model: str) -> Sequence[Mapping[str, Any]]:
        return await self.inside.slowest(most, model)

    async def overview(self) -> Overview:
        return await self._overview.now()

    async def hour(self) -> Sequence[Past]:
        return await self._overview.hour()

    def settings_in_force(self) -> Mapping[str, object]:
        return {
            "settings": [each._asdict() for each in self.settings.config.explain()],
            "need_restart": self.settings.need_restart,
            "pid": os.getpid(),
            "host": socket.gethostname(),
        }

    def metrics(self, accept: str = "") -> tuple[bytes, str]:
        return self._exposition.answer(accept)

    def _sample(self) -> Sample:
        return sample_of(self._metrics, self._gauges(), self.inside.role)

    def _gauges(self) -> ServerGauges:
        gauges = replace(self.inside.gauges(), tracing=tracing_gauges(self._tracing))
        if self.edge is None:
            return gauges
        return replace(
            gauges,
            tls=tls_gauges(self.tls),
            recording=recording_gauges(self._recorder),
            ledger=ledger_gauges(self._ledger, self._spool_limit),
            unsent=unsent_gauges(self.edge),
        )
