"""A worker over a bus: slots around backends. Idle slots stand in the line of their model, in the order in which
they became idle. A batcher takes a slot from the line and sends it one batch.

mailbox ──batch──► dock of the model ──► slot ──► backend ──► gateways: outputs   batcher: it is done

A dock (`dock.py`) puts the idle slots of one model into the line, hands them their batches and tells how these
ended. `roles/worker.py` makes a `WorkerMember` for each process of `penstock worker`; `Member` calls its methods.
What it cannot do with a batch it tells the batcher, which decides what is tried again.
"""

import asyncio
import logging
from collections.abc import Sequence

from penstock.cluster.announcements import announcement_of
from penstock.cluster.member import Member
from penstock.cluster.worker_post import WorkerPost
from penstock.cluster.worker_slots import MakeBackends, WorkerSlots
from penstock.config import Config
from penstock.errors import BackendError, StoreDown, UserMistake
from penstock.from_config.input_cost import cost_of
from penstock.gauges import ServerGauges
from penstock.ports import BatchObserver, Clock
from penstock.ports.bus import Bus
from penstock.ports.tasks import TaskEndings
from penstock.runtime.condition import WorkerRow
from penstock.types import Batch, Reason, WorkerId
from penstock.words.announcements import ModelAnnouncement
from penstock.words.heartbeats import WorkerHeartbeat
from penstock.words.messages import Dispatch, Message

log = logging.getLogger("penstock.worker")

UNKNOWN = ModelAnnouncement()  # stands for a model about which nothing is known: it takes any parameters


class WorkerMember(Member):
    def __init__(
        self,
        config: Config,
        bus: Bus,
        endings: TaskEndings,
        make_backends: MakeBackends,
        observer: BatchObserver,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
    ) -> None:
        _check_costs(config)
        super().__init__("workers", config, bus, loop, clock)
        self._clock = clock
        self._observer = observer
        report = WorkerPost(bus.post, endings)
        self._slots = WorkerSlots(
            config,
            self.name,
            make_backends,
            bus.credits(self.zone),
            report,
            observer,
            self._slot_started,
            clock,
        )
        self._not_started = set(config.models)  # the models of which no slot has started yet, or failed to
        # Done once each model has a slot that has started, or failed to.
        self._first_started: asyncio.Future[None] = loop.create_future()
        self._batchers: set[str] = set()  # the batchers that were there when we last looked
        self._reachable = False  # whether the bus was reachable when we last looked
        self.registry.on_changed = self._look_around

    async def begin(self) -> None:
        self._observer.start()
        await self._announce_models()
        for name, dock in self._slots.docks.items():
            self.loops.keep(f"the dock of {name}", dock.run)
        for worker, (_, slot) in self._slots.slots.items():
            self.loops.keep(f"the slot {worker}", slot.run)
        await self._first_started
        await self._announce_models()  # by now it is known which parameters a function takes

    def follow(self, before: Config, now: Config) -> None:
        """Go by another configuration, and announce what of it is for gateways and batchers."""
        super().follow(before, now)
        self._slots.follow(now)
        for name in now.models:
            self.registry.describe_model(name, self._announcement(name))

    def describe(self) -> WorkerHeartbeat:
        return WorkerHeartbeat(slots=self._slots.reports(leaving=self._retired))

    def _look_around(self) -> None:
        """Put free slots into the line again if they may not stand there any more: a batcher that has gone may have
        taken them, or the bus was away when they entered it."""
        before, self._batchers = self._batchers, set(self.registry.members["batchers"])
        was_reachable, self._reachable = self._reachable, self.registry.reachable
        if not before <= self._batchers or (self._reachable and not was_reachable):
            self._slots.say_again()

    # ---- models ------------------------------------------------------------------------------------------

    async def _announce_models(self) -> None:
        for name in self.config.models:
            try:
                await self.registry.announce_model(name, self._announcement(name))
            except StoreDown as error:  # the next heartbeat announces it again
                log.warning("a model is announced later", extra={"model": name, "error": error.message})

    def _announcement(self, name: str) -> ModelAnnouncement:
        """What to announce of a model. Which parameters a function takes is known once it has started. Until then
        this repeats what was announced last."""
        backends = [slot.backend for _, slot in self._slots.of(name)]
        started = [backend for backend in backends if getattr(backend, "is_known", True)]
        if not started:
            before = self.registry.models.get(name, UNKNOWN)
            return announcement_of(self.config, name, before.takes_parameters, before.parameter_names)
        takes = any(getattr(backend, "takes_parameters", True) for backend in started)
        known = (getattr(backend, "parameter_names", None) for backend in started)
        return announcement_of(self.config, name, takes, next(filter(None, known), None))

    def _slot_started(self, worker: WorkerId, error: BackendError | None) -> None:
        """Note how a slot started. If a function cannot even start, that is the operator's mistake, and the worker
        does not start. An endpoint may yet come up."""
        model = self._slots.model_of(worker)
        if error is not None:
            is_function = self.config.models[model].is_function
            if model in self._not_started and is_function and not self.started.done():
                self.started.set_exception(UserMistake(error.message, details=error.details))
                return
            log.error("worker did not start", extra={"worker": worker, "error": error.message})
        else:  # a function that was mended and started anew may take other parameters
            self.registry.describe_model(model, self._announcement(model))
        self._not_started.discard(model)
        if not self._not_started and not self._first_started.done():
            self._first_started.set_result(None)

    # ---- batches -----------------------------------------------------------------------------------------

    def received(self, message: Message) -> None:
        if isinstance(message, Dispatch) and message.model in self._slots.docks:
            now = self._clock()
            requests = [member.request(message.model, now) for member in message.members]
            sealed = now - message.waited
            # Reason.DUE only fills the field: why the batch was sent is in `message.reason`.
            batch = Batch(message.batch_id, message.model, message.parameters, requests, Reason.DUE, sealed)
            batch.limit, batch.traced = message.limit, message.traced
            self._slots.docks[message.model].arrived(WorkerId(message.slot), message, batch)

    # ---- life --------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> int:
        return self._slots.in_flight

    async def drain(self, seconds: float) -> bool:
        """Finish what is in hand. The registry tells the batchers that this worker leaves; if they do not hear it,
        the slots are out of the line all the same. A batch that is already on its way is still done."""
        docks = self._slots.docks.values()
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(self.say_goodbye(), *(dock.drain() for dock in docks))
                await asyncio.sleep(2 * self.bus.heartbeat)
                await asyncio.gather(*(dock.drain() for dock in docks))
        except TimeoutError:
            return False
        except Exception as error:
            log.error("the slots could not be drained", exc_info=error)
            return False
        return True

    async def leave(self) -> None:
        """Leave the registry. What the docks still have to tell is sent meanwhile, or not at all."""
        await super().leave()
        await self._slots.close()

    async def stop(self) -> None:
        await super().stop()
        await self._observer.close()

    # ---- how it stands -----------------------------------------------------------------------------------

    def why_not_ready(self) -> str:
        return self._slots.why_not_ready()

    def workers(self) -> Sequence[WorkerRow]:
        return self._slots.rows(leaving=self._retired)

    def gauges(self) -> ServerGauges:
        return ServerGauges(
            self._slots.gauges(),
            aside=self.bus.aside.counts,
            restarts=self.loops.restarts,
            store=self.store_gauges(),
        )


def _check_costs(config: Config) -> None:
    for name, model in config.models.items():
        if cost_of(model.cost) is None and model.cost != "requests":
            raise UserMistake(
                f"models.{name}.cost: a cost function runs only in `penstock serve`; here it must be requests,"
                " bytes, characters or tokens"
            )
