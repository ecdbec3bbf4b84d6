"""One model, put together: its batcher, the loop that drives it, its worker slots, and the desk in front."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from penstock.adapters.memory import MemoryBroker
from penstock.config import Config, Model
from penstock.core.admission import backlog_seconds
from penstock.core.batcher import Batcher
from penstock.core.door import Door
from penstock.core.queued import Queued
from penstock.errors import BackendError
from penstock.from_config.input_cost import cost_of
from penstock.from_config.rules import admission_rules, batching_rules, capacity_rules
from penstock.from_config.sharing import sharing_of
from penstock.from_config.tiers import time_limits
from penstock.gauges import ModelGauges
from penstock.ports import Backend, Broker, Clock, Observer, ResultBus
from penstock.roles.backends import MakeBackend, backend_maker
from penstock.runtime.condition import Utilization, WorkerRow, condition, report_of, row_here
from penstock.runtime.desk import Admit, Desk
from penstock.runtime.first_batches import FirstBatches
from penstock.runtime.known_good import KnownGood
from penstock.runtime.model_condition import (
    capacity_health,
    model_gauges,
    state_of,
    utilization_of,
)
from penstock.runtime.parameter_filter import with_scalars_only
from penstock.runtime.pump import Pump
from penstock.runtime.sizing import SizingBroker
from penstock.runtime.slot import Slot
from penstock.types import GivenUp, WorkerId
from penstock.words.heartbeats import SlotReport

Started = Callable[[str, WorkerId, BackendError | None], None]  # the model's name first

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
        admit: Admit = Door(self.batcher, admission_rules(config), self._capacity).refusal
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
            on_started=partial(self._on_started, self.name),
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

    def workers(self, now: float, *, leaving: bool) -> list[WorkerRow]:
        known = self.batcher.fleet.workers
        self._utilization.look({worker.id: worker.busy_for(now) for worker in known.values()}, now)
        slots = [slot for slot in self.slots if slot.worker in known]
        return [row_here(slot.worker, self._report(slot, now, leaving)) for slot in slots]

    def _report(self, slot: Slot, now: float, leaving: bool) -> SlotReport:
        worker = self.batcher.fleet.workers[slot.worker]
        return report_of(
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


class _Sizing(Observer):
    """Sizing is not inference, and is not counted as such; but who fails at it for good has failed."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        self._observer.given_up(replies, now)
