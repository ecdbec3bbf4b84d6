"""The batcher of one model: requests and workers in, batches and outcomes out.

Events (each O(log n)):   offer  withdraw  worker_ready  worker_gone  worker_removed  finished  drain
Decision:                 step(now) → what to send, what to answer, and when to ask again

Rules
- A batch is sealed only for an idle worker: until then the queue is the batch (SPEC B2).
- Retries go before fresh batches, on another worker than the one that failed where there is one.
- What can no longer make its deadline is answered and never sent (SPEC C3).
- What was learned is doubted once nothing has run for a while: then a request goes although it looks too late.
  One slow batch would else make every deadline look hopeless, and nothing sent would ever show otherwise.
- If a worker is idle and something waits, `wake` is set: no wake-up is ever lost.
- Every request offered leaves exactly once: in a reply, or by `withdraw`.
"""

from dataclasses import dataclass, field
from math import inf

from penstock.core.buffer import Depth, TierRules
from penstock.core.delivery import Delivery, RetryRules, give_up
from penstock.core.estimator import ServiceCurve
from penstock.core.fleet import Fleet, Worker
from penstock.core.lane import Lane, LaneKey, lane_key
from penstock.core.policy import POLICIES, Decision, Policy, Send, View
from penstock.errors import BackendTimeout, BatchRejected
from penstock.types import (
    Batch,
    Execution,
    Failure,
    Outcome,
    Reason,
    Reply,
    Request,
    Result,
    Seconds,
    WorkerId,
)

EXPIRY_SLACK = 0.001  # look a millisecond after the last possible moment: then it has surely passed
WORKER_LOST = Failure("BACKEND_CRASHED", "the worker was lost with the batch in hand", splittable=True)
LEAST_SPREAD = 0.01  # however even the GPU: clocks, timers and the way back are not
GUARD = 2.5  # standard deviations of the service time kept between the expected finish and a deadline
DOUBT = 0.3  # seconds without a batch after which what was learned is put to the test
LEAST_SHARE = 0.01  # of a worker: what a lane that has gone quiet may count on
TOO_LATE = Failure("DEADLINE_EXCEEDED", "the deadline passed, or could no longer be met, before it was sent")


@dataclass(frozen=True, slots=True)
class BatchingRules:
    """What one model's batcher needs to know. Every number is a setting."""

    model: str = "model"
    max_batch: int = 64
    max_wait: Seconds = 0.05
    max_cost: float = inf
    policy: str = "paced"
    reserve: int = 0
    group_lengths: bool = False
    per_item_parameters: bool = False
    tiers: TierRules = field(default_factory=TierRules)
    retries: RetryRules = field(default_factory=RetryRules)
    breaker_failures: int = 5
    breaker_cooldown: Seconds = 1.0
    max_lanes: int = 256


@dataclass(slots=True)
class Effects:
    """What is to be done now."""

    dispatches: list[tuple[WorkerId, Batch]] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    wake: Seconds | None = None


