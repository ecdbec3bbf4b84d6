"""A gateway over a bus: the same gateway as embedded, whose requests go to batchers elsewhere.

    runtime.gateway ──► publisher ──► a shard …  a worker ──► mailbox ──► `received` ──► runtime.gateway: settle

Tasks and requests with an Idempotency-Key have records that all gateways share. No batcher or worker answers for
them here: a `Notice` says when one is over, and the record how it ended.

`roles/gateway.py` makes one for each process of `penstock gateway`. `Member` runs its loops and hands it the
messages from its mailbox; the doors ask `self.gateway`, and the admin plane asks how it stands. All of that is on
one event loop.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any

from penstock.cluster.announced_desks import AnnouncedDesks
from penstock.cluster.condition import still_loading
from penstock.cluster.dead_letters import DeadLetters
from penstock.cluster.gateway_admission import GatewayAdmission
from penstock.cluster.gateway_room import GatewayRoom
from penstock.cluster.idempotency import KeyedDesk
from penstock.cluster.inquiries import Inquiries
from penstock.cluster.member import Member
from penstock.cluster.staying import zones_that_batch
from penstock.cluster.task_ledger import Ledger, TaskLedger, writes_for_all
from penstock.cluster.tasks import TaskDesk
from penstock.config import Config
from penstock.from_config.sharing import memory_of
from penstock.from_config.tiers import limits_by_rank, tenants, tier_names
from penstock.gauges import ServerGauges
from penstock.ports import Clock, RequestObserver
from penstock.ports.bus import Bus
from penstock.ports.observers import Remembered
from penstock.ports.process import Companion
from penstock.ports.records import Records
from penstock.ports.shards import Shards
from penstock.ports.tasks import EndedTasks
from penstock.runtime.collapse.flight import Flight
from penstock.runtime.collapse.shared_answers import SharedAnswers
from penstock.runtime.desks import counts_of, desk_gauges
from penstock.runtime.gateway import Gateway
from penstock.runtime.ids import random_ids
from penstock.runtime.waiters import OUT_OF_TIME
from penstock.runtime.wheel import Wheel
from penstock.shard_plan import shards_at_home
from penstock.types import REASONS, Accepted, Execution, Failure, Outcome, Reply, WorkerId
from penstock.words.heartbeats import GatewayHeartbeat
from penstock.words.messages import Answers, Ending, Failed, Message, Notice, Question, Told, Tried

LAST_WITHDRAWALS = 1.0  # seconds to send withdrawals at the end; they only save the workers some work


class GatewayMember(Member):
    """A gateway's part at the bus. What it does with asks is in `self.gateway`."""

    def __init__(
        self,
        config: Config,
        bus: Bus,
        shards: Shards,
        records: Records,
        observer: RequestObserver,
        on_model: Callable[[str], None],
        remembered: Remembered,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        wall_clock: Clock,
        *,
        ledger: Ledger | None = None,
        companions: Sequence[Companion] = (),
    ) -> None:
        """`on_model` is told of each model that is announced. `remembered`: the requests that have ended here of
        late. `companions` are opened in their order, before anything is served, and closed last."""
        super().__init__("gateways", config, bus, loop, clock)
        limits = config.limits
        self._clock = clock
        self._observer = observer
        self._on_model, self._remembered = on_model, remembered
        self._companions = companions
        self._wheel = Wheel(loop, clock)
        self.publisher = shards.publisher(self.name, clock, limits.max_queue, limits.max_queue_bytes)
        self.publisher.on_failed = self._not_published
        # A store that comes back empty has lost the mailbox. Answers that come before it is there again are lost.
        self.publisher.on_back = self.mailbox.create
        self._shards = shards.number  # how many shards the installation has
        self._home: Collection[int] = range(self._shards)  # the shards that our requests go to
        self._room = GatewayRoom(limits.max_queue, self._whose)
        self._admission = GatewayAdmission(
            self.registry, self.publisher, self._waiting, self._room,
            memory_limit=config.redis.memory_limit,
        )  # fmt: skip
        self._desks = AnnouncedDesks(
            config, self.registry, self.publisher, self._admission, bus.aside, self._meet
        )
        self._tasks = records.tasks(self.name)
        self._task_desk = TaskDesk(self._tasks, self.publisher, clock, wall_clock, self._wheel)
        self._keyed = KeyedDesk(self._task_desk, records.claims, clock)
        self._limiter = records.quotas(self.name, clock, self._gateways)
        self._memory = memory_of(config)
        self._answers = SharedAnswers[Flight](
            records.answers, clock, max_entries=limits.max_cache_entries, max_bytes=limits.max_cache_bytes,
            has_room=self._admission.has_room_for_answers,
        )  # fmt: skip
        self.gateway = Gateway(
            self._desks.desks,
            tenants(config),
            self._task_desk,
            self._wheel,
            observer,
            clock,
            random_ids(),
            self._limiter,
            limits_by_rank(config),
            self._keyed,
            self._memory,
            self._answers,
        )
        self._inquiries = Inquiries(
            self.name, bus.post, lambda: self.registry.members["gateways"], self._know, self._slowest
        )
        self._ended_tasks: EndedTasks | None = None
        if ledger is not None:
            record = TaskLedger(ledger, tier_names(config), loop).record
            self._ended_tasks = records.ended_tasks(self._writes_for_all, record, ledger.missed)
        longest = config.timeouts_of(None).max_client
        self.dead_letters = DeadLetters(records.letters, self._task_desk, longest, clock)
        self.registry.on_changed = self._look_around

    async def begin(self) -> None:
        self._look_around()
        for companion in self._companions:
            await companion.open(self.loops)
        self._observer.start()
        if self._ended_tasks is not None:
            self.loops.keep("the ledger's reader", self._ended_tasks.run)
        self.loops.keep("the quotas", self._limiter.run)
        self.loops.keep("the shared cache", self._answers.run)
        self.loops.keep("the publisher", self.publisher.run)

    def describe(self) -> GatewayHeartbeat:
        return GatewayHeartbeat(
            waiting=self._waiting(),
            ledger=self._ended_tasks is not None,
            turned_away=dict(self._admission.turned_away),
        )

    def follow(self, before: Config, now: Config) -> None:
        super().follow(before, now)
        self._room.bound(now.limits.max_queue)
        self.publisher.bound(now.limits.max_queue, now.limits.max_queue_bytes)
        self.gateway.follow(tenants(now), limits_by_rank(now))
        self._desks.follow(now)
        self.dead_letters.longest = now.timeouts_of(None).max_client

    # ---- who is there --------------------------------------------------------------------------------------

    def _look_around(self) -> None:
        self._prefer_home()
        self._admission.look(self._clock())
        self._desks.look()
        if self._ended_tasks is not None:
            self._ended_tasks.look_again()

    def _prefer_home(self) -> None:
        """Send requests to the batchers of our zone, if there are any."""
        home = shards_at_home(self._shards, zones_that_batch(self.registry), self.zone)
        if home != self._home:
            self._home = home
            self.publisher.prefer(home)

    def _meet(self, model: str) -> None:
        """Take in that the desk of a model is new, or has changed."""
        self._on_model(model)
        self.gateway.desks_changed()

    def _gateways(self) -> int:
        return len(self.registry.members["gateways"])

    def _writes_for_all(self) -> bool:
        return writes_for_all(self.registry, self.name)

    def _waiting(self) -> int:
        return len(self.gateway.waiters)

    def _whose(self) -> Iterable[str]:
        """The tenant of each request that waits here."""
        return self.gateway.waiters.tenants()

    # ---- answers -------------------------------------------------------------------------------------------

    def received(self, message: Message) -> None:
        if isinstance(message, Answers):
            self._answer(message)
        elif isinstance(message, Failed):
            for ending in message.endings:
                self._end(ending)
        elif isinstance(message, Notice):
            self._tasks.notice(message)
            self._task_desk.over(message)
        elif isinstance(message, Question):
            self._inquiries.asked(message)
        elif isinstance(message, Told):
            self._inquiries.told(message)

    def _answer(self, answers: Answers) -> None:
        find = self.gateway.find
        execution = execution_of(answers, self._clock())
        replies = [
            Reply(request, Outcome.SUCCESS, output, None, execution)
            for key, output in zip(answers.keys, answers.outputs, strict=True)
            if (request := find(key)) is not None
        ]
        if answers.earlier:
            sealed = execution.started if execution.sealed is None else execution.sealed
            _note_history([reply.request for reply in replies], answers.earlier, sealed)
        self.gateway.settle(replies)

    def _end(self, ending: Ending) -> None:
        find, failure = self.gateway.find, ending.failure
        requests = [request for key in ending.keys if (request := find(key)) is not None]
        _note_history(requests, ending.earlier, self._clock())
        self.gateway.settle([Reply(request, ending.outcome, failure=failure) for request in requests])

    def _not_published(self, requests: Sequence[Accepted], failure: Failure) -> None:
        self.gateway.settle([Reply(request, Outcome.FAILED, failure=failure) for request in requests])

    # ---- life ----------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> int:
        return self._waiting()

    async def drain(self, seconds: float) -> bool:
        if not await self.gateway.drained(seconds):
            return False
        try:
            async with asyncio.timeout(LAST_WITHDRAWALS):
                await self.publisher.flush()
        except TimeoutError:
            pass
        return True

    def abandon(self) -> None:
        self.gateway.waiters.end_all(OUT_OF_TIME)

    async def stop(self) -> None:
        await self._keyed.close()
        await self._task_desk.close()
        await super().stop()
        self._wheel.close()
        for companion in self._companions:
            await companion.close()
        await self._observer.close()

    # ---- how it stands -------------------------------------------------------------------------------------

    def why_not_ready(self) -> str:
        if self._admission.no_batcher(self._clock()):
            return "no batcher is running"
        loading = still_loading(self.registry)
        return f"loading {', '.join(loading)}" if loading else ""

    def health(self) -> dict[str, Any]:
        return {**super().health(), "waiting_clients": self._waiting()}

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        """What became of a request. It looks here, then in the records of tasks, and then asks the other
        gateways."""
        found: Mapping[str, Any] | None = self._know(request_id)
        if found is None:
            found = await self._task_desk.describe(request_id, tenant)
        return found if found is not None else await self._inquiries.ask(request_id)

    async def slowest(self, most: int, model: str) -> Sequence[Mapping[str, Any]]:
        """The slowest requests of all gateways, the slowest first."""
        found = [*self._slowest(most, model), *await self._inquiries.ask_slowest(most, model)]
        return nlargest(most, found, key=_latency)

    def _slowest(self, most: int, model: str) -> Sequence[Mapping[str, Any]]:
        return [{**each, "gateway": self.name} for each in self._remembered.slowest(most, model)]

    def _know(self, request_id: str) -> Mapping[str, Any] | None:
        found = self.gateway.describe(request_id) or self._remembered.find(request_id)
        return None if found is None else {**found, "gateway": self.name}

    def gauges(self) -> ServerGauges:
        return ServerGauges(
            waiting_clients=self._waiting(),
            waiting_limit=self.config.limits.max_queue,
            caches=counts_of(self._desks.desks.values()),
            evicted=self._memory.evicted,
            aside=self.bus.aside.counts,
            restarts=self.loops.restarts,
            desks=desk_gauges(self._desks.desks),
            store=self.store_gauges(),
        )


def execution_of(answers: Answers, now: float) -> Execution:
    """The execution that these answers tell of. The worker's clock is another one, so its times are counted back
    from `now`, when the answers came."""
    started = now - answers.seconds
    execution = Execution(
        WorkerId(answers.worker),
        answers.batch_id,
        answers.batch_size,
        started,
        answers.seconds,
        answers.version,
    )
    if answers.reason:  # an older batcher does not say why and when it sealed the batch
        execution.sealed, execution.sent = started - answers.waited, started
        execution.reason = REASONS.get(answers.reason)
    return execution


def _note_history(requests: Sequence[Accepted], tried: Sequence[Tried], since: float) -> None:
    """Note how earlier batches of these requests failed. `since`: from when their times count back."""
    history = tuple(each.attempt(since) for each in tried)
    for request in requests:
        request.history = history


def _latency(row: Mapping[str, Any]) -> float:
    """The latency of a request as a gateway described it; 0 if it did not say."""
    said = row.get("latency_ms")
    return said if isinstance(said, float) else 0.0
