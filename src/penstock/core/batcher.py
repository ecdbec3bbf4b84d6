"""The batcher of one model: requests and workers in, batches and outcomes out.

Events (each O(log n)):   offer  withdraw  finished  drain  worker_ready  worker_gone  worker_removed
                          worker_loading
where workers are shared: worker_known  worker_lent  worker_doubted
Decision:                 step(now) → what to send, what to answer, and when to ask again

Rules
- A batch is sealed only for an idle worker: until then the queue is the batch.
- Retries go before fresh batches, on another worker than the one that failed where there is one.
- What may end its worker does not take the last one that is well.
- Tenants that spoil batches are set apart, with lanes, retries and a part of the workers' time of their own.
- What can no longer make its deadline is answered and never sent.
- What was learned is doubted once nothing has run for a while: then a request goes although it looks too late.
  One slow batch would else make every deadline look hopeless, and nothing sent would ever show otherwise.
- If a worker is idle and something waits, `wake` is set: no wake-up is ever lost. If something waits and no idle
  worker may take it, `wants_worker` says so; in a shared fleet the host then takes a credit.
- Every request offered leaves exactly once: in a reply, or by `withdraw`.
"""

from dataclasses import dataclass, field, replace
from math import inf

from penstock.core.apart import OVERDUE, RESTART, Apart
from penstock.core.buffer import Depth
from penstock.core.caution import Caution
from penstock.core.delivery import PARTS, Delivery, attempt_of, note_attempt, note_failure
from penstock.core.estimator import GUARD, LEAST_SPREAD, RateMeter, ServiceCurve
from penstock.core.fleet import LEAST_SHARE, Fleet, Worker
from penstock.core.lane import Lane, Lanes
from penstock.core.patience import Patience
from penstock.core.policy import POLICIES, Decision, Policy, Send, View
from penstock.core.rules import BatchingRules as BatchingRules
from penstock.core.turns import Turns, may_open
from penstock.errors import BackendCrashed, BackendTimeout, BatchRejected
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
    has_own_limit,
)

