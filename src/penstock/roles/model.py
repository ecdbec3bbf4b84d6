"""One model, put together: its batcher, the loop that drives it, its worker slots, and the desk in front."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import add
from typing import Any

from penstock.adapters.memory import MemoryBroker
from penstock.adapters.observe.exposition import ModelGauges
from penstock.config import Config, Model
from penstock.core.admission import AdmissionRules, backlog_seconds
from penstock.core.batcher import Batcher
from penstock.core.buffer import TierRules
from penstock.core.capacity import CapacityRules, capacity, depths, fleet_capacity
from penstock.core.delivery import RetryRules
from penstock.core.door import Door
from penstock.core.fleet import Worker
from penstock.core.queued import Queued
from penstock.core.rules import BatchingRules
from penstock.errors import BackendError
from penstock.ports import Backend, Broker, Clock, Observer, ResultBus
from penstock.roles.backends import MakeBackend, backend_maker
from penstock.roles.from_config import capacity_rules, time_limits
from penstock.roles.input_cost import cost_of
from penstock.roles.parameter_filter import with_scalars_only
from penstock.roles.sharing import sharing_of
from penstock.runtime.condition import Utilization, condition, place_of, row_of
from penstock.runtime.desk import Admit, Desk
from penstock.runtime.first_batches import FirstBatches
from penstock.runtime.known_good import KnownGood
from penstock.runtime.pump import Pump
from penstock.runtime.sizing import SizingBroker
from penstock.runtime.slot import Slot
from penstock.types import GivenUp, WorkerId

Started = Callable[[WorkerId, BackendError | None], None]

SIZING_BATCH = 256


class ModelStack:
    def __init__(
        self,
        name: str,
        config: Config,
        bus: ResultBus,
        observer: Observer,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        on_started: Started,
        make_backend: MakeBackend | None = None,
        timer_grain: float = 0.001,
    ) -> None:
        self.name = name
        self.model = model = config.models[name]
        self._timeouts = config.timeouts_of(name)
        self._clock = clock
        self._first_batches = FirstBatches()
        self._utilization = Utilization(clock())
        self._on_started = on_started
        self.batcher = Batcher(batching_rules(name, config))
        self.pump = Pump(self.batcher, bus.deliver, observer, loop, clock, timer_grain)
        self.pumps = [self.pump]
        admission = AdmissionRules(config.limits.max_queue, config.limits.max_queue_bytes)
        self._capacity = capacity_rules(config)
        self.is_function = model.is_function
        self.makers: dict[WorkerId, Callable[[], Backend]] = {}  # of a backend like the one that a slot has
        make = make_backend or backend_maker(name, model)
        known_good = KnownGood()
        self.slots = [
            self._slot(self.pump, f"{name}/{number}", make, number, known_good)
            for number in range(model.workers)
        ]
        memory: MemoryBroker[Queued] = MemoryBroker()
        memory.subscribe(self.pump.offer, self.pump.withdraw)
        broker: Broker[Queued] = memory
        cost = cost_of(model.cost)
        if cost is None and model.cost != "requests":
            broker = self._sizing(config, broker, bus, observer, loop)
        admit: Admit = Door(self.batcher, admission, self._capacity).refusal
        self.desk = Desk(
            model=name,
            kind=model.input_kind,
            broker=broker,
            admit=with_scalars_only(admit) if model.protocol == "grpc" else admit,
            backlog_seconds=self.backlog_seconds,
            cost=cost,
            takes_parameters=self._takes_parameters,
            parameter_names=self._parameter_names,
            time_limits=time_limits(config, name),
            longest_limit=self._timeouts.max_client,
            loading=self.loading,
            sharing=sharing_of(name, model),
            default=model.default,
            responds_async=config.responds_async(model),
            output=model.output,
            max_batch=model.max_batch,
            ready=lambda: self.batcher.fleet.healthy > 0,
        )

    def _slot(
        self, pump: Pump, worker: str, make: MakeBackend, number: int, known_good: KnownGood | None = None
    ) -> Slot:
        self.makers[WorkerId(worker)] = partial(make, number)
        return Slot(
            WorkerId(worker),
            make(number),
            pump,
            self._clock,
            processing_limit=self._timeouts.processing,
            first_batch_limit=self._timeouts.first_batch,
            start_limit=self.model.start_timeout,
            health_interval=self.model.health_interval,
            on_started=self._on_started,
            version=self.model.version,
            warm=self.model.is_warm,
            first_batches=self._first_batches,
            known_good=known_good,
        )

    def _sizing(
        self,
        config: Config,
        broker: Broker[Queued],
        bus: ResultBus,
        observer: Observer,
        loop: asyncio.AbstractEventLoop,
    ) -> Broker[Queued]:
        """The user's cost function is user code: it gets a process, a batcher and a loop of its own."""
        name = f"{self.name}/cost"
        model = Model(target=self.model.cost, input=self.model.input, output="json")
        rules = replace(
            batching_rules(self.name, config),
            model=name, max_batch=SIZING_BATCH, policy="greedy", max_cost=float("inf"),
            reserve=0, group_lengths=False,
        )  # fmt: skip
        sizing = SizingBroker(broker, bus.deliver, self.batcher.rules.max_cost)
        pump = Pump(Batcher(rules), sizing.sized, _Sizing(observer), loop, self._clock)
        sizing.subscribe(pump.offer, pump.withdraw)
        self.pumps.append(pump)
        self.slots.append(self._slot(pump, f"{name}/0", backend_maker(name, model), 0))
        return sizing

    def _takes_parameters(self) -> bool:
        return any(getattr(slot.backend, "takes_parameters", True) for slot in self.slots)

    def loading(self) -> bool:
        """Nobody can serve, and somebody is still in its first batch."""
        fleet = self.batcher.fleet
        return fleet.healthy == 0 and fleet.loaded_in(self._clock()) is not None

    def _parameter_names(self) -> Sequence[str] | None:
        """All slots run the same; one that has started knows."""
        known = (getattr(slot.backend, "parameter_names", None) for slot in self.slots)
        return next(filter(None, known), None)

    def backlog_seconds(self) -> float:
        return backlog_seconds(self.batcher, self._clock())

    # ---- how it stands ------------------------------------------------------------------------------------

    def health(self, now: float) -> dict[str, Any]:
        fleet, curve = self.batcher.fleet, self.batcher.curve
        return {
            "status": condition(len(fleet.workers), fleet.healthy),
            "gpu_utilization": round(utilization_of(self.batcher, now), 4),
            "queue_depth": self.batcher.waiting,
            "requests_per_second": round(self.batcher.rate(now), 3),
            **capacity_health(self.batcher, self._capacity),
            "workers_healthy": fleet.healthy,
            "workers": len(fleet.workers),
            "service_ms": {"single": round(curve.single * 1e3, 3), "full": round(curve.full * 1e3, 3)},
            "service_spread": round(curve.spread, 4),
            "best_batch": curve.best_size,
            "set_apart": self.batcher.apart.tenants(now),
        }

    def workers(self, now: float, *, leaving: bool) -> list[dict[str, Any]]:
        known = self.batcher.fleet.workers
        self._utilization.look({worker.id: worker.busy_for(now) for worker in known.values()}, now)
        slots = [slot for slot in self.slots if slot.worker in known]
        return [place_of(slot.worker, self._row(slot, now, leaving)) for slot in slots]

    def _row(self, slot: Slot, now: float, leaving: bool) -> dict[str, Any]:
        worker = self.batcher.fleet.workers[slot.worker]
        return row_of(
            self.name,
            slot,
            state_of(worker, now),
            leaving=leaving,
            utilization=self._utilization.of(worker.id),
            in_flight=worker.batch.size if worker.batch is not None else 0,
            batches=worker.batches,
            busy_seconds=worker.busy_seconds,
            relative_service_time=round(worker.speed, 3),
        )

    def gauges(self, tiers: Sequence[str], now: float) -> ModelGauges:
        gauges = model_gauges(self.batcher, tiers, now, sum(slot.restarts for slot in self.slots))
        own = [slot for slot in self.slots if slot.worker in self.batcher.fleet.workers]
        full = sum(slot.full for slot in own)
        workers = {**gauges.workers, "full": full, "offline": gauges.workers["offline"] - full}
        return replace(gauges, workers=workers, pressure=max(slot.pressure for slot in own))


