"""The batcher of one model: requests and workers in, batches and outcomes out.

Events (each O(log n)):   offer  offer_more  withdraw  finished  drain  worker_ready  worker_warmed
                          worker_loading  worker_gone  worker_removed
where workers are shared: worker_known  worker_lent  worker_doubted  worker_takes  other_zones_lend
Decision:                 step(now) → what to send, what to answer, and when to ask again

`runtime/pump.py` passes on the events and carries out what `step` returns. Over a bus `cluster` tells some events
itself: which workers there are, and what other zones lend. The simulator does all of this in virtual time.

Rules
- A batch is sealed only for an idle worker: until then the queue is the batch. One that is full anyway may be
  handed to a busy worker shortly before that is idle (see `ahead`).
- Retries go before fresh batches, on another worker than the one that failed where there is one.
- A batch that may end its worker does not take the last worker that is well.
- Tenants that spoil batches are set apart, with lanes, retries and a part of the workers' time of their own.
- A request that can no longer make its deadline is answered and never sent.
- The learned times are doubted once nothing has run for a while: then a request goes although it looks too late.
  Otherwise one slow batch could make every deadline look hopeless, and no batch would ever show that this is wrong.
- If a worker is idle and something waits, `wake` is set: no wake-up is ever lost. If something waits and no idle
  worker may take it, `wants_worker` says so. In a shared fleet the caller then takes a credit. Where there are
  zones, `wants_abroad` says whether it may be one of another zone.
- Every request offered leaves exactly once: in a reply, or by `withdraw`.
"""

from collections.abc import Sequence

from penstock.core.aftermath import WORKER_LOST, Aftermath
from penstock.core.effects import Effects
from penstock.core.fleet import Worker
from penstock.core.parts import Parts
from penstock.core.queued import Queued
from penstock.core.rules import BatchingRules
from penstock.core.sealing import Sealing
from penstock.core.spill import late_at_home
from penstock.core.turns import may_open
from penstock.types import (
    Failure,
    Request,
    Result,
    Seconds,
    WarmUp,
    WorkerId,
)