EXPIRY_SLACK = 0.001  # look a millisecond after the last possible moment: then it has surely passed
WORKER_LOST = Failure("BACKEND_CRASHED", "the worker was lost with the batch in hand", splittable=True)
# A first batch that takes long: the worker may be loading, or an input may hang. So another does it in parts.
STILL_LOADING = Failure("BACKEND_TIMEOUT", "the first batch of its worker took too long", splittable=True)
ENDS_WORKERS = (BackendCrashed.code, BackendTimeout.code)
HUNG = 3  # batches that ran out of time in a row, on whichever worker: then no input is to blame
DOUBT = 0.3  # seconds without a batch after which what was learned is put to the test
# How long a retry waits for a shared worker other than the one that failed it: two batchers, each with the worker
# that the other waits for, must not wait for ever.
INSIST = 0.1
# What ended the wait of a request that was never sent to a worker: one constant for each setting that may have.
QUEUED_TOO_LONG = Failure(
    "DEADLINE_EXCEEDED", "no worker was free within the time that timeouts.queue allows"
)
TOO_LATE = Failure(
    "DEADLINE_EXCEEDED", "no worker was free in time to answer within the time that timeouts.request allows"
)
TOO_LATE_FOR_CLIENT = Failure(
    "DEADLINE_EXCEEDED", "no worker was free in time to answer within its timeout_ms"
)


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
        self.fleet = Fleet(rules.breaker_failures, rules.breaker_cooldown, shared=rules.shared)
        self.delivery = Delivery(rules.retries)
        self.patience = Patience(rules.processing)
        self.lanes = Lanes(rules, self.depth, self.curve)
        self.apart = Apart(rules, self.curve)
        self.caution = Caution(self.fleet, self.apart, self.curve)
        self._turns = Turns()
        # Who was refused a lane last: the batches sent by then, the requests waiting, and its tenant.
        self._no_lane = (-1, 0, "")
        self.draining = False
        self.changes = 0  # in workers, lanes and what they can do: whatever was worked out from these is old
        self._policy: Policy = POLICIES[rules.policy]
        self._batch_id = 0
        self._last_finish: Seconds = -inf
        self._used_up = RateMeter(1.0)  # of the workers' time: by refused batches and those who are set apart
        self._answered: list[Reply] = []  # decided between two steps, handed out by the next

    # ---- what is known -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Requests that are not on a worker."""
        return self.depth.total + self.delivery.waiting + self.apart.waiting

    def rate(self, now: Seconds) -> float:
        return sum(lane.meter.rate(now) for lane in self.lanes.values())

    def has_room_for(self, request: Request) -> bool:
        """Whether its lane exists or may be opened: lanes are bounded, and the last are for tenants that
        have few. A tenant that was refused one is refused as cheaply as can be until a lane may have emptied."""
        lanes = self.lanes
        if not lanes.crowded or lanes.key_of(request) in lanes:
            return True
        batches, waiting, tenant = self._no_lane
        if tenant == request.tenant and batches == self._batch_id and self.depth.total >= waiting:
            return False
        if lanes.has_room_for(request) and may_open(lanes.values(), request, lanes.limit):
            return True
        self._no_lane = self._batch_id, self.depth.total, request.tenant
        return False

    def in_doubt(self, now: Seconds) -> bool:
        """No worker is busy for us, and none has been for so long that the learned time may no longer be true."""
        return now - self._last_finish > DOUBT and not self.fleet.busy and self.fleet.healthy > 0

    def used_up(self, now: Seconds) -> float:
        """The part of the workers' time that refused batches have had of late, and those who are set apart. Batches
        that are run again since their worker was lost are not counted: they tell nothing of those to come."""
        return self._used_up.rate(now)

    def workers_apart(self, now: Seconds) -> float:
        """How many workers those who are set apart may have at a time."""
        curve = self.curve
        lanes = self.lanes.values()
        capacity = self.fleet.counted * curve.best_size / (curve.best_seconds or inf)
        load = sum(lane.meter.rate(now) for lane in lanes) / capacity if capacity else 0.0
        return self.fleet.counted * self.apart.share(load, sum(lane.buffer.tenants for lane in lanes))

    @property
    def share(self) -> float:
        """The part of a shared fleet this batcher may count on."""
        return self.fleet.share

    @share.setter
    def share(self, share: float) -> None:
        self.changes += 1
        self.fleet.count_on(share)

    def wants_worker(self, now: Seconds) -> bool:
        """Something waits, and no idle worker may take it. To be asked after a step."""
        return (
            self.caution.due(self.delivery, now)
            or (self.depth.total > 0 and not self.fleet.idle)
            or self.caution.apart_due(now)
        )

    def spare(self, now: Seconds) -> list[WorkerId]:
        """Credits held for nothing, to be given back: nothing waits for them, or their breaker is open."""
        caution = self.caution
        needed = self.depth.total > 0 or caution.due(self.delivery, now) or caution.apart_due(now)
        return self.fleet.kept(resting=True) + ([] if needed else self.fleet.kept(resting=False))

    # ---- events ------------------------------------------------------------------------------------------

    def offer(self, request: Request, now: Seconds) -> bool:
        """Take it in. Whether a step is called for: while all workers are busy, one that is not the most urgent
        changes nothing until a worker frees, and that is a step anyway."""
        if self.apart.known and self.apart.holds(request, now):
            self.apart.add(request, now)
            return True
        lanes = self.lanes
        key = (request.parameters, 0) if lanes.plain else lanes.key_of(request)
        lane = lanes.get(key)
        if lane is None:
            self.changes += 1
            lane = lanes.open(key)
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
            lanes = self.apart.lanes if request.apart else self.lanes
            lanes[lanes.key_of(request)].buffer.discard(request)
            return True
        return self.delivery.withdraw(request) or self.apart.delivery.withdraw(request)

    def worker_ready(self, worker: WorkerId) -> None:
        """It takes its next batch from us; in a shared fleet: we have taken its credit."""
        self.changes += 1
        self.fleet.ready(worker)

    def worker_known(self, worker: WorkerId) -> None:
        """It is there and healthy, in a shared fleet; whether for us, its credit decides."""
        self.changes += 1
        self.fleet.known(worker)

    def worker_lent(self, worker: WorkerId) -> None:
        """Its credit was given back."""
        self.fleet.lent(worker)

    def worker_gone(self, worker_id: WorkerId, now: Seconds, back_at: Seconds | None = None) -> None:
        """It takes nothing until it is ready again; what it had in hand is retried."""
        self.changes += 1
        self.fleet.gone(worker_id, back_at)
        worker = self.fleet.workers[worker_id]
        if worker.batch is not None:
            self._end(worker, worker.batch, WORKER_LOST, now)

    def worker_doubted(self, worker_id: WorkerId) -> None:
        """Nothing has been heard of it for a while, in a shared fleet: nobody counts on it until that changes, and
        what it has in hand it may yet finish."""
        self.changes += 1
        self.fleet.gone(worker_id, None)

    def worker_loading(self, worker_id: WorkerId, now: Seconds, takes: Seconds | None) -> None:
        """Its first batch takes long: it loads or compiles, for `takes` seconds if anybody knows. Nobody counts on
        it until it is ready again. Another does its batch if one is there that has answered before; else it goes
        on, and may yet answer."""
        self.changes += 1
        self.fleet.loads(worker_id, now, takes)
        worker = self.fleet.workers[worker_id]
        if worker.batch is not None and self.fleet.proven:
            batch = worker.batch
            self.fleet.release(worker_id, now)
            self._retry_later(worker, batch, STILL_LOADING, now)

    def worker_removed(self, worker_id: WorkerId, now: Seconds) -> None:
        """It is never coming back."""
        self.worker_gone(worker_id, now)
        self.fleet.remove(worker_id)

    def drain(self) -> None:
        """Nothing new will come: send what there is without waiting for more."""
        self.draining = True

    def finished(self, worker_id: WorkerId, batch_id: int, outcome: Result | Failure, now: Seconds) -> None:
        """The batch is over. Ignored unless that worker holds that very batch: else it was given up on, and what
        became of it has long been decided."""
        worker = self.fleet.workers.get(worker_id)
        if worker is not None and worker.batch is not None and worker.batch.id == batch_id:
            self._end(worker, worker.batch, outcome, now)

    def _end(self, worker: Worker, batch: Batch, outcome: Result | Failure, now: Seconds) -> None:
        """Outputs go by position; a wrong count is a failure."""
        self.changes += 1
        seconds = now - worker.started
        self.fleet.release(worker.id, now)
        self._last_finish = now
        if batch.apart or (isinstance(outcome, Failure) and outcome.code == BatchRejected.code):
            parts = 1 if batch.apart else 2  # of one that was refused, another part is run as well
            self._used_up.add(now, parts * seconds / self.fleet.counted)
        if batch.apart:
            self._charge(batch, outcome, seconds, now)
        if isinstance(outcome, Result):
            if outcome.size == batch.size:
                self._succeeded(worker, batch, outcome, seconds - outcome.held_up, now)
                return
            outcome = Failure(
                "BACKEND_FAILED",
                f"the backend gave {outcome.size} outputs for {batch.size} inputs",
                splittable=True,
            )
        self._failed(worker, batch, outcome, now)

    def _succeeded(
        self, worker: Worker, batch: Batch, result: Result, seconds: Seconds, now: Seconds
    ) -> None:
        self.patience.succeeded()
        if not worker.loading:  # else the time tells of loading
            self._learn(worker, batch, result.executed or batch.size, seconds)
        execution = Execution(worker.id, batch.id, batch.size, worker.started, seconds, result.version)
        outputs = [b""] * batch.size if result.delivered else result.outputs
        replies = [
            Reply(request, Outcome.SUCCESS, output, None, execution)
            for request, output in zip(batch.requests, outputs, strict=True)
        ]
        for place, failure in (result.failures or {}).items():
            request = batch.requests[place]
            note_attempt(request, attempt_of(failure, worker.id, batch.size, now))
            replies[place] = Reply(request, Outcome.FAILED, failure=failure)
        self._answered += replies

    def _learn(self, worker: Worker, batch: Batch, size: int, seconds: Seconds) -> None:
        """`size`: of what was executed, which is what the time tells of."""
        expected = self.curve(size)
        self.fleet.succeeded(worker, seconds / expected if expected > 0 else 1.0)
        self.curve.observe(size, seconds)
        lane = None if batch.apart else self.lanes.get(self.lanes.key_of(batch.requests[0]))
        if lane is not None:
            lane.learn(size, seconds, alone=len(self.lanes) == 1)

    def _failed(self, worker: Worker, batch: Batch, failure: Failure, now: Seconds) -> None:
        if failure.code in ENDS_WORKERS and failure is not WORKER_LOST:
            batch.risky = True  # where a whole process has left, no input is to blame
            if self.fleet.shared:
                self.caution.lost(worker, now)
        if failure.code == BackendTimeout.code:
            self._hung(worker, batch, now)
        elif (batch.retry or batch.apart) and failure.code == BatchRejected.code:
            self.fleet.refused(
                worker
            )  # a batch that failed before, or was likely to: that tells of the batch
        else:
            self.fleet.failed(worker, now, at_once=False)
        self._retry_later(worker, batch, failure, now)

    def _hung(self, worker: Worker, batch: Batch, now: Seconds) -> None:
        """Is it the worker that hangs, or an input? One of a batch that hung before probably is an input; so may be
        one that was cut short of `processing`, the first time. Several in a row are the worker. One of those who
        are set apart tells of nobody else."""
        if batch.apart:
            self.fleet.refused(worker)
            return
        self.patience.ran_out()
        everything = self.patience.in_a_row >= HUNG
        if batch.suspect and not everything:
            self.fleet.refused(worker)
        else:
            early = batch.limit < self.patience.processing
            self.fleet.failed(worker, now, at_once=everything or not early or worker.failures > 0)

    def _retry_later(self, worker: Worker, batch: Batch, failure: Failure, now: Seconds) -> None:
        batch.avoid = worker.id
        if failure.splittable:
            self.apart.spoilt(batch, now)
            if self.apart.known and not batch.apart and self._divide(batch, failure, now):
                return
        delivery = self.apart.delivery if batch.apart else self.delivery
        self._answered += delivery.failed(batch, failure, self.curve, self._batch_id + 1, now)
        self._batch_id += PARTS

    def _divide(self, batch: Batch, failure: Failure, now: Seconds) -> bool:
        """Whether members of it were set apart. The others go together, for they are probably not to blame."""
        innocent, guilty = self.apart.divide(batch.requests, now)
        if not guilty:
            return False
        told = note_failure(batch, failure, now)
        curve, next_id = self.curve, self._batch_id + 1
        self._batch_id += 1 + len(guilty)
        if innocent:
            cleared = replace(batch, risky=False)
            self._answered += self.delivery.take_parts(cleared, [innocent], told, curve, next_id, now)
        for part in guilty:
            for request in part:
                request.apart = True
        suspected = replace(batch, apart=True)
        self._answered += self.apart.delivery.take_parts(suspected, guilty, told, curve, next_id + 1, now)
        return True

    # ---- the decision ------------------------------------------------------------------------------------

    def step(self, now: Seconds) -> Effects:
        effects = Effects([], self._answered)
        self._answered = []
        wakes = [self.fleet.wake(now)]
        apart = self.apart
        overdue = apart.waiting > 0 and now > apart.free_at + OVERDUE
        if overdue:
            self._send_apart(now, effects)
        lanes = [lane for lane in self.lanes.values() if lane.buffer.waiting]
        for lane in lanes:
            self._expire(lane, now, effects)
        if self.delivery.waiting:
            wakes += self._retry(self.delivery, now, effects)
        if self.fleet.idle:
            wakes += self._seal(lanes, now, effects)
        if apart.waiting:
            wakes += self._send_apart(now, effects)
        wakes += [lane.give_up + EXPIRY_SLACK for lane in lanes]
        wake = min(wakes)
        effects.wake = wake if wake < inf else None
        return effects

    def _send_apart(self, now: Seconds, effects: Effects) -> list[Seconds]:
        """Batches of those who are set apart, while their part of the workers' time allows it."""
        apart, wakes = self.apart, []
        for each in [lane for lane in apart.lanes.values() if lane.buffer.waiting]:
            self._expire(each, now, effects)
            wakes.append(each.give_up + EXPIRY_SLACK)
        if apart.delivery.waiting:
            wakes += self._retry(apart.delivery, now, effects)
        while now >= apart.free_at:
            risk = self.caution.may_risk_one(now)
            lane, worker = apart.next_lane(now, risk=risk), self.fleet.pick()
            if lane is None or worker is None:
                wakes.append(inf if risk else self.caution.sure_at(now))
                break
            requests = lane.buffer.take(
                1 if worker.on_probation else apart.size_of(lane), self.rules.max_cost, now
            )
            self._batch_id += 1
            apart.delivery.budget.earn()
            lane.last_dispatch = now
            batch = Batch(
                self._batch_id, self.rules.model, lane.key[0], requests, Reason.DUE, now, apart=True,
                risky=apart.is_feared(lane.key[-1], now),
            )  # fmt: skip
            self._send(worker, batch, now, effects)
            self._expire(lane, now, effects)
        if apart.waiting and now < apart.free_at:
            wakes.append(apart.free_at)
        return wakes

    def _charge(self, batch: Batch, outcome: Result | Failure, seconds: Seconds, now: Seconds) -> None:
        """One of those who are set apart is over: how it ended, and what it took beyond what was expected."""
        well = isinstance(outcome, Result) and outcome.size == batch.size
        lost = isinstance(outcome, Failure) and outcome.code == BackendCrashed.code
        self.apart.ended(batch, well=well)
        more = seconds - self.curve(batch.size) + (RESTART if lost else 0.0)
        if more > 0.0:
            self.apart.charge(more, self.workers_apart(now), now)

    def _expire(self, lane: Lane, now: Seconds, effects: Effects) -> None:
        """Answer what can no longer make it, and note when the next one could no longer."""
        buffer, horizon = lane.buffer, self._horizon(lane, now)
        lane.horizon = horizon
        while (urgent := buffer.most_urgent(horizon)) is not None:
            lane.give_up = min(urgent.expires, urgent.deadline - horizon)
            if now <= lane.give_up:
                return
            buffer.discard(urgent)
            effects.replies.append(Reply(urgent, Outcome.EXPIRED, failure=_late(urgent, now)))
        lane.give_up = inf

    def _horizon(self, lane: Lane, now: Seconds) -> Seconds:
        """How long a batch sealed now would take, with its guard."""
        if self.in_doubt(now):
            return 0.0
        curve, size = lane.curve, lane.buffer.waiting
        if size <= self.fleet.free:
            return curve(size)  # workers to spare: trying costs nobody anything
        # Nobody is given up for what a size may take that has never been seen: a smaller batch can be sent.
        return curve(min(size, curve.largest)) * (1.0 + GUARD * max(curve.spread, LEAST_SPREAD))

    def _retry(self, delivery: Delivery, now: Seconds, effects: Effects) -> list[Seconds]:
        fleet = self.fleet
        effects.replies += delivery.expire(self.curve, now)
        wakes = [delivery.next_start(now)]
        for retry in delivery.ready(now):
            start, batch = retry.start, retry.batch
            if batch.apart and now < self.apart.free_at:
                break
            held_until = self.caution.held_until(retry, now)
            if held_until > now:
                wakes.append(held_until)
                continue
            insist = fleet.healthy > 1 and not batch.suspect  # the parts of one that hung are in a hurry
            if insist and fleet.shared:
                insist = now < start + INSIST
                wakes += [start + INSIST] if insist else []
            worker = fleet.pick(batch.avoid)
            if worker is None and not insist:
                worker = fleet.pick()
            if worker is None:
                continue  # the one that frees next is the event that brings us back
            if worker.on_probation and batch.size > 1:
                self._batch_id += 1
                self._send(worker, delivery.take_one(batch, self._batch_id), now, effects)
            else:
                self._send(worker, delivery.take(batch), now, effects)
        return [*wakes, delivery.next_expiry(self.curve) + EXPIRY_SLACK]

    def _seal(self, lanes: list[Lane], now: Seconds, effects: Effects) -> list[Seconds]:
        if len(lanes) > 1:
            lanes = self._turns.in_order(lanes, strict=self.rules.tiers.strict)
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

    def _decide(self, lane: Lane, load: float, now: Seconds) -> Decision:
        rules, buffer, fleet = self.rules, lane.buffer, self.fleet
        if self.draining:
            return Send(rules.max_batch, Reason.DRAIN)
        if buffer.cost >= rules.max_cost:
            return Send(rules.max_batch, Reason.COST)
        oldest = buffer.oldest()
        assert oldest is not None  # the caller saw that something waits
        rate, counted = lane.meter.rate(now), fleet.counted
        return self._policy.decide(
            View(
                now=now,
                waiting=buffer.waiting,
                oldest=oldest.arrival,
                give_up=lane.give_up,
                rate=rate,
                peak=lane.meter.peak,
                load=load,
                workers=max(LEAST_SHARE, counted * rate / load) if load > rate else counted,
                all_workers=counted,
                idle=fleet.free,
                busy=fleet.busy,
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
        if self.apart.known:
            requests, guilty = self.apart.divide(requests, now)
            for request in [request for part in guilty for request in part]:
                self.apart.add(request, now)
            if not requests:
                return
        self._batch_id += 1
        self.delivery.budget.earn()
        lane.last_dispatch = now
        batch = Batch(self._batch_id, self.rules.model, lane.key[0], requests, decision.reason, now)
        if len(self.lanes) > 1:
            self._turns.taken(batch, now)
        self._send(worker, batch, now, effects)

    def _send(self, worker: Worker, batch: Batch, now: Seconds, effects: Effects) -> None:
        if (
            self.rules.per_item_parameters
        ):  # of those in it now: a retry may hold fewer than it was sealed with
            parameters = (request.parameters or b"{}" for request in batch.requests)
            batch.parameters = b"[" + b",".join(parameters) + b"]"
        batch.hurried = batch.suspect and (batch.size > 1 or self.delivery.waiting > 0)
        batch.limit = self.patience.limit(self.curve, batch.size, hurry=batch.hurried)
        if batch.apart:
            self.apart.charge(self.curve(batch.size), self.workers_apart(now), now)
        self.fleet.assign(worker, batch, now)
        effects.dispatches.append((worker.id, batch))


def _late(request: Request, now: Seconds) -> Failure:
    """Which setting ended its wait."""
    if has_own_limit(request):
        return TOO_LATE_FOR_CLIENT
    return QUEUED_TOO_LONG if now > request.expires else TOO_LATE