def capacity_health(batcher: Batcher, rules: CapacityRules) -> dict[str, float | None]:
    """What the workers can do, and the depths at which tiers are refused; none of these while that is unknown."""
    known = capacity(batcher) > 0.0
    warning, critical = depths(batcher, rules)
    return {
        "capacity_rps": round(fleet_capacity(batcher), 3),
        "warning_depth": round(warning, 1) if known else None,
        "critical_depth": round(critical, 1) if known else None,
    }


def utilization_of(batcher: Batcher, now: float) -> float:
    """Offered load over the capacity that this batcher may count on."""
    offered = capacity(batcher)
    return batcher.rate(now) / offered if offered else 0.0


def model_gauges(batcher: Batcher, tiers: Sequence[str], now: float, restarts: int) -> ModelGauges:
    workers = batcher.fleet.workers.values()
    states = Counter(state_of(worker, now) for worker in workers)
    return ModelGauges(
        queue_depth=dict(
            zip(tiers, map(add, batcher.depth.by_tier, batcher.apart.depth.by_tier), strict=True)
        ),
        workers={state: states[state] for state in STATES},
        busy_seconds=sum(worker.busy_for(now) for worker in workers),
        utilization=utilization_of(batcher, now),
        capacity=fleet_capacity(batcher),
        restarts=restarts,
    )


STATES = ("idle", "busy", "resting", "loading", "offline")


def state_of(worker: Worker, now: float) -> str:
    """`resting`: its breaker is open. Which of those that are offline are `full`, only their slots can tell."""
    if not worker.ready:
        return "loading" if worker.loading else "offline"
    if worker.batch is not None:
        return "busy"
    return "resting" if worker.on_probation and worker.open_until > now else "idle"


class _Sizing(Observer):
    """Sizing is not inference, and is not counted as such; but who fails at it for good has failed."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        self._observer.given_up(replies, now)


def batching_rules(name: str, config: Config) -> BatchingRules:
    model, retries = config.models[name], config.retries
    levels = sorted(config.tiers.levels.values(), key=lambda level: level.rank)
    return BatchingRules(
        model=name,
        max_batch=model.max_batch,
        max_wait=model.max_wait,
        max_cost=float("inf") if model.max_cost is None else model.max_cost,
        policy=model.policy,
        reserve=model.reserve,
        group_lengths=model.group_lengths,
        per_item_parameters=model.parameters == "per_item",
        tiers=TierRules(
            weights=tuple(level.weight for level in levels),
            strict=config.tiers.order == "strict",
            ageing=config.tiers.ageing,
        ),
        retries=RetryRules(
            attempts=retries.attempts,
            base=retries.base,
            longest=retries.max,
            budget_ratio=retries.budget_ratio,
            budget_per_second=retries.budget_per_second,
        ),
        breaker_failures=retries.breaker_failures,
        breaker_cooldown=retries.breaker_cooldown,
        max_lanes=config.limits.max_lanes,
        processing=config.timeouts_of(name).processing,
    )