class Batcher:
    """Decides for one model, by the rules above. Nothing happens between two calls."""

    def __init__(self, rules: BatchingRules) -> None:
        self.rules = rules
        self.parts = parts = Parts(rules)
        self.curve, self.depth, self.lanes, self.fleet = parts.curve, parts.depth, parts.lanes, parts.fleet
        self.delivery, self.apart, self.caution = parts.delivery, parts.apart, parts.caution
        # When a request was last refused a lane: how many batches had been sent, how many requests waited, and
        # whose request it was.
        self._no_lane = (-1, 0, "")
        # Requests that `Admission` did not let in, by tier, since the start.
        self.refused = [0] * len(parts.depth.by_tier)
        # How often workers, lanes and what they can do have changed. `Admission` then works out its bounds anew.
        self.changes = 0
        self._aftermath = Aftermath(parts)
        self._sealing = Sealing(parts)

    def follow(self, rules: BatchingRules) -> None:
        """Go by these rules from now on. They differ from the former ones only in what can change while requests
        wait: policy, longest wait, reserve, tiers (as many as before), lanes, and how long a batch may run."""
        self.rules = self.parts.rules = rules
        self.parts.batch_limits.processing = rules.processing
        self.lanes.follow(rules)
        self.apart.lanes.follow(rules)
        self._sealing.follow(rules)
        self.changes += 1

    # ---- what is known -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Requests that are not on a worker."""
        return self.depth.total + self.delivery.waiting + self.apart.waiting

    def rate(self, now: Seconds) -> float:
        """Arrivals a second, in all lanes."""
        return sum(lane.meter.rate(now) for lane in self.lanes.values())

    def has_room_for(self, request: Request) -> bool:
        """Whether a request's lane exists or may be opened: lanes are bounded, and the last are for tenants that
        have few. A tenant that was refused a lane is refused again without a search, until a lane may have
        emptied."""
        lanes = self.lanes
        if not lanes.crowded or lanes.key_of(request) in lanes:
            return True
        batches, waiting, tenant = self._no_lane
        if tenant == request.tenant and batches == self.parts.ids.last and self.depth.total >= waiting:
            return False
        if lanes.has_room_for(request) and may_open(lanes.values(), request, lanes.limit):
            return True
        self._no_lane = self.parts.ids.last, self.depth.total, request.tenant
        return False

    def used_up(self, now: Seconds) -> float:
        """The part of the workers' time that went lately to refused batches, and to batches of those who are set
        apart. Batches that are run again because their worker was lost are not counted: that need not happen
        again."""
        return self.parts.used_up.rate(now)

    @property
    def padded_share(self) -> float:
        """The part of the inputs that the workers ran lately that was padding."""
        return self.parts.padded.share

    @property
    def share(self) -> float:
        """The part of a shared fleet this batcher may count on."""
        return self.fleet.share

    @share.setter
    def share(self, share: float) -> None:
        self.changes += 1
        self.fleet.count_on(share)

    def wants_worker(self, now: Seconds) -> bool:
        """Whether something waits, and no idle worker may take it. Ask this after a step. While our zone lends
        workers, and we have as many as are left to us, only a full batch wants another, or what would be late."""
        wants = (
            self.caution.due(self.delivery, now)
            or (self.depth.total > 0 and not self.fleet.idle)
            or self.caution.apart_due(now)
        )
        if wants and self.fleet.leaves_the_rest:
            return self.waiting >= self.curve.best_size or late_at_home(self.parts, now)
        return wants

    def wants_abroad(self, now: Seconds) -> bool:
        """Whether something waits that no idle worker may take, and the workers at home cannot do it in time. Ask
        this after a step."""
        return self.wants_worker(now) and late_at_home(self.parts, now)

    def spare(self, now: Seconds) -> list[WorkerId]:
        """The workers whose credits are to be given back: nothing waits for them, or their breaker is open."""
        return self.fleet.kept(resting=True) + ([] if self.has_work(now) else self.fleet.kept(resting=False))

    def has_work(self, now: Seconds) -> bool:
        """Whether anything waits for a worker, idle or not."""
        caution = self.caution
        return self.depth.total > 0 or caution.due(self.delivery, now) or caution.apart_due(now)

    # ---- events ------------------------------------------------------------------------------------------

    def offer(self, request: Queued, now: Seconds) -> bool:
        """Take a request in. Returns whether a step is called for. While all workers are busy, a request that is
        not the most urgent changes nothing until a worker frees, and a step follows then anyway."""
        if self.apart.known and self.apart.holds(request, now):
            self.apart.add(request, now)
            return True
        lanes = self.lanes
        key = (request.parameters, 0) if lanes.plain else lanes.key_of(request)
        lane = lanes.get(key)
        if lane is None:
            self.changes += 1
            lane = lanes.open(key)
        if not request.background:
            lane.meter.add(now)
        buffer, give_up = lane.buffer, lane.give_up
        buffer.push(request)
        waiting = buffer.waiting
        if waiting == 1 or waiting == lane.ahead_from or self.fleet.idlers:
            return True
        return request.expires < give_up or request.deadline - lane.horizon < give_up

    def offer_more(self, like: Queued, requests: Sequence[Queued]) -> None:
        """Take in requests that came after one that waits, and differ from it in nothing but their times. For that
        one no step was called for, and nothing has happened since: so none is called for now."""
        lane = self.lanes[self.lanes.key_of(like)]
        lane.meter.add_each([request.arrival for request in requests])
        lane.buffer.extend(requests)

    def withdraw(self, request: Queued) -> bool:
        """Withdraw a request whose asker left or cancelled. True if it had not gone to a worker, and now never
        goes."""
        if request.waiting:
            lanes = self.apart.lanes if request.apart else self.lanes
            lanes[lanes.key_of(request)].buffer.discard(request)
            return True
        return self.delivery.withdraw(request) or self.apart.delivery.withdraw(request)

    def worker_ready(self, worker: WorkerId) -> None:
        """The worker takes its next batch from us; in a shared fleet, we have taken its credit."""
        self.changes += 1
        self.fleet.ready(worker)

    def worker_known(self, worker: WorkerId) -> None:
        """In a shared fleet, the worker is there and healthy. It takes a batch from us only if we have its
        credit."""
        self.changes += 1
        self.fleet.known(worker)

    def worker_takes(self, worker: WorkerId, *, one_at_a_time: bool, abroad: bool = False) -> None:
        """Note whether the worker may be handed a batch while it runs one, and whether it is in another zone."""
        self.fleet.workers.setdefault(worker, Worker(worker)).one_at_a_time = one_at_a_time
        self.fleet.note_zone(worker, abroad=abroad)

    def other_zones_lend(self, workers: float, *, ours: float = 0.0) -> None:
        """Batchers of our zone may count on so many workers of other zones, all together. `ours`: on so many of our
        own they may not, since others use them."""
        if (workers, ours) != (self.fleet.loan, self.fleet.lends):
            self.changes += 1
            self.fleet.borrows(workers, ours)

    def worker_lent(self, worker: WorkerId) -> None:
        """The worker's credit was given back."""
        self.fleet.lent(worker)

    def worker_gone(self, worker_id: WorkerId, now: Seconds, back_at: Seconds | None = None) -> None:
        """The worker takes nothing until it is ready again; what it had in hand is retried."""
        self.changes += 1
        self.fleet.gone(worker_id, back_at)
        worker = self.fleet.workers[worker_id]
        worker.met.clear()  # a worker comes back as a new process, to which every size is new
        self._aftermath.take_back(worker, now)
        if worker.batch is not None:
            self._aftermath.end(worker, worker.batch, WORKER_LOST, now)

    def worker_doubted(self, worker_id: WorkerId) -> None:
        """In a shared fleet, nothing has been heard of the worker for a while. Nobody counts on it until that
        changes. It may yet finish the batch in hand."""
        self.changes += 1
        self.fleet.gone(worker_id, None)

    def worker_loading(self, worker_id: WorkerId, now: Seconds, takes: Seconds | None) -> None:
        """The worker's first batch takes long: it loads or compiles, for `takes` seconds if anybody knows. Nobody
        counts on it until it is ready again. If a worker is there that has answered before, that one does the
        batch. Otherwise the batch goes on where it is, and may yet be answered."""
        self.changes += 1
        self.fleet.loads(worker_id, now, takes)
        worker = self.fleet.workers[worker_id]
        if worker.batch is not None and self.fleet.proven:
            self._aftermath.abandon(worker, worker.batch, now)

    def worker_warmed(self, worker_id: WorkerId, warm_up: WarmUp, now: Seconds) -> None:
        """The worker was warmed up: it has run batches that nobody asked for. What they tell is known before the
        first real batch."""
        self.changes += 1
        worker = self.fleet.workers.setdefault(worker_id, Worker(worker_id))
        for rung in warm_up.rungs:
            worker.meets(rung.size)
            self.parts.batch_limits.rehearsed += self.parts.rehearsals.learn(rung, real=warm_up.real)
        if warm_up.too_large is not None:
            shape = warm_up.length.bit_length() if self.rules.group_lengths else 0
            self.parts.safe_sizes.did_not_fit(worker_id, shape, warm_up.too_large, now)
            self.parts.fit_curve()

    def worker_removed(self, worker_id: WorkerId, now: Seconds) -> None:
        """The worker is never coming back."""
        self.worker_gone(worker_id, now)
        self.fleet.remove(worker_id)
        if self.parts.safe_sizes.known:
            self.parts.safe_sizes.forget(worker_id)
            self.parts.fit_curve()

    def drain(self) -> None:
        """Send what there is without waiting for more, since nothing new will come."""
        self.parts.draining = True

    def finished(self, worker_id: WorkerId, batch_id: int, outcome: Result | Failure, now: Seconds) -> None:
        """The worker's batch is over. This is ignored unless the worker holds that very batch: otherwise the batch
        was given to another worker before, or retried. A batch that it was handed ahead ends only if the worker
        never took it."""
        worker = self.fleet.workers.get(worker_id)
        if worker is not None and worker.batch is not None and worker.batch.id == batch_id:
            self.changes += 1
            self._aftermath.end(worker, worker.batch, outcome, now)
        elif worker is not None and worker.ahead is not None and worker.ahead.id == batch_id:
            self.changes += 1
            self._aftermath.take_back(worker, now)

    # ---- the decision ------------------------------------------------------------------------------------

    def step(self, now: Seconds) -> Effects:
        """Decide what goes now, who is answered, and when to ask again."""
        return self._sealing.step(self._aftermath.collect(), now)
