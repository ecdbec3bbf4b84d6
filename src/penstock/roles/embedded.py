"""`penstock serve`: gateway, batchers and workers in one process, with nothing else installed (SPEC G1)."""

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.adapters.memory import MemoryResultBus
from penstock.adapters.observe.exposition import Exposition, ServerGauges
from penstock.adapters.observe.metrics import Metrics
from penstock.admin.app import admin_app
from penstock.config import Config
from penstock.errors import BackendError, Draining, UserMistake
from penstock.http.app import DataPlane, HttpLimits
from penstock.http.edge import Edge, EdgeLimits
from penstock.ports import Clock
from penstock.roles.listen import AdminListener, DataListener
from penstock.roles.stack import ModelStack
from penstock.runtime.gateway import Gateway
from penstock.runtime.tasks import TaskStore
from penstock.runtime.wheel import Wheel
from penstock.types import Failure, WorkerId

log = logging.getLogger("penstock")


class Embedded:
    """Everything of one server but its sockets and signals."""

    def __init__(
        self, config: Config, loop: asyncio.AbstractEventLoop, clock: Clock = time.monotonic
    ) -> None:
        self.config = config
        self._clock = clock
        self._tier_names = [
            name for name, level in sorted(config.tiers.levels.items(), key=lambda item: item[1].rank)
        ]
        self._ranks = {name: rank for rank, name in enumerate(self._tier_names)}
        self._default_rank = self._ranks[config.tiers.default]
        self._not_started = set(config.models)  # models of which nothing has been heard yet
        self.started: asyncio.Future[None] = (
            loop.create_future()
        )  # or the mistake that keeps it from starting
        self._wheel = Wheel(loop, clock)
        self._metrics = Metrics(config.models)
        bus = MemoryResultBus()
        self.stacks = {
            name: ModelStack(name, config, bus, self._metrics, loop, clock, self._worker_started)
            for name in config.models
        }
        limits = config.limits
        self._tasks = TaskStore(
            self._wheel,
            clock,
            time.time,
            max_tasks=limits.max_tasks,
            max_bytes=limits.max_task_bytes,
            ttl=limits.result_ttl,
        )
        prefix = secrets.token_hex(6)
        self.gateway = Gateway(
            {name: stack.desk for name, stack in self.stacks.items()},
            self._tenant,
            self._tasks,
            self._wheel,
            self._metrics,
            clock,
            prefix,
        )
        bus.subscribe(self.gateway.waiters.settle)
        self.data_plane = DataPlane(
            self.gateway,
            HttpLimits(limits.max_body, limits.max_depth, limits.control_characters, limits.max_long_poll),
            lambda: secrets.token_hex(8),
        )
        self.edge = Edge(
            self.data_plane,
            EdgeLimits(
                limits.max_body,
                config.server.max_connections,
                limits.header_timeout,
                limits.body_timeout,
                limits.idle_timeout,
            ),
            loop,
            clock,
        )
        self.admin = admin_app(self)
        self._exposition = Exposition(self._metrics, self._gauges)
        self._listeners: Sequence[DataListener | AdminListener] = ()
        self._running: dict[str, asyncio.Task[None]] = {}

    # ---- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        for stack in self.stacks.values():
            for slot in stack.slots:
                self._running[slot.worker] = asyncio.create_task(slot.run(), name=f"worker {slot.worker}")

    def watch(self, *listeners: DataListener | AdminListener) -> None:
        """Listeners whose end makes this server dead."""
        self._listeners = listeners

    def _worker_started(self, worker: WorkerId, error: BackendError | None) -> None:
        """A function that cannot even start is the operator's mistake; an endpoint may yet come up."""
        model = worker.partition("/")[0]
        if error is not None:
            if model in self._not_started and self.stacks[model].is_function and not self.started.done():
                self.started.set_exception(UserMistake(error.message, details=error.details))
                return
            log.error("worker did not start", extra={"worker": worker, "error": error.message})
        self._not_started.discard(model)
        if not self._not_started and not self.started.done():
            self.started.set_result(None)

    def abandon(self) -> None:
        """Time is up: tell everyone who still waits."""
        self.gateway.waiters.end_all(Failure(Draining.code, "this server is shutting down", retry_after=1.0))

    async def drain(self, seconds: float) -> bool:
        """Accept nothing more, finish what was accepted; True if all of it was finished in time."""
        for stack in self.stacks.values():
            stack.pump.drain()
        return await self.gateway.drained(seconds)

    async def stop(self) -> None:
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        for stack in self.stacks.values():
            for pump in stack.pumps:
                pump.close()
        self._wheel.close()

    def _tenant(self, client_id: str | None) -> tuple[str, int]:
        """Until there is authentication, the config says who a client is (SPEC C1, C2)."""
        if client_id is None:
            return "", self._default_rank
        tenant = self.config.tenants.get(client_id)
        if tenant is None or tenant.tier is None:
            return client_id, self._default_rank
        return client_id, self._ranks[tenant.tier]

    # ---- the admin plane's questions -----------------------------------------------------------------------

    def dead_loops(self) -> Sequence[str]:
        dead = [f"{name} has ended" for name, task in self._running.items() if task.done()]
        dead += [f"the listener at {listener.url} has ended" for listener in self._listeners if listener.dead]
        for stack in self.stacks.values():
            for pump in stack.pumps:
                if pump.error is not None:
                    dead.append(f"the batcher of {stack.name} failed: {type(pump.error).__name__}")
                elif pump.overdue():
                    dead.append(f"the batcher of {stack.name} is stuck")
        return dead

    def not_ready(self) -> str:
        if self.gateway.draining:
            return "draining"
        without = [name for name, stack in self.stacks.items() if stack.batcher.fleet.healthy == 0]
        return f"no healthy worker for {', '.join(without)}" if without else ""

    def health(self) -> Mapping[str, Any]:
        now = self._clock()
        models = {name: stack.health(now) for name, stack in self.stacks.items()}
        return {
            "status": "draining" if self.gateway.draining else "degraded" if self.not_ready() else "ok",
            "gpu_utilization": max((model["gpu_utilization"] for model in models.values()), default=0.0),
            "queue_depth": sum(model["queue_depth"] for model in models.values()),
            "requests_per_second": round(sum(model["requests_per_second"] for model in models.values()), 3),
            "waiting_clients": len(self.gateway.waiters),
            "tasks": len(self._tasks),
            "models": models,
        }

    def workers(self) -> Sequence[Mapping[str, Any]]:
        now = self._clock()
        return [row for stack in self.stacks.values() for row in stack.workers(now)]

    def request(self, request_id: str) -> Mapping[str, Any] | None:
        return self.gateway.describe(request_id)

    def metrics(self) -> bytes:
        return self._exposition.text()

    def _gauges(self) -> ServerGauges:
        now = self._clock()
        return ServerGauges(
            {name: stack.gauges(self._tier_names, now) for name, stack in self.stacks.items()},
            len(self.gateway.waiters),
            len(self._tasks),
        )
