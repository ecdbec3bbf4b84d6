"""Puts one model of `penstock serve` together: its batcher and pump, its slots, and the desk in front.
`embedded.py` makes a `ModelStack` for each model, once, and hands its parts on."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from penstock.adapters.memory import MemoryBroker
from penstock.config import Config, Model
from penstock.core.admission import Admission
from penstock.core.batcher import Batcher
from penstock.core.queued import Queued
from penstock.core.sizes import ANY
from penstock.errors import BackendError
from penstock.from_config.input_cost import cost_of
from penstock.from_config.rules import admission_rules, batching_rules, capacity_rules, padding_of
from penstock.from_config.sharing import sharing_of
from penstock.from_config.tiers import time_limits
from penstock.from_config.warm_up import idle_sizes_of, warmer_of
from penstock.ports import Backend, Broker, Clock, Observer, ResultBus
from penstock.roles.backends import MakeBackend, backend_maker
from penstock.runtime.desk import Admit, Desk, one_by_one
from penstock.runtime.first_batches import FirstBatches
from penstock.runtime.known_good import KnownGood
from penstock.runtime.padding import Padding
from penstock.runtime.parameter_filter import with_scalars_only
from penstock.runtime.pump import Pump
from penstock.runtime.served_model import ServedModel
from penstock.runtime.sizing import SizingBroker
from penstock.runtime.slot import Slot
from penstock.runtime.warm_up import Warmer
from penstock.types import GivenUp, WorkerId

log = logging.getLogger("penstock")

# Called when a worker has started, or failed to: with the model's name, the worker, and the error.
Started = Callable[[str, WorkerId, BackendError | None], None]

SIZING_BATCH = 256  # inputs that a user's cost function gets at once, at most


class ModelStack:
    """All parts of one model. `desk` takes requests in; `served` says how the model stands."""

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
        """`make_backend`, `timer_grain`: for tests, which have backends and timers of their own."""
        self.name = name
        self.model = model = config.models[name]
        batcher = Batcher(batching_rules(name, config))
        pump = Pump(batcher, bus.deliver, observer, loop, clock, timer_grain)
        self.served = served = ServedModel(name, pump, capacity_rules(config), clock)
        self._on_started = on_started
        self._warned = False  # whether the log was told that a first input that hangs is waited for
        self._slots = _Slots(config, name, clock, self._started)
        self.makers = self._slots.makers
        make = make_backend or backend_maker(name, model)
        together = _Together(
            KnownGood(), warmer_of(name, model, clock), idle_sizes_of(model), padding_of(model)
        )
        for number in range(model.workers):
            served.slots.append(self._slots.make(pump, f"{name}/{number}", make, number, together))
        memory: MemoryBroker[Queued] = MemoryBroker()
        memory.subscribe(pump.offer, pump.withdraw)
        broker: Broker[Queued] = memory
        cost = cost_of(model.cost)
        if cost is None and model.cost != "requests":
            broker = self._sizing(config, broker, bus, observer, loop, clock)
        self._admission = admission = Admission(batcher, admission_rules(config), capacity_rules(config))
        admit: Admit = admission.refusal
        self.desk = Desk(
            model=name,
            kind=model.input_kind,
            broker=broker,
            admit=with_scalars_only(admit) if model.protocol == "grpc" else admit,
            # Requests of different costs, or whose cost is found before they wait, are let in one by one.
            admit_more=admission.refusal_of_more if model.cost == "requests" else one_by_one,
            backlog_seconds=served.backlog_seconds,
            cost=cost,
            takes_parameters=served.takes_parameters,
            parameter_names=served.parameter_names,
            time_limits=time_limits(config, name),
            longest_limit=config.timeouts_of(name).max_client,
            loading=served.loading,
            sharing=sharing_of(name, model),
            default=model.default,
            responds_async=config.responds_async(model),
            takes_bytes=served.takes_bytes,
            output=model.output,
            max_batch=batcher.rules.max_batch,
            ready=served.ready,
            objective=model.objective,
            slack=served.slack,
        )

    def _started(self, worker: WorkerId, error: BackendError | None) -> None:
        self._on_started(self.name, worker, error)
        if self.model.workers == 1 and self.served.slots[0].first_may_hang and not (self._warned or error):
            self._warned = True
            log.info(
                "the only worker has no warm-up: if its first input hangs, nobody is served for as long as"
                " timeouts.first_batch allows",
                extra={"model": self.name, "limit": self.served.slots[0].first_batch_limit},
            )

    def follow(self, config: Config) -> Desk:
        """Go by another configuration from now on. Returns the desk that takes the former one's place."""
        self.model = config.models[self.name]
        self.served.follow(batching_rules(self.name, config), capacity_rules(config))
        self._admission.follow(admission_rules(config), capacity_rules(config))
        self.desk = replace(
            self.desk,
            time_limits=time_limits(config, self.name),
            longest_limit=config.timeouts_of(self.name).max_client,
            objective=self.model.objective,
        )
        return self.desk

    def _sizing(
        self,
        config: Config,
        broker: Broker[Queued],
        bus: ResultBus,
        observer: Observer,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
    ) -> Broker[Queued]:
        """Returns a broker that first asks the user's cost function what each request costs. That function is user
        code, so it gets a process, a batcher and a pump of its own."""
        name = f"{self.name}/cost"
        model = Model(target=self.model.cost, input=self.model.input, output="json", warmup=None)
        rules = replace(
            batching_rules(self.name, config),
            model=name, max_batch=SIZING_BATCH, sizes=ANY, policy="greedy", max_cost=float("inf"),
            reserve=0, group_lengths=False,
        )  # fmt: skip
        sizing = SizingBroker(broker, bus.deliver, self.served.batcher.rules.max_cost)
        pump = Pump(Batcher(rules), sizing.sized, _Sizing(observer), loop, clock)
        sizing.subscribe(pump.offer, pump.withdraw)
        self.served.pumps.append(pump)
        self.served.slots.append(self._slots.make(pump, f"{name}/0", backend_maker(name, model), 0))
        return sizing


