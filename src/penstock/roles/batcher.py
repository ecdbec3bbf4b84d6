"""`penstock batcher`: the same batching core as the embedded server, between shards and shared workers.

Requests come from the shards it leases, workers from the line that all batchers share. Answers of its own (refused,
expired, given up) go to the gateways; outputs went there from the worker.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.adapters.observe.exposition import Exposition, ServerGauges
from penstock.adapters.redis.bus.credits import Credits
from penstock.adapters.redis.bus.dispatch import Dispatcher
from penstock.adapters.redis.bus.intake import Intake
from penstock.adapters.redis.bus.leases import Leases
from penstock.adapters.redis.bus.wire import Finished, Message
from penstock.admin.app import admin_app
from penstock.cluster.condition import all_worker_rows, health_of
from penstock.cluster.letter_writer import LetterWriter
from penstock.cluster.member import Member, with_models
from penstock.config import Config
from penstock.core.admission import AdmissionRules, backlog_seconds
from penstock.core.batcher import Batcher
from penstock.core.door import Door
from penstock.core.queued import Queued, Sealed
from penstock.ports import Clock
from penstock.roles.auth import check_admin
from penstock.roles.bounds import dead_letters
from penstock.roles.from_config import capacity_rules, tier_names
from penstock.roles.model import batching_rules, capacity_health, model_gauges
from penstock.roles.observers import Observing
from penstock.runtime.borrowing import Borrower
from penstock.runtime.pump import Pump
from penstock.types import Failure, Outcome, Refusal, Reply, Result, WorkerId

log = logging.getLogger("penstock.batcher")

# The gateway has heard of the model, or it would not have let the request in.
NO_MODEL = Failure(
    "SERVICE_OVERLOADED", "this batcher has not heard of the model yet: try again", retry_after=1.0
)
FOR_GATEWAYS = ("takes_parameters", "parameter_names")  # what of an announcement a batcher has no use for


class BatcherRole(Member):
    edge = None

    def __init__(
        self, config: Config, loop: asyncio.AbstractEventLoop, clock: Clock = time.monotonic
    ) -> None:
        super().__init__("batchers", config, loop)
        self._clock, self._loop = clock, loop
        self._observing = Observing(config, loop, clock, (), answers=False)
        self._exposition = Exposition(self._observing.metrics, self._gauges, self.pauses)
        self._tiers = tier_names(config)
        self._pumps: dict[str, Pump] = {}
        self._doors: dict[str, Door] = {}
        self._announced: dict[str, Any] = {}
        self._slots: dict[str, dict[str, str]] = {}  # by worker process: the model of each of its slots
        self._batchers: set[str] = set()  # known when we last looked
        self._departed: dict[str, None] = {}  # worker processes that have gone, the latest last
        self._admission = AdmissionRules(config.limits.max_queue, config.limits.max_queue_bytes)
        self._capacity = capacity_rules(config)
        self.leases = Leases(self.store, self.name, self.alive("batchers"))
        self.intake = Intake(self.store, self.name, clock, self.leases, self.alive("batchers"), Queued)
        self.dispatcher = Dispatcher(self.store, self.post, self.name)
        self.dispatcher.on_undelivered = self._worker_left
        self._letters = LetterWriter(dead_letters(self.store, config), config.retries.attempts, clock)
        self._observing.told.add(self._letters)
        check_admin(config)
        self.admin = admin_app(self, token=config.server.admin_token, aside=self.store.aside)
        self.intake.subscribe(self._take, self._withdraw)
        self.intake.on_inherited = self._inherit
        self.intake.on_lost = self._lost
        self.intake.on_refused = self._refuse
        self.intake.on_unreadable = self.dispatcher.refuse
        self.leases.on_gained = self.leases.on_lost = self._shards_changed
        self.registry.on_changed = self._look_around
        self.registry.on_heard = self._see_workers

    async def begin(self) -> None:
        self._look_around()
        self._observing.told.start()
        self.loops.keep("the dispatcher", self.dispatcher.run)
        self.loops.keep("the dead letters", self._letters.run)
        self.loops.keep("the watchdog", self._watch_batches)
        self.loops.keep("the leases", self.leases.run)
        self.loops.keep("the intake", self.intake.run)

    def describe(self) -> dict[str, object]:
        now = self._clock()
        models = {name: self._model(pump.batcher, now) for name, pump in self._pumps.items()}
        return {**super().describe(), "shards": len(self.leases.owned), "models": models}

    def _model(self, batcher: Batcher, now: float) -> dict[str, object]:
        return {
            "queue_depth": batcher.waiting,
            "requests_per_second": round(batcher.rate(now), 3),
            **capacity_health(batcher, self._capacity),
            "workers_healthy": batcher.fleet.healthy,
            "backlog_seconds": round(backlog_seconds(batcher, now), 3),
        }

    # ---- models and workers ------------------------------------------------------------------------------

    def _look_around(self) -> None:
        for name, said in self.registry.models.items():
            ours = {field: value for field, value in said.items() if field not in FOR_GATEWAYS}
            if self._announced.get(name) != ours:
                self._announced[name] = ours
                self._meet(name, said)
        self._see_workers()
        for process in self._slots.keys() - self.registry.members["workers"].keys():
            self._worker_left(process)
        batchers = set(self.registry.members["batchers"])
        if batchers != self._batchers:
            self._batchers = batchers
            self.leases.batchers_changed()
        self.intake.shards_changed()

    def _meet(self, name: str, said: Mapping[str, Any]) -> None:
        if name in self._pumps:
            log.warning("a model was announced anew; restart the batchers to follow", extra={"model": name})
            return
        try:
            self._open(name, with_models(self.config, {name: said}))
        except Exception as error:  # the others are served, and its next announcement may be better
            self.store.aside.add("model", name, f"{type(error).__name__}: {error}", repr(said).encode())

    def _open(self, name: str, config: Config) -> None:
        rules = replace(batching_rules(name, config), shared=True)
        batcher = Batcher(rules)
        door = Door(batcher, self._admission, self._capacity)
        self._observing.metrics.add_model(name)
        pump = self._pumps[name] = Pump(batcher, self._deliver, self._observing.told, self._loop, self._clock)
        borrower = Borrower(name, pump, Credits(self.store), self._send, self._is_gone, self._clock)
        pump.batcher.share = self._share
        self._doors[name] = door
        self.loops.keep(f"the borrower of {name}", borrower.run)

    def _see_workers(self) -> None:
        for process, said in self.registry.members["workers"].items():
            self._worker_seen(process, said.get("slots", {}))

    def _worker_seen(self, process: str, slots: Mapping[str, Mapping[str, Any]]) -> None:
        """What the registry says is a heartbeat old. So of a slot with a batch of ours it says nothing: the end of
        that batch is told by the slot itself, unless its whole process is gone. While nothing is heard of the
        process nobody counts on its slots; what they have in hand is another's only after its lease."""
        self._departed.pop(process, None)  # it was only cut off for a while
        known, silent = self._slots.setdefault(process, {}), self.registry.is_silent(process)
        for slot, said in slots.items():
            pump = self._pumps.get(said.get("model", ""))
            if pump is None:
                continue
            known[slot] = said["model"]
            worker = pump.batcher.fleet.workers.get(WorkerId(slot))
            if silent:
                if worker is not None and worker.ready:
                    pump.doubted(WorkerId(slot))
            elif said.get("status") == "healthy":
                if worker is None or not worker.ready:
                    pump.known(WorkerId(slot))
            elif said.get("status") == "loading":
                if worker is None or not worker.loading:
                    pump.loading(WorkerId(slot), said.get("first_batch_seconds"))
            elif worker is not None and worker.ready and worker.batch is None:
                pump.gone(WorkerId(slot), None)

    def _worker_left(self, process: str) -> None:
        """Dead, or gone without waiting for us: what its slots had in hand is sent to others."""
        for slot, model in self._slots.pop(process, {}).items():
            self._pumps[model].removed(WorkerId(slot))
        self._departed[process] = None
        if len(self._departed) > 1000:
            del self._departed[next(iter(self._departed))]

    def _is_gone(self, slot: str) -> bool:
        """One we have not heard of yet stands in the line again soon; one that died before we came does not, nor
        does what never was a slot."""
        process = slot.partition("/")[0]
        return process in self._departed or slot not in self._slots.get(process, ())

    @property
    def _share(self) -> float:
        return len(self.leases.owned) / self.store.settings.shards

    def _shards_changed(self, shard: int) -> None:
        for pump in self._pumps.values():
            pump.batcher.share = self._share
        self.intake.shards_changed()

    # ---- requests ----------------------------------------------------------------------------------------

    def _take(self, request: Queued) -> None:
        pump = self._pumps.get(request.model)
        if pump is None:
            self._refuse(request, NO_MODEL)
            return
        if not 0 <= request.tier < len(self._tiers):
            self._find_tier(request)
        refused = self._doors[request.model].refusal(request, self._clock())
        if refused is not None:
            self._observing.told.refused(
                Refusal(request.model, refused.code, request.request_id, request.tenant, self._clock())
            )
            self._refuse(request, Failure.of(refused))
            return
        pump.offer(request)

    def _refuse(self, request: Queued, failure: Failure) -> None:
        self._deliver([Reply(request, Outcome.FAILED, failure=failure)])

    def _find_tier(self, request: Queued) -> None:
        """A gateway with more tiers than we have has let it in: it is served after all that we know better."""
        why = f"tier {request.tier} of {len(self._tiers)}: served as the lowest; give all processes the same tiers"
        self.store.aside.add("request of an unknown tier", request.gateway, why)
        request.tier = len(self._tiers) - 1

    def _inherit(self, request: Queued) -> None:
        """What another batcher left, or what came while nobody was there, was accepted then: no door for it."""
        pump = self._pumps.get(request.model)
        if pump is None:
            self._refuse(request, NO_MODEL)
            return
        if not 0 <= request.tier < len(self._tiers):
            self._find_tier(request)
        pump.offer(request)

    def _withdraw(self, request: Queued) -> None:
        pump = self._pumps.get(request.model)
        if pump is not None:
            pump.withdraw(request)

    def _lost(self, requests: Sequence[Queued]) -> None:
        """Another batcher answers for these now."""
        for request in requests:
            self._withdraw(request)

    def _send(self, worker: WorkerId, batch: Sealed) -> None:
        self.dispatcher.send(worker.partition("/")[0], worker, batch)

    def _deliver(self, replies: Sequence[Reply]) -> None:
        self.dispatcher.answer(replies)
        self.intake.settled([reply.request for reply in replies])

    def received(self, message: Message) -> None:
        if isinstance(message, Finished):
            model = self._slots.get(message.slot.partition("/")[0], {}).get(message.slot)
            pump = self._pumps.get(model or "".join(message.slot.split("/")[1:2]))
            if pump is not None:
                outcome = message.failure or Result(
                    delivered=message.count, version=message.version, executed=message.executed,
                    held_up=self._held_up(pump, message), failures=message.failures,
                )  # fmt: skip
                pump.finished(WorkerId(message.slot), message.batch_id, outcome)

    def _held_up(self, pump: Pump, message: Finished) -> float:
        """A way as long as that tells of Redis being away, and must not pass for the worker being slow."""
        worker = pump.batcher.fleet.workers.get(WorkerId(message.slot))
        if worker is None or worker.batch is None:
            return 0.0
        way = self._clock() - worker.started - message.seconds
        return way if way > self.config.redis.heartbeat else 0.0

    async def _watch_batches(self) -> None:
        """A living worker ends every batch within its limit; a word that never comes is lost."""
        while True:
            await asyncio.sleep(self.config.redis.heartbeat)
            now = self._clock()
            for pump in self._pumps.values():
                for worker in list(pump.batcher.fleet.workers.values()):
                    if worker.batch is None or worker.loading:
                        continue
                    if now - worker.started > worker.batch.limit + self.config.redis.lease:
                        log.warning(
                            "no word of a batch", extra={"worker": worker.id, "batch": worker.batch.id}
                        )
                        pump.gone(worker.id, None)
                        pump.known(worker.id)

    # ---- life --------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> int:
        return len(self.intake.in_hand)

    async def drain(self, seconds: float) -> bool:
        """The shards go to others at once; what is in hand is finished here."""
        try:
            async with asyncio.timeout(seconds):
                for pump in self._pumps.values():
                    pump.drain()
                await self.leases.release_all()
                await self.intake.release()
                await self.dispatcher.flush()
        except TimeoutError:
            return False
        except Exception as error:
            log.warning("could not hand over: Redis is away", extra={"error": str(error)})
            return False
        return True

    def abandon(self) -> None:
        """Nothing to say: what is in hand stays in its shards, and the next batcher takes it over."""

    async def stop(self) -> None:
        await super().stop()
        await self._observing.told.close()
        for pump in self._pumps.values():
            pump.close()

    # ---- the admin plane's questions -----------------------------------------------------------------------

    def dead_loops(self) -> Sequence[str]:
        dead = [word for pump in self._pumps.values() for word in pump.dead()]
        return [*super().dead_loops(), *dead]

    def health(self) -> Mapping[str, Any]:
        return {
            "role": "batcher",
            "name": self.name,
            **self.condition(),
            **health_of(self.registry),
            "shards": sorted(self.leases.owned),
            "in_hand": len(self.intake.in_hand),
        }

    def workers(self) -> Sequence[Mapping[str, Any]]:
        return all_worker_rows(self.registry)

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        return None

    def metrics(self) -> bytes:
        return self._exposition.text()

    def _gauges(self) -> ServerGauges:
        now = self._clock()
        models = {name: model_gauges(pump.batcher, self._tiers, now, 0) for name, pump in self._pumps.items()}
        return ServerGauges(
            models,
            dead_letters={name: self._letters.added[name] for name in self._pumps},
            letters_dropped=self._letters.dropped,
            aside=self.store.aside.counts,
            restarts=self.loops.restarts,
        )
