"""One process of an installation, put together: a member of the cluster, its admin plane, its metrics, and its data
plane where it has one."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.adapters.observe.exposition import Exposition
from penstock.adapters.observe.pauses import LoopPauses
from penstock.admin.app import DeadLetters, admin_app
from penstock.cluster.member import Member
from penstock.edge.edge import Edge
from penstock.gauges import ServerGauges
from penstock.roles.auth import check_admin
from penstock.roles.data_plane import tls_health, unsent_gauges
from penstock.roles.ledger import ledger_gauges, ledger_health
from penstock.roles.observers import Observing
from penstock.runtime.condition import WorkerRow
from penstock.server.listen import AdminListener, DataListener


class Process:
    """What `penstock.server.life` starts and stops, and what the admin plane asks."""

    def __init__(
        self,
        member: Member,
        observing: Observing,
        *,
        edge: Edge | None = None,
        letters: DeadLetters | None = None,
    ) -> None:
        check_admin(member.config)
        self.member = member
        self.edge = edge
        self._ledger = observing.ledger
        self.pauses = LoopPauses()
        self._exposition = Exposition(observing.metrics, self._gauges, self.pauses)
        self.admin = admin_app(self, letters, member.config.server.admin_token, member.bus.aside)

    # ---- life ----------------------------------------------------------------------------------------------

    @property
    def started(self) -> "asyncio.Future[None]":
        return self.member.started

    @property
    def unfinished(self) -> int:
        return self.member.unfinished

    def start(self) -> None:
        self.member.start()

    def watch(self, *listeners: DataListener | AdminListener) -> None:
        admin = next((each.url for each in listeners if isinstance(each, AdminListener)), "")
        self.member.watch(admin, listeners)

    def retire(self) -> None:
        self.member.retire()

    async def drain(self, seconds: float) -> bool:
        return await self.member.drain(seconds)

    def abandon(self) -> None:
        self.member.abandon()

    async def stop(self) -> None:
        await self.member.stop()

    # ---- the admin plane's questions -----------------------------------------------------------------------

    def dead_loops(self) -> Sequence[str]:
        return self.member.dead_loops()

    def not_ready(self) -> str:
        return self.member.not_ready()

    def health(self) -> Mapping[str, object]:
        tls = {} if self.edge is None else {"tls": tls_health(self.edge)}
        return {**self.member.health(), **tls, **ledger_health(self._ledger)}

    def workers(self) -> Sequence[WorkerRow]:
        return self.member.workers()

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        return await self.member.request(request_id, tenant)

    def metrics(self) -> bytes:
        return self._exposition.text()

    def _gauges(self) -> ServerGauges:
        gauges = self.member.gauges()
        if self.edge is None:
            return gauges
        return replace(
            gauges,
            tls=tls_health(self.edge),
            ledger=ledger_gauges(self._ledger),
            unsent=unsent_gauges(self.edge),
        )
