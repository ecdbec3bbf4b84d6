"""A batcher: the same batching core as the embedded server, between shards and shared workers.

    intake of its shards ──► admission ──► pump of the model ──► dispatcher ──► worker
                              │refused                        ▲  │ refused, expired, given up
                              └───────────────────────────────┘  └──► gateways

`roles/batcher.py` makes one for each process of `penstock batcher`. Slots come from the line that all batchers
share (`cluster.borrowing`). Outputs go straight from the worker to the gateways; the batcher is told only that the
batch is done.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from penstock.cluster.batched_models import BatchedModels
from penstock.cluster.dispatch import Dispatcher
from penstock.cluster.letter_writer import LetterWriter
from penstock.cluster.member import Member
from penstock.cluster.staying import zones_that_batch
from penstock.cluster.watchdog import Watchdog
from penstock.cluster.workers_seen import WorkersSeen
from penstock.cluster.zones import is_zoned, loans_of
from penstock.config import Config
from penstock.core.queued import Queued, Sealed
from penstock.errors import StoreDown
from penstock.gauges import ServerGauges
from penstock.ports import Clock, Observer
from penstock.ports.bus import Bus
from penstock.ports.records import Records
from penstock.ports.shards import Shards
from penstock.runtime.observers import Observers
from penstock.runtime.pump import Pump
from penstock.shard_plan import shards_at_home
from penstock.types import Failure, Outcome, Refusal, Reply, Result, WorkerId
from penstock.words.heartbeats import BatcherHeartbeat
from penstock.words.messages import Finished, Message
from penstock.words.slot_name import process_of

log = logging.getLogger("penstock.batcher")

# The answer if this batcher does not know the model. The gateway does, or it would not have let the request in.
NO_MODEL = Failure(
    "SERVICE_OVERLOADED", "this batcher has not heard of the model yet: try again", retry_after=1.0
)


class BatcherMember(Member):
    def __init__(
        self,
        config: Config,
        bus: Bus,
        shards: Shards,
        records: Records,
        observer: Observer,
        on_model: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        wall_clock: Callable[[], float],
    ) -> None:
        """`on_model` is told of each model that is announced."""
        super().__init__("batchers", config, bus, loop, clock)
        self._clock = clock
        self._letters = LetterWriter(records.letters, config.retries.attempts, clock, wall_clock)
        self._observer = Observers(observer, self._letters)
        self._shards = shards.number
        self._tiers = len(config.tiers.levels)
        self._staying = self.staying("batchers")
        self._batchers: set[str] = set()  # the batchers that were there to stay when we last looked
        self._zoned = False  # whether there were several zones when we last looked
        # The shards are dealt out to those who stay. What is pending is taken from none but the dead.
        self.leases = shards.leases(self.name, self._staying, self._zone_of)
        self.intake = shards.intake(self.name, clock, self.leases, self.alive("batchers"), Queued)
        self.dispatcher = Dispatcher(bus.post, records.endings, self.name, clock)
        self._models = BatchedModels(
            config,
            bus,
            self.loops,
            self._observer,
            on_model,
            self._deliver,
            self._send,
            self._is_gone,
            self._zone_of_slot,
            loop,
            clock,
        )
        self._pumps, self._admissions = self._models.pumps, self._models.admissions
        self._workers = WorkersSeen(self.registry, self._pumps, self.zone)
        self._watchdog = Watchdog(self._pumps, bus.heartbeat, bus.lease, clock)
        self._listen()

    def _listen(self) -> None:
        self.dispatcher.on_undelivered = self._workers.unreachable
        self.dispatcher.on_recorded = self.intake.settled
        self.intake.subscribe(self._take, self._withdraw)
        self.intake.on_inherited = self._inherit
        self.intake.on_lost = self._lost
        self.intake.on_refused = self._refuse
        self.intake.on_unreadable = self.dispatcher.refuse
        self.leases.on_gained = self.leases.on_lost = self._shards_changed
        self.registry.on_changed = self._look_around
        self.registry.on_heard = self._look_at_workers

    async def begin(self) -> None:
        self._look_around()
        if self._retired:  # it was told to drain before it had started, and takes no shards
            await self._give_back_shards()
        self._observer.start()
        self.loops.keep("the dispatcher", self.dispatcher.run)
        self.loops.keep("the dead letters", self._letters.run)
        self.loops.keep("the watchdog", self._watchdog.run)
        self.loops.keep("the leases", self.leases.run)
        self.loops.keep("the intake", self.intake.run)

    def follow(self, before: Config, now: Config) -> None:
        super().follow(before, now)
        self._models.follow(now)

    def describe(self) -> BatcherHeartbeat:
        return BatcherHeartbeat(shards=len(self.leases.owned), models=self._models.describe())

    def _look_around(self) -> None:
        """Take in what has changed in the registry: models, workers, other batchers."""
        self._models.look(self.registry.models)
        self._look_at_workers()
        self._workers.miss()
        batchers = self._staying()
        if batchers != self._batchers:
            self._batchers = batchers
            self.leases.batchers_changed()
        self.intake.shards_changed()

    def _look_at_workers(self) -> None:
        """Take in how the workers stand, and what other zones lend."""
        self._workers.look()
        before, self._zoned = self._zoned, is_zoned(self.registry)
        if before or self._zoned:
            self._take_share()
            self._models.take_loans(loans_of(self.registry, self.zone))

    def _shards_changed(self, shard: int) -> None:
        self._take_share()
        self.intake.shards_changed()

    def _take_share(self) -> None:
        """Work out which part of the requests of our zone comes here, by the shards that we lease. A batcher that
        drains gives these back with requests in hand, and one more read of them may be under way: it counts on the
        part that it had, or it would refuse what that read brings."""
        if self._retired:
            return
        zones = {*zones_that_batch(self.registry), self.zone}
        home = shards_at_home(self._shards, zones, self.zone)
        self._models.take_share(min(1.0, len(self.leases.owned) / len(home)))

    def _zone_of(self, batcher: str) -> str:
        """The zone of a batcher; our own, if it is we or nobody knows."""
        said = self.registry.members["batchers"].get(batcher)
        return self.zone if said is None or batcher == self.name else said.zone or ""

    # ---- requests ----------------------------------------------------------------------------------------

    def _take(self, request: Queued) -> None:
        pump = self._pump_of(request)
        if pump is None:
            return
        self._models.arrived[request.model] += 1
        refused = self._admissions[request.model].refusal(request, self._clock())
        if refused is not None:
            failure = Failure.of(refused)
            self._observer.refused(
                Refusal(
                    request.model, failure.code, request.request_id, request.tenant, self._clock(), failure
                )
            )
            self._refuse(request, failure)
            return
        pump.offer(request)

    def _inherit(self, request: Queued) -> None:
        """Take in a request that another batcher left, or that came while no batcher was there. It was accepted
        before, so admission is not asked again."""
        pump = self._pump_of(request)
        if pump is None:
            return
        pump.offer(request)

    def _pump_of(self, request: Queued) -> Pump | None:
        """The pump of the request's model. None: the model is not known here, and the request was refused."""
        pump = self._pumps.get(request.model)
        if pump is None:
            self._refuse(request, NO_MODEL)
        elif not 0 <= request.tier < self._tiers:
            self._find_tier(request)
        return pump

    def _find_tier(self, request: Queued) -> None:
        """Serve a request of an unknown tier as one of the lowest. A gateway that is configured with more tiers
        than this batcher has let it in."""
        why = f"tier {request.tier} of {self._tiers}: served as the lowest; give all processes the same tiers"
        self.bus.aside.add("request of an unknown tier", request.gateway, why)
        request.tier = self._tiers - 1

    def _withdraw(self, request: Queued) -> None:
        pump = self._pumps.get(request.model)
        if pump is not None:
            pump.withdraw(request)

    def _lost(self, requests: Sequence[Queued]) -> None:
        """Drop these requests: another batcher answers for them now."""
        for request in requests:
            self._withdraw(request)

    def _refuse(self, request: Queued, failure: Failure) -> None:
        self._deliver([Reply(request, Outcome.FAILED, failure=failure)])

    def _deliver(self, replies: Sequence[Reply]) -> None:
        requests, unrecorded = [reply.request for reply in replies], self.dispatcher.answer(replies)
        # Tasks stay in hand until their records say how they ended. If this batcher dies before, another finds
        # them.
        if unrecorded:
            keys = {request.key for request in unrecorded}
            requests = [request for request in requests if request.key not in keys]
        self.intake.settled(requests)

    # ---- batches -----------------------------------------------------------------------------------------

    def _send(self, worker: WorkerId, batch: Sealed) -> None:
        self.dispatcher.send(process_of(worker), worker, batch)

    def _is_gone(self, slot: str) -> bool:
        return self._workers.is_gone(slot)

    def _zone_of_slot(self, slot: str) -> str:
        return self._workers.zone_of(slot)

    def received(self, message: Message) -> None:
        if isinstance(message, Finished):
            pump = self._workers.pump_of(message.slot)
            if pump is not None:
                outcome = message.failure or Result(
                    delivered=message.count, version=message.version, executed=message.executed,
                    padding=message.padding, held_up=self._watchdog.held_up(pump, message),
                    failures=message.failures, pressure=message.pressure,
                )  # fmt: skip
                pump.finished(WorkerId(message.slot), message.batch_id, outcome)

    # ---- life --------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> int:
        return len(self.intake.in_hand)

    async def drain(self, seconds: float) -> bool:
        """Give the shards to others at once, and finish what is in hand here."""
        try:
            async with asyncio.timeout(seconds):
                self._models.drain()
                await asyncio.gather(self.say_goodbye(), self._give_back_shards())
                await self.intake.release()
                await self.dispatcher.flush()
        except TimeoutError:
            return False
        except Exception as error:
            log.warning("could not hand over: the bus is away", extra={"error": str(error)})
            return False
        return True

    async def _give_back_shards(self) -> None:
        """Give the shards to other batchers. If the bus is away, others have them a lease later. What is in hand is
        finished all the same."""
        try:
            await self.leases.release_all()
        except StoreDown as error:
            log.warning("shards were not given back: the bus is away", extra={"error": error.message})

    async def stop(self) -> None:
        await super().stop()
        await self._observer.close()
        self._models.close()

    # ---- how it stands -----------------------------------------------------------------------------------

    def dead_loops(self) -> Sequence[str]:
        return [*super().dead_loops(), *self._models.dead()]

    def health(self) -> dict[str, Any]:
        return {
            **super().health(),
            "shards": sorted(self.leases.owned),
            "in_hand": len(self.intake.in_hand),
        }

    def gauges(self) -> ServerGauges:
        return ServerGauges(
            self._models.gauges(),
            dead_letters={name: self._letters.added[name] for name in self._pumps},
            letters_dropped=self._letters.dropped,
            aside=self.bus.aside.counts,
            restarts=self.loops.restarts,
            store=self.store_gauges(),
        )
