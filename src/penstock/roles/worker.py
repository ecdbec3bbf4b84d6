"""`penstock worker`: slots around backends, fed by whichever batcher takes them from the line."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.adapters.observe.exposition import Exposition, ModelGauges, ServerGauges
from penstock.adapters.redis.bus.credits import Credits
from penstock.adapters.redis.bus.dispatch import WorkerPost
from penstock.adapters.redis.bus.wire import Dispatch, Message
from penstock.adapters.redis.link.connect import guard
from penstock.admin.app import admin_app
from penstock.cluster.condition import health_of
from penstock.cluster.member import Member, announcement
from penstock.config import Config
from penstock.errors import BackendError, StoreDown, UserMistake
from penstock.ports import Clock
from penstock.roles.auth import check_admin
from penstock.roles.backends import backend_maker
from penstock.roles.input_cost import cost_of
from penstock.roles.observers import Observing
from penstock.roles.sharing import sameness_of
from penstock.runtime.condition import Utilization, place_of, row_of
from penstock.runtime.first_batches import FirstBatches
from penstock.runtime.known_good import KnownGood
from penstock.runtime.remote_dock import RemoteDock
from penstock.runtime.slot import Slot
from penstock.types import Batch, Reason, Request, WorkerId

log = logging.getLogger("penstock.worker")


TAKES_ANY: dict[str, object] = {"takes_parameters": True, "parameter_names": None}


class WorkerRole(Member):
    edge = None

    def __init__(
        self, config: Config, loop: asyncio.AbstractEventLoop, clock: Clock = time.monotonic
    ) -> None:
        for name, model in config.models.items():
            if cost_of(model.cost) is None and model.cost != "requests":
                raise UserMistake(
                    f"models.{name}.cost: a cost function runs only in `penstock serve`; here it must be requests,"
                    " bytes, characters or tokens"
                )
        super().__init__("workers", config, loop)
        self._clock = clock
        self._observing = Observing(config, loop, clock, config.models, answers=False)
        self._exposition = Exposition(self._observing.metrics, self._gauges, self.pauses)
        report, bench = WorkerPost(self.store, self.post), Credits(self.store)
        self._docks = {
            name: RemoteDock(name, bench, report, self._observing.told, clock) for name in config.models
        }
        self._slots: dict[WorkerId, tuple[str, Slot]] = {}
        self._not_started = set(config.models)
        self._first_started: asyncio.Future[None] = loop.create_future()
        for name, model in config.models.items():
            make, limits = backend_maker(name, model, self.name), config.timeouts_of(name)
            first_batches, known_good = FirstBatches(), KnownGood()
            for number in range(model.workers):
                worker = WorkerId(f"{self.name}/{name}/{number}")
                self._slots[worker] = (
                    name,
                    Slot(
                        worker,
                        make(number),
                        self._docks[name],
                        clock,
                        processing_limit=limits.processing,
                        first_batch_limit=limits.first_batch,
                        start_limit=model.start_timeout,
                        health_interval=model.health_interval,
                        on_started=self._slot_started,
                        version=model.version,
                        warm=model.is_warm,
                        first_batches=first_batches,
                        known_good=known_good,
                        sameness=sameness_of(model),
                    ),
                )
        self._utilization = Utilization(clock())
        self._batchers: set[str] = set()  # known when we last looked
        self.registry.on_changed = self._look_around
        check_admin(config)
        self.admin = admin_app(self, token=config.server.admin_token, aside=self.store.aside)

    async def begin(self) -> None:
        await self._announce_models()
        for name, dock in self._docks.items():
            self.loops.keep(f"the dock of {name}", dock.run)
        for worker, (_, slot) in self._slots.items():
            self.loops.keep(f"the slot {worker}", slot.run)
        await self._first_started
        await self._announce_models()  # now it is known which parameters a function takes

    async def _announce_models(self) -> None:
        for name in self.config.models:
            try:
                with guard():
                    await self.registry.announce_model(name, self._announcement(name))
            except StoreDown as error:  # the next heartbeat says it again
                log.warning("a model is announced later", extra={"model": name, "error": error.message})

    def _announcement(self, name: str) -> dict[str, object]:
        """Which parameters a function takes is known once it has started. Until then, what was said of it last."""
        backends = [slot.backend for of, slot in self._slots.values() if of == name]
        started = [backend for backend in backends if getattr(backend, "is_known", True)]
        known = (getattr(backend, "parameter_names", None) for backend in started)
        takes = {
            "takes_parameters": any(getattr(backend, "takes_parameters", True) for backend in started),
            "parameter_names": next(filter(None, known), None),
        }
        before = self.registry.models.get(name, {})
        if not started:
            takes = {item: before.get(item, unknown) for item, unknown in TAKES_ANY.items()}
        scalar = self.config.models[name].protocol == "grpc"
        return {**announcement(self.config, name), **takes, "scalar_parameters": scalar}

    def _slot_started(self, worker: WorkerId, error: BackendError | None) -> None:
        """A function that cannot even start is the operator's mistake; an endpoint may yet come up."""
        model = self._slots[worker][0]
        if error is not None:
            is_function = self.config.models[model].is_function
            if model in self._not_started and is_function and not self.started.done():
                self.started.set_exception(UserMistake(error.message, details=error.details))
                return
            log.error("worker did not start", extra={"worker": worker, "error": error.message})
        else:  # it may be another than it was before: mended, and started anew
            self.registry.describe_model(model, self._announcement(model))
        self._not_started.discard(model)
        if not self._not_started and not self._first_started.done():
            self._first_started.set_result(None)

    def describe(self) -> dict[str, object]:
        busy = {worker: self._docks[model].busy_seconds[worker] for worker, (model, _) in self._slots.items()}
        self._utilization.look(busy, self._clock())
        return {**super().describe(), "slots": {worker: self._row(worker) for worker in self._slots}}

    def _row(self, worker: WorkerId) -> dict[str, object]:
        model, slot = self._slots[worker]
        dock = self._docks[model]
        busy = dock.in_flight(worker) > 0
        state = ("busy" if busy else "idle") if dock.is_ready(worker) else "offline"
        return row_of(
            model,
            slot,
            state,
            leaving=self._retired,
            utilization=self._utilization.of(worker),
            in_flight=dock.in_flight(worker),
            batches=dock.batches[worker],
            busy_seconds=dock.busy_seconds[worker],
            relative_service_time=None,
        )

    def _look_around(self) -> None:
        """A batcher that is gone may have died with slots of ours that it had taken from the line."""
        before, self._batchers = self._batchers, set(self.registry.members["batchers"])
        if not before <= self._batchers:
            for dock in self._docks.values():
                dock.say_again()

    # ---- batches -----------------------------------------------------------------------------------------

    def received(self, message: Message) -> None:
        if isinstance(message, Dispatch) and message.model in self._docks:
            now = self._clock()
            requests = [
                Request(member.key, message.model, member.input, now, now, now, tenant=member.tenant)
                for member in message.members
            ]
            batch = Batch(message.batch_id, message.model, message.parameters, requests, Reason.DUE, now)
            batch.limit = message.limit
            self._docks[message.model].arrived(WorkerId(message.slot), message, batch)

    # ---- life --------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> int:
        return sum(self._docks[model].in_flight(worker) for worker, (model, _) in self._slots.items())

    async def drain(self, seconds: float) -> bool:
        """The registry tells the batchers; a batch that is on its way all the same is still done."""
        try:
            async with asyncio.timeout(seconds):
                await self.registry.beat()
                await asyncio.gather(*(dock.drain() for dock in self._docks.values()))
                await asyncio.sleep(2 * self.config.redis.heartbeat)
                await asyncio.gather(*(dock.drain() for dock in self._docks.values()))
        except TimeoutError:
            return False
        except Exception as error:
            log.warning("could not say good-bye: Redis is away", extra={"error": str(error)})
        return True

    def abandon(self) -> None:
        """Nothing to say: a batch that is not finished is given to another worker."""

    # ---- the admin plane's questions -----------------------------------------------------------------------

    def why_not_ready(self) -> str:
        without = [name for name, dock in self._docks.items() if not self._healthy(name, dock)]
        loading = {model for model, slot in self._slots.values() if slot.loading}.intersection(without)
        if loading:
            return f"loading {', '.join(sorted(loading))}"
        return f"no healthy slot for {', '.join(without)}" if without else ""

    def _healthy(self, model: str, dock: RemoteDock[Dispatch]) -> int:
        return sum(dock.is_ready(worker) for worker, (of, _) in self._slots.items() if of == model)

    def health(self) -> Mapping[str, Any]:
        return {"role": "worker", "name": self.name, **self.condition(), **health_of(self.registry)}

    def workers(self) -> Sequence[Mapping[str, Any]]:
        return [place_of(worker, self._row(worker)) for worker in self._slots]

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        return None

    def metrics(self) -> bytes:
        return self._exposition.text()

    def _gauges(self) -> ServerGauges:
        models = {}
        for name, dock in self._docks.items():
            own = [worker for worker, (of, _) in self._slots.items() if of == name]
            healthy = self._healthy(name, dock)
            models[name] = ModelGauges(
                queue_depth={},
                workers={"healthy": healthy, "offline": len(own) - healthy},
                busy_seconds=sum(dock.busy_seconds[worker] for worker in own),
                utilization=max(self._utilization.of(worker) for worker in own),
                capacity=0.0,
                restarts=sum(self._slots[worker][1].restarts for worker in own),
            )
        return ServerGauges(models, aside=self.store.aside.counts, restarts=self.loops.restarts)
