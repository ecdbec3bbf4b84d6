"""`penstock serve`: gateway, batchers and workers in one process, with nothing else installed."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.adapters.api_keys.file import KeysFile
from penstock.adapters.memory import MemoryResultBus
from penstock.adapters.observe.ended import rows_of
from penstock.adapters.observe.exposition import Exposition
from penstock.adapters.observe.pauses import LoopPauses
from penstock.admin.app import admin_app
from penstock.config import Config
from penstock.core.ratelimit import RateLimiter
from penstock.edge.edge import Edge
from penstock.errors import BackendError, PenstockError, UserMistake
from penstock.from_config.sharing import memory_of
from penstock.from_config.tiers import limits_by_rank, tenants, tier_names
from penstock.gauges import ServerGauges
from penstock.loops import Loops
from penstock.ports import Clock
from penstock.roles.auth import Doorkeeper, check_admin, doorkeeper
from penstock.roles.data_plane import data_plane, tls_health, unsent_gauges
from penstock.roles.ledger import ledger_gauges, ledger_health
from penstock.roles.model import ModelStack
from penstock.roles.observers import Observing
from penstock.roles.reload import Reloader
from penstock.runtime.condition import UNHEALTHY, WorkerRow, worst
from penstock.runtime.dead_letters import DeadLetters
from penstock.runtime.gateway import Gateway
from penstock.runtime.idempotency import KeyedStore
from penstock.runtime.ids import random_ids
from penstock.runtime.sharing import counts_of
from penstock.runtime.tasks import TaskStore
from penstock.runtime.waiters import OUT_OF_TIME
from penstock.runtime.wheel import Wheel
from penstock.server.listen import AdminListener, DataListener
from penstock.types import WorkerId

log = logging.getLogger("penstock")

KEYS = "the API keys"  # what must have been read before anybody is served


class Embedded:
    """Everything of one server but its sockets and signals."""

    def __init__(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock = time.monotonic,
        *,
        reload: bool = False,
    ) -> None:
        """`reload`: functions whose file changes are started anew."""
        self.config = config
        self._clock = clock
        self._tier_names = tier_names(config)
        self._retired = False
        self._not_started = set(config.models)  # models of which nothing has been heard yet
        self.started: asyncio.Future[None] = (
            loop.create_future()
        )  # or the mistake that keeps it from starting
        self.pauses = LoopPauses()
        self._wheel = Wheel(loop, clock)
        self._observing = observing = Observing(config, loop, clock, config.models, answers=True)
        bus = MemoryResultBus()
        self.stacks = {
            name: ModelStack(name, config, bus, observing.told, loop, clock, self._worker_started)
            for name in config.models
        }
        self._reloader = Reloader(self.stacks) if reload else None
        limits = config.limits
        self._tasks = TaskStore(
            self._wheel,
            clock,
            time.time,
            max_tasks=limits.max_tasks,
            max_bytes=limits.max_task_bytes,
            ttl=limits.result_ttl,
            share=limits.tenant_share,
        )
        self._keyed = KeyedStore(
            clock,
            time.time,
            max_keys=config.idempotency.max_keys,
            max_bytes=config.idempotency.max_bytes,
            ttl=config.idempotency.ttl,
            share=limits.tenant_share,
        )
        self._memory = memory_of(config)
        self.gateway = Gateway(
            {name: stack.desk for name, stack in self.stacks.items()},
            tenants(config),
            self._tasks,
            self._wheel,
            observing.told,
            clock,
            random_ids(),
            RateLimiter(),
            limits_by_rank(config),
            self._keyed,
            self._memory,
        )
        bus.subscribe(self.gateway.settle)
        self.dead_letters = DeadLetters(
            self.gateway,
            self._tasks,
            config.models,
            self._tier_names,
            clock,
            time.time,
            attempts=config.retries.attempts,
            longest=config.timeouts_of(None).max_client,
            max_letters=config.redis.max_dead_letters,
            max_bytes=limits.max_dead_letter_bytes,
            share=limits.tenant_share,
            ttl=limits.dead_letter_ttl,
        )
        observing.told.add(self.dead_letters)
        check_admin(config)
        self._doorkeeper = doorkeeper(config, KeysFile)
        doorman = None if self._doorkeeper is None else self._doorkeeper.authenticator
        self.edge: Edge = data_plane(self.gateway, config, loop, clock, doorman, self.not_ready)
        self.admin = admin_app(self, self.dead_letters, config.server.admin_token)
        self._exposition = Exposition(observing.metrics, self._gauges, self.pauses)
        self._listeners: Sequence[DataListener | AdminListener] = ()
        self.loops = Loops()

    # ---- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._observing.told.start()
        if self._doorkeeper is not None:
            self._not_started.add(KEYS)
            self.loops.send("opening the door", self._open_the_door(self._doorkeeper))  # it may take a while
        for stack in self.stacks.values():
            for slot in stack.slots:
                self.loops.keep(f"the slot {slot.worker}", slot.run)
        if self._reloader is not None:
            self.loops.keep("the reloader", self._reloader.run)

    async def _open_the_door(self, keeper: Doorkeeper) -> None:
        """Nobody can be let in before the keys have been read."""
        try:
            await keeper.open(self.loops)
        except PenstockError as error:
            if not self.started.done():
                self.started.set_exception(error)
        else:
            self._part_started(KEYS)

    def watch(self, *listeners: DataListener | AdminListener) -> None:
        """Listeners whose end makes this server dead."""
        self._listeners = listeners

    def _worker_started(self, model: str, worker: WorkerId, error: BackendError | None) -> None:
        """A function that cannot even start is the operator's mistake; an endpoint may yet come up."""
        if error is not None:
            if model in self._not_started and self.stacks[model].is_function and not self.started.done():
                self.started.set_exception(UserMistake(error.message, details=error.details))
                return
            log.error("worker did not start", extra={"worker": worker, "error": error.message})
        self._part_started(model)

    def _part_started(self, part: str) -> None:
        self._not_started.discard(part)
        if not self._not_started and not self.started.done():
            self.started.set_result(None)

    @property
    def unfinished(self) -> int:
        return len(self.gateway.waiters)

    def retire(self) -> None:
        self._retired = True

    def abandon(self) -> None:
        """Time is up: tell everyone who still waits."""
        self.gateway.waiters.end_all(OUT_OF_TIME)

    async def drain(self, seconds: float) -> bool:
        """Accept nothing more, finish what was accepted; True if all of it was finished in time."""
        for stack in self.stacks.values():
            stack.pump.drain()
        return await self.gateway.drained(seconds)

    async def stop(self) -> None:
        await self.loops.close()
        if self._doorkeeper is not None:
            await self._doorkeeper.close()
        for stack in self.stacks.values():
            for pump in stack.pumps:
                pump.close()
        self._wheel.close()
        await self._observing.told.close()

    # ---- the admin plane's questions -----------------------------------------------------------------------

    def dead_loops(self) -> Sequence[str]:
        dead = self.loops.dead()
        dead += [f"the listener at {listener.url} has ended" for listener in self._listeners if listener.dead]
        return dead + [word for stack in self.stacks.values() for pump in stack.pumps for word in pump.dead()]

    def not_ready(self) -> str:
        if self._retired:
            return "draining"
        loading = [name for name, stack in self.stacks.items() if stack.loading()]
        if loading:
            return f"loading {', '.join(loading)}"
        without = [name for name, stack in self.stacks.items() if stack.batcher.fleet.healthy == 0]
        return f"no healthy worker for {', '.join(without)}" if without else ""

    def health(self) -> Mapping[str, Any]:
        now = self._clock()
        models = {name: stack.health(now) for name, stack in self.stacks.items()}
        status = UNHEALTHY if self.dead_loops() else worst(model["status"] for model in models.values())
        return {
            "status": status,
            "draining": self._retired,
            "gpu_utilization": max((model["gpu_utilization"] for model in models.values()), default=0.0),
            "queue_depth": sum(model["queue_depth"] for model in models.values()),
            "requests_per_second": round(sum(model["requests_per_second"] for model in models.values()), 3),
            "waiting_clients": len(self.gateway.waiters),
            "tasks": len(self._tasks),
            **ledger_health(self._observing.ledger),
            "idempotency_keys": len(self._keyed),
            "tls": tls_health(self.edge),
            "models": models,
        }

    def workers(self) -> Sequence[WorkerRow]:
        now = self._clock()
        return [row for stack in self.stacks.values() for row in stack.workers(now, leaving=self._retired)]

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        found = self.gateway.describe(request_id) or self._observing.ended.find(request_id)
        task = self._tasks.peek(request_id, tenant or None) if found is None else None
        if task is None or task.answer is None:
            return found
        return self._observing.ended.describe(rows_of([task.answer])[0], self._tasks.ended_at(task))

    def metrics(self) -> bytes:
        return self._exposition.text()

    def _gauges(self) -> ServerGauges:
        now = self._clock()
        return ServerGauges(
            {name: stack.gauges(self._tier_names, now) for name, stack in self.stacks.items()},
            len(self.gateway.waiters),
            len(self._tasks),
            self.dead_letters.added,
            tls_health(self.edge),
            ledger_gauges(self._observing.ledger),
            counts_of(stack.desk for stack in self.stacks.values()),
            self._memory.evicted,
            self.dead_letters.dropped,
            restarts=self.loops.restarts,
            unsent=unsent_gauges(self.edge),
        )