@dataclass(frozen=True)
class _Together:
    """What the slots of a model have in common. The slot of its cost function has none of it."""

    known_good: KnownGood
    warmer: Warmer | None = None
    idle_sizes: Sequence[int] = ()
    padding: Padding | None = None


@dataclass
class _Slots:
    """Makes the slots of one model, by its configuration."""

    config: Config
    model: str
    clock: Clock
    on_started: Callable[[WorkerId, BackendError | None], None]
    first_batches: FirstBatches = field(default_factory=FirstBatches)
    # For each worker, a maker of a backend like its own.
    makers: dict[WorkerId, Callable[[], Backend]] = field(default_factory=dict)

    def make(
        self, pump: Pump, worker: str, make: MakeBackend, number: int, together: _Together | None = None
    ) -> Slot:
        """Returns a slot with its backend. `pump`: where its batches come from. `number`: of the slot, from 0."""
        together = together or _Together(KnownGood())
        model, timeouts = self.config.models[self.model], self.config.timeouts_of(self.model)
        self.makers[WorkerId(worker)] = partial(make, number)
        return Slot(
            WorkerId(worker),
            make(number),
            pump,
            self.clock,
            processing_limit=timeouts.processing,
            first_batch_limit=timeouts.first_batch,
            start_limit=model.start_timeout,
            health_interval=model.health_interval,
            on_started=self.on_started,
            version=model.version,
            warm=not model.is_function,
            first_batches=self.first_batches,
            known_good=together.known_good,
            warmer=together.warmer,
            idle_sizes=together.idle_sizes,
            padding=together.padding,
        )


class _Sizing(Observer):
    """The observer of the sizing batcher. Sizing is not inference and is not counted as such. But if the sizing of
    a request fails for good, the request has failed, and that is passed on."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        self._observer.given_up(replies, now)