class Batcher:
    def __init__(self, rules: BatchingRules) -> None:
        self.rules = rules
        self.curve = ServiceCurve(rules.max_batch)
        self.depth = Depth(len(rules.tiers.weights))
        self.fleet = Fleet(rules.breaker_failures, rules.breaker_cooldown)
        self.delivery = Delivery(rules.retries)
        self.lanes: dict[LaneKey, Lane] = {}
        self.draining = False
        self._plain = not (rules.per_item_parameters or rules.group_lengths)
        self._policy: Policy = POLICIES[rules.policy]
        self._batch_id = 0
        self._last_finish: Seconds = -inf
        self._answered: list[Reply] = []  # decided between two steps, handed out by the next

    # ---- what is known -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Requests that are not on a worker."""
        return self.depth.total + self.delivery.waiting

    def rate(self, now: Seconds) -> float:
        return sum(lane.meter.rate(now) for lane in self.lanes.values())

    def has_room_for(self, request: Request) -> bool:
        """Whether its lane exists or may be opened: lanes are bounded (SPEC C5)."""
        return (
            len(self.lanes) < self.rules.max_lanes
            or self._key(request) in self.lanes
            or any(lane.buffer.waiting == 0 for lane in self.lanes.values())
        )

    def in_doubt(self, now: Seconds) -> bool:
        """All workers are idle, and have been for so long that the learned time may no longer be true."""
        return now - self._last_finish > DOUBT and 0 < self.fleet.idle == self.fleet.healthy

    # ---- events ------------------------------------------------------------------------------------------

    def offer(self, request: Request, now: Seconds) -> bool:
        """Take it in. Whether a step is called for: while all workers are busy, one that is not the most urgent
        changes nothing until a worker frees, and that is a step anyway."""
        key = (request.parameters, 0) if self._plain else self._key(request)
        lane = self.lanes.get(key) or self._open(key)
        lane.meter.add(now)
        lane.buffer.push(request)
        return (
            self.fleet.idle > 0
            or lane.buffer.waiting == 1
            or request.expires < lane.give_up
            or request.deadline - lane.horizon < lane.give_up
        )

    def withdraw(self, request: Request) -> bool:
        """The asker left or cancelled. True if it had not gone to a worker, and now never goes."""
        if request.waiting:
            self.lanes[self._key(request)].buffer.discard(request)
            return True
        return self.delivery.withdraw(request)

    def worker_ready(self, worker: WorkerId) -> None:
        self.fleet.ready(worker)

    def worker_gone(self, worker_id: WorkerId, now: Seconds, back_at: Seconds | None = None) -> None:
        """It takes nothing until it is ready again; what it had in hand is retried."""
        self.fleet.gone(worker_id, back_at)
        self.finished(worker_id, WORKER_LOST, now)

    def worker_removed(self, worker_id: WorkerId, now: Seconds) -> None:
        """It is never coming back."""
        self.worker_gone(worker_id, now)
        self.fleet.remove(worker_id)

    def drain(self) -> None:
        """Nothing new will come: send what there is without waiting for more."""
        self.draining = True

    def finished(self, worker_id: WorkerId, outcome: Result | Failure, now: Seconds) -> None:
        """The worker's batch is over. Outputs go by position; a wrong count is a failure (SPEC B8)."""
        worker = self.fleet.workers.get(worker_id)
        if worker is None or worker.batch is None:
            return  # a worker that was given up on: its batch has long been decided
        batch, seconds = worker.batch, now - worker.started
        self.fleet.release(worker_id, now)
        self._last_finish = now
        if isinstance(outcome, Result):
            if len(outcome.outputs) == batch.size:
                self._succeeded(worker, batch, outcome, seconds)
                return
            outcome = Failure(
                "BACKEND_FAILED",
                f"the backend gave {len(outcome.outputs)} outputs for {batch.size} inputs",
                splittable=True,
            )
        self._failed(worker, batch, outcome, now)

    def _succeeded(self, worker: Worker, batch: Batch, result: Result, seconds: Seconds) -> None:
        expected = self.curve(batch.size)
        self.fleet.succeeded(worker, seconds / expected if expected > 0 else 1.0)
        self.curve.observe(batch.size, seconds)
        lane = self.lanes.get(self._key(batch.requests[0]))
        if lane is not None:
            lane.learn(batch.size, seconds, alone=len(self.lanes) == 1)
        execution = Execution(worker.id, batch.id, batch.size, worker.started, seconds, result.version)
        self._answered += [
            Reply(request, Outcome.SUCCESS, output, None, execution)
            for request, output in zip(batch.requests, result.outputs, strict=True)
        ]

    def _failed(self, worker: Worker, batch: Batch, failure: Failure, now: Seconds) -> None:
        if batch.retry and failure.code == BatchRejected.code:
            self.fleet.refused(worker)  # a batch that failed before: that tells of the batch
        else:
            self.fleet.failed(worker, now, at_once=failure.code == BackendTimeout.code)
        batch.avoid = worker.id
        self._answered += self.delivery.failed(batch, failure, self.curve, self._batch_id + 1, now)
        self._batch_id += 2

    # ---- the decision ------------------------------------------------------------------------------------

    def step(self, now: Seconds) -> Effects:
        effects = Effects([], self._answered)
        self._answered = []
        wakes = [self.fleet.wake(now)]
        lanes = [lane for lane in self.lanes.values() if lane.buffer.waiting]
        for lane in lanes:
            self._expire(lane, now, effects)
        if self.delivery.waiting:
            wakes += self._retry(now, effects)
        if self.fleet.idle:
            wakes += self._seal(lanes, now, effects)
        wakes += [lane.give_up + EXPIRY_SLACK for lane in lanes]
        wake = min(wakes)
        effects.wake = wake if wake < inf else None
        return effects

    def _expire(self, lane: Lane, now: Seconds, effects: Effects) -> None:
        """Answer what can no longer make it, and note when the next one could no longer."""
        buffer, horizon = lane.buffer, self._horizon(lane, now)
        lane.horizon = horizon
        while (urgent := buffer.most_urgent(horizon)) is not None:
            lane.give_up = give_up(urgent, horizon)
            if now <= lane.give_up:
                return
            buffer.discard(urgent)
            effects.replies.append(Reply(urgent, Outcome.EXPIRED, failure=TOO_LATE))
        lane.give_up = inf

    def _horizon(self, lane: Lane, now: Seconds) -> Seconds:
        """How long a batch sealed now would take, with its guard."""
        if self.in_doubt(now):
            return 0.0
        curve, size = lane.curve, lane.buffer.waiting
        if size <= self.fleet.idle:
            return curve(size)  # workers to spare: trying costs nobody anything
        if size > curve.limit:
            size = curve.limit
        return curve(size) * (1.0 + GUARD * max(curve.spread, LEAST_SPREAD))

    def _retry(self, now: Seconds, effects: Effects) -> list[Seconds]:
        delivery, fleet = self.delivery, self.fleet
        effects.replies += delivery.expire(self.curve, now)
        for batch in delivery.ready(now):
            worker = fleet.pick(batch.avoid if fleet.healthy > 1 else None)
            if worker is None:
                continue  # the one that frees next is the event that brings us back
            if worker.on_probation and batch.size > 1:
                self._batch_id += 1
                self._send(worker, delivery.take_one(batch, self._batch_id), now, effects)
            else:
                self._send(worker, delivery.take(batch), now, effects)
        return [delivery.next_start(now), delivery.next_expiry(self.curve) + EXPIRY_SLACK]

    def _seal(self, lanes: list[Lane], now: Seconds, effects: Effects) -> list[Seconds]:
        if len(lanes) > 1:
            lanes = sorted(lanes, key=self._urgency)
        load = sum(lane.meter.rate(now) for lane in lanes)
        wakes: list[Seconds] = []
        for lane in lanes:
            if effects.dispatches:  # a batch on its way ends any doubt: look again
                self._expire(lane, now, effects)
            while lane.buffer.waiting and (worker := self.fleet.pick()) is not None:
                decision = self._decide(lane, load, now)
                if not isinstance(decision, Send):
                    wakes.append(decision.until)
                    break
                self._seal_one(lane, decision, worker, now, effects)
                self._expire(lane, now, effects)
        return wakes

    def _urgency(self, lane: Lane) -> tuple[int, Seconds]:
        return lane.buffer.best_tier() if self.rules.tiers.strict else 0, lane.give_up

    def _decide(self, lane: Lane, load: float, now: Seconds) -> Decision:
        rules, buffer, fleet = self.rules, lane.buffer, self.fleet
        if self.draining:
            return Send(rules.max_batch, Reason.DRAIN)
        if buffer.cost >= rules.max_cost:
            return Send(rules.max_batch, Reason.COST)
        oldest = buffer.oldest()
        assert oldest is not None  # the caller saw that something waits
        rate, healthy = lane.meter.rate(now), fleet.healthy
        return self._policy.decide(
            View(
                now=now,
                waiting=buffer.waiting,
                oldest=oldest.arrival,
                give_up=lane.give_up,
                rate=rate,
                load=load,
                workers=max(LEAST_SHARE, healthy * rate / load) if load > rate else healthy,
                all_workers=healthy,
                idle=fleet.idle,
                last_dispatch=lane.last_dispatch,
                max_batch=rules.max_batch,
                max_wait=rules.max_wait,
                reserve=rules.reserve,
                curve=lane.curve,
            )
        )

    def _seal_one(self, lane: Lane, decision: Send, worker: Worker, now: Seconds, effects: Effects) -> None:
        """Seal for this worker the best of what waits."""
        size = 1 if worker.on_probation else decision.size
        requests = lane.buffer.take(size, self.rules.max_cost, now)
        self._batch_id += 1
        self.delivery.budget.earn()
        lane.last_dispatch = now
        batch = Batch(self._batch_id, self.rules.model, lane.key[0], requests, decision.reason, now)
        self._send(worker, batch, now, effects)

    def _send(self, worker: Worker, batch: Batch, now: Seconds, effects: Effects) -> None:
        if (
            self.rules.per_item_parameters
        ):  # of those in it now: a retry may hold fewer than it was sealed with
            parameters = (request.parameters or b"{}" for request in batch.requests)
            batch.parameters = b"[" + b",".join(parameters) + b"]"
        self.fleet.assign(worker, batch, now)
        effects.dispatches.append((worker.id, batch))

    # ---- lanes -------------------------------------------------------------------------------------------

    def _key(self, request: Request) -> LaneKey:
        rules = self.rules
        return lane_key(request, per_item=rules.per_item_parameters, group_lengths=rules.group_lengths)

    def _open(self, key: LaneKey) -> Lane:
        if len(self.lanes) >= self.rules.max_lanes:
            self._forget_one_empty_lane()
        lane = self.lanes[key] = Lane(key, self.rules.tiers, self.depth, self.curve)
        return lane

    def _forget_one_empty_lane(self) -> None:
        """The one that has sent nothing for longest; `has_room_for` has seen that there is one."""
        empty = [lane for lane in self.lanes.values() if lane.buffer.waiting == 0]
        if empty:
            del self.lanes[min(empty, key=lambda lane: lane.last_dispatch).key]
