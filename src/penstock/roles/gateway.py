"""`penstock gateway`: takes requests over HTTP and hands them to the batchers through Redis."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from penstock.adapters.observe.exposition import Exposition, ServerGauges
from penstock.adapters.redis.bus.publisher import Publisher
from penstock.adapters.redis.bus.wire import Answers, Failed, Message, Notice, Question, Told
from penstock.adapters.redis.records.answer_cache import RedisAnswers
from penstock.adapters.redis.records.api_keys import RedisKeys
from penstock.adapters.redis.records.ended_tasks import EndedTasks
from penstock.adapters.redis.records.idempotency import RedisClaims
from penstock.adapters.redis.records.quotas import SharedLimiter
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.admin.app import admin_app
from penstock.cluster.condition import all_worker_rows, has_worker, health_of, still_loading, worker_rows
from penstock.cluster.dead_letters import RedisMorgue
from penstock.cluster.idempotency import KeyedDesk
from penstock.cluster.inquiries import Inquiries
from penstock.cluster.member import Member, with_models
from penstock.cluster.task_ledger import TaskLedger
from penstock.cluster.tasks import TaskDesk
from penstock.config import Config
from penstock.edge.edge import Edge
from penstock.errors import Overloaded, Refused, StoreDown, Unacceptable
from penstock.ports import Clock
from penstock.roles.auth import check_admin, doorkeeper
from penstock.roles.bounds import bounds_of_keys, bounds_of_tasks, dead_letters
from penstock.roles.from_config import (
    OUT_OF_TIME,
    data_plane,
    limits_by_rank,
    tenants,
    time_limits,
    tls_health,
    unsent_gauges,
)
from penstock.roles.input_cost import cost_of
from penstock.roles.ledger import ledger_gauges, ledger_health
from penstock.roles.observers import Observing
from penstock.roles.parameter_filter import with_scalars_only
from penstock.roles.sharing import as_announced, counts_of, follow_versions, memory_of
from penstock.runtime.collapse.flight import Flight
from penstock.runtime.collapse.shared_answers import SharedAnswers
from penstock.runtime.desk import Admit, Desk
from penstock.runtime.gateway import Gateway
from penstock.runtime.ids import random_ids
from penstock.runtime.wheel import Wheel
from penstock.types import Accepted, Execution, Failure, Outcome, Reply, Request, WorkerId

# Seconds without any batcher in which requests are still accepted: one that is started anew after its death finds
# them, and they have time left.
BATCHER_BACK = 3.0
CACHE_MEMORY = 0.75  # of the memory limit: beyond it no more answers are kept in Redis


class GatewayRole(Member):
    def __init__(
        self, config: Config, loop: asyncio.AbstractEventLoop, clock: Clock = time.monotonic
    ) -> None:
        super().__init__("gateways", config, loop)
        self._clock = clock
        self._wheel = Wheel(loop, clock)
        self._observing = observing = Observing(config, loop, clock, (), answers=True)
        self._exposition = Exposition(observing.metrics, self._gauges, self.pauses)
        self._desks: dict[str, Desk] = {}
        self._heard_of: dict[str, Mapping[str, Any]] = {}  # models, as they were announced last
        self._has_batcher = False
        self._last_batcher_left = -inf
        self._tasks = RedisTasks(
            self.store, self.name, self.post, config.limits.result_ttl, bounds_of_tasks(config)
        )
        self._dead_letters = dead_letters(self.store, config)
        self.publisher = Publisher(
            self.store, self.name, clock,
            max_requests=config.limits.max_queue, max_bytes=config.limits.max_queue_bytes,
        )  # fmt: skip
        self.publisher.on_failed = self._not_published
        self._task_desk = TaskDesk(self._tasks, self.publisher, clock, self._wheel)
        self._inquiries = Inquiries(
            self.name, self.post, lambda: self.registry.members["gateways"], self._know
        )
        self._ended_tasks: EndedTasks | None = None
        ledger = observing.ledger
        if ledger is not None:
            record = TaskLedger(ledger, config, loop).record
            self._ended_tasks = EndedTasks(self.store, self._writes_for_all, record, ledger.missed)
        self._limiter = SharedLimiter(
            self.store, self.name, clock, lambda: len(self.registry.members["gateways"])
        )
        claims = RedisClaims(
            self.store, self.post, config.idempotency.ttl, config.limits.result_ttl, bounds_of_keys(config)
        )
        self._keyed = KeyedDesk(self._task_desk, claims, clock)
        self._memory = memory_of(config)
        self._answers = SharedAnswers[Flight](
            RedisAnswers(self.store), clock, max_entries=config.limits.max_cache_entries,
            max_bytes=config.limits.max_cache_bytes, has_room=self._has_room_for_answers,
        )  # fmt: skip
        self.gateway = Gateway(
            self._desks,
            tenants(config),
            self._task_desk,
            self._wheel,
            observing.told,
            clock,
            random_ids(),
            self._limiter,
            limits_by_rank(config),
            self._keyed,
            self._memory,
            self._answers,
        )
        check_admin(config)
        self._doorkeeper = doorkeeper(config, lambda file: RedisKeys(self.store))
        doorman = None if self._doorkeeper is None else self._doorkeeper.authenticator
        self.edge: Edge = data_plane(self.gateway, config, loop, clock, doorman, self.not_ready)
        self.morgue = RedisMorgue(self._dead_letters, self._task_desk, config, clock)
        self.admin = admin_app(self, self.morgue, config.server.admin_token, self.store.aside)
        self.registry.on_changed = self._look_around

    async def begin(self) -> None:
        self._look_around()
        if self._doorkeeper is not None:
            await self._doorkeeper.open(self.loops)
        self._observing.told.start()
        if self._ended_tasks is not None:
            self.loops.keep("the ledger's reader", self._ended_tasks.run)
        self.loops.keep("the quotas", self._limiter.run)
        self.loops.keep("the shared cache", self._answers.run)
        self.loops.keep("the publisher", self.publisher.run)

    def describe(self) -> dict[str, object]:
        waiting, ledger = len(self.gateway.waiters), self._observing.ledger is not None
        return {**super().describe(), "waiting": waiting, "ledger": ledger}

    def _writes_for_all(self) -> bool:
        """One gateway writes down the tasks of all: the first by name of those that keep a ledger."""
        gateways = self.registry.members["gateways"]
        return self.name == min((name for name in gateways if gateways[name].get("ledger")), default="")

    # ---- models ------------------------------------------------------------------------------------------

    def _look_around(self) -> None:
        """Models come with the workers that announce them."""
        had, self._has_batcher = self._has_batcher, bool(self.registry.members["batchers"])
        if had and not self._has_batcher:
            self._last_batcher_left = self._clock()
        for name, said in self.registry.models.items():
            if self._heard_of.get(name) != said:
                self._heard_of[name] = said
                self._meet(name, said)
        if self._ended_tasks is not None:
            self._ended_tasks.look_again()
        follow_versions(self._desks.values(), worker_rows(self.registry))

    def _meet(self, name: str, said: Mapping[str, Any]) -> None:
        """An announcement that cannot be used changes nothing: a model that is known is served as before."""
        try:
            desk = self._desk(name, said)
        except Exception as error:
            self.store.aside.add("model", name, f"{type(error).__name__}: {error}", repr(said).encode())
            return
        self._observing.metrics.add_model(name)
        self._desks[name] = desk
        self.gateway.desks_changed()

    def _desk(self, name: str, said: Mapping[str, Any]) -> Desk:
        config, former = with_models(self.config, {name: said}), self._desks.get(name)
        model = config.models[name]
        admit: Admit = partial(self._refusal, name, model.max_cost)
        return Desk(
            model=name,
            kind=model.input_kind,
            broker=self.publisher,
            admit=with_scalars_only(admit) if said.get("scalar_parameters") else admit,
            backlog_seconds=partial(self._backlog_seconds, name),
            cost=cost_of(model.cost),
            takes_parameters=lambda: bool(said.get("takes_parameters", True)),
            parameter_names=lambda: said.get("parameter_names"),
            time_limits=time_limits(config, name),
            longest_limit=config.timeouts_of(name).max_client,
            sharing=as_announced(name, model, None if former is None else former.sharing),
            default=model.default,
            responds_async=self.config.responds_async(model),
            output=model.output,
            max_batch=model.max_batch,
            ready=partial(has_worker, self.registry, name),
        )

    def _has_room_for_answers(self) -> bool:
        """Long before Redis is so full that nothing more is accepted."""
        return self.registry.memory_ratio < CACHE_MEMORY * self.config.redis.memory_limit

    def _refusal(self, model: str, max_cost: float | None, request: Request, now: float) -> Refused | None:
        """Only what can be told from here; the batcher, which knows its queue, refuses what cannot make it."""
        if max_cost is not None and request.cost > max_cost:
            return Unacceptable(
                f"this input costs {request.cost:g}, and max_cost of the model is {max_cost:g}: make it shorter"
            )
        if self.publisher.down:
            return StoreDown("Redis does not answer", retry_after=1.0)
        if self.registry.memory_ratio >= self.config.redis.memory_limit:
            return StoreDown(
                f"Redis is nearly full: redis.memory_limit is {self.config.redis.memory_limit:g} of its maxmemory",
                retry_after=self._backlog_seconds(model),
            )
        if len(self.gateway.waiters) >= self.config.limits.max_queue:
            message = f"this gateway is full: limits.max_queue is {self.config.limits.max_queue}"
            return Overloaded(message, retry_after=self._backlog_seconds(model))
        if self._no_batcher(now):
            return Overloaded("no batcher is running", retry_after=1.0)
        return None

    def _no_batcher(self, now: float) -> bool:
        """None is there, and none has been for so long that none is being started anew."""
        return not self._has_batcher and now - self._last_batcher_left > BATCHER_BACK

    def _backlog_seconds(self, model: str) -> float:
        """How long the longest queue will take, by the batchers' own word."""
        said = [
            batcher.get("models", {}).get(model, {}).get("backlog_seconds", 0.0)
            for batcher in self.registry.members["batchers"].values()
        ]
        return float(max([0.1, *said]))

    # ---- answers -----------------------------------------------------------------------------------------

    def received(self, message: Message) -> None:
        if isinstance(message, Answers):
            self._answer(message)
        elif isinstance(message, Failed):
            for ending in message.endings:
                self._end(ending.keys, ending.outcome, ending.failure)
        elif isinstance(message, Notice):
            self._tasks.notice(message)
            self._task_desk.over(message)
        elif isinstance(message, Question):
            self._inquiries.asked(message)
        elif isinstance(message, Told):
            self._inquiries.told(message)

    def _answer(self, answers: Answers) -> None:
        find, now = self.gateway.find, self._clock()
        execution = Execution(
            WorkerId(answers.worker), answers.batch_id, answers.batch_size, now - answers.seconds,
            answers.seconds, answers.version,
        )  # fmt: skip
        self.gateway.settle(
            [
                Reply(request, Outcome.SUCCESS, output, None, execution)
                for key, output in zip(answers.keys, answers.outputs, strict=True)
                if (request := find(key)) is not None
            ]
        )

    def _end(self, keys: Sequence[str], outcome: Outcome, failure: Failure) -> None:
        find = self.gateway.find
        requests = [request for key in keys if (request := find(key)) is not None]
        self.gateway.settle([Reply(request, outcome, failure=failure) for request in requests])

    def _not_published(self, requests: Sequence[Accepted], failure: Failure) -> None:
        self.gateway.settle([Reply(request, Outcome.FAILED, failure=failure) for request in requests])

    # ---- life --------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> int:
        return len(self.gateway.waiters)

    async def drain(self, seconds: float) -> bool:
        if not await self.gateway.drained(seconds):
            return False
        try:
            async with asyncio.timeout(1.0):
                await self.publisher.flush()  # the last withdrawals spare the workers some work
        except TimeoutError:
            pass
        return True

    def abandon(self) -> None:
        self.gateway.waiters.end_all(OUT_OF_TIME)

    async def stop(self) -> None:
        await self._keyed.close()
        await super().stop()
        if self._doorkeeper is not None:
            await self._doorkeeper.close()
        self._wheel.close()
        await self._observing.told.close()

    # ---- the admin plane's questions -----------------------------------------------------------------------

    def why_not_ready(self) -> str:
        if self._no_batcher(self._clock()):
            return "no batcher is running"
        loading = still_loading(self.registry)
        return f"loading {', '.join(loading)}" if loading else ""

    def health(self) -> Mapping[str, Any]:
        return {
            "role": "gateway",
            "name": self.name,
            **self.condition(),
            **health_of(self.registry),
            "waiting_clients": len(self.gateway.waiters),
            "tls": tls_health(self.edge),
            **ledger_health(self._observing.ledger),
        }

    def workers(self) -> Sequence[Mapping[str, Any]]:
        return all_worker_rows(self.registry)

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        """Here, in Redis if it is a task, or at the other gateways."""
        found: Mapping[str, Any] | None = self._know(request_id)
        if found is None:
            found = await self._task_desk.describe(request_id, tenant)
        return found if found is not None else await self._inquiries.ask(request_id)

    def _know(self, request_id: str) -> dict[str, Any] | None:
        found = self.gateway.describe(request_id) or self._observing.ended.find(request_id)
        return None if found is None else {**found, "gateway": self.name}

    def metrics(self) -> bytes:
        return self._exposition.text()

    def _gauges(self) -> ServerGauges:
        return ServerGauges(
            waiting_clients=len(self.gateway.waiters),
            tls=tls_health(self.edge),
            ledger=ledger_gauges(self._observing.ledger),
            caches=counts_of(self._desks.values()),
            evicted=self._memory.evicted,
            aside=self.store.aside.counts,
            restarts=self.loops.restarts,
            unsent=unsent_gauges(self.edge),
        )
