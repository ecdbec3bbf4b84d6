"""Which batches go now, and to which workers; whose time is over; and when to look again.

The `Batcher` calls `step` whenever it is to decide. A step is one pass over retries, lanes and those who are set
apart. It changes only the parts of its own batcher, and sends nothing: what is to go stands in the effects.
"""

from math import inf

from penstock.core import novelty
from penstock.core.ahead import Ahead
from penstock.core.apart import OVERDUE
from penstock.core.delivery import Delivery
from penstock.core.effects import Effects
from penstock.core.estimator import GUARD, LEAST_SPREAD
from penstock.core.fleet import LEAST_SHARE, Worker
from penstock.core.lane import Lane
from penstock.core.late import late
from penstock.core.parts import Parts
from penstock.core.policy import POLICIES, Decision, Policy, Send, View
from penstock.core.queued import Sealed
from penstock.core.rules import BatchingRules
from penstock.core.spill import latest_start
from penstock.core.turns import Turns
from penstock.types import Outcome, Reason, Reply, Seconds

EXPIRY_SLACK = 0.001  # seconds: look this long after the last possible moment, so that it has surely passed
# Seconds that a retry waits for a shared worker other than the one that failed it. It must end: two batchers might
# each hold the worker that the other waits for.
INSIST = 0.1
FULL = (Reason.FULL, Reason.COST)  # why a batch may be handed ahead: it would not grow any more


class Sealing:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rules, self._ids, self._curve, self._fleet = parts.rules, parts.ids, parts.curve, parts.fleet
        self._lanes, self._delivery, self._limits = parts.lanes, parts.delivery, parts.batch_limits
        self._apart, self._caution = parts.apart, parts.caution
        self._policy: Policy = POLICIES[parts.rules.policy]
        self._turns = Turns()
        self._ahead = Ahead(parts)

    def follow(self, rules: BatchingRules) -> None:
        """Go by these rules from now on."""
        self._rules, self._policy = rules, POLICIES[rules.policy]

    def step(self, effects: Effects, now: Seconds) -> Effects:
        """Decide which batches to send, and which requests to answer because they are too late. Both are added to
        `effects`."""
        wakes = [self._fleet.wake(now)]
        apart = self._apart
        if apart.waiting and now < apart.free_at:
            apart.renew(self._parts.workers_apart(now), now)
        overdue = apart.waiting > 0 and now > apart.free_at + OVERDUE
        if overdue:
            self._send_apart(now, effects)
        lanes = [lane for lane in self._lanes.values() if lane.buffer.waiting]
        for lane in lanes:
            self._expire(lane, now, effects)
        if self._delivery.waiting:
            wakes += self._retry(self._delivery, now, effects)
        if self._fleet.idle:
            wakes += self._seal(lanes, now, effects)
        if apart.waiting:
            wakes += self._send_apart(now, effects)
        if self._rules.ahead:
            wakes.append(self._seal_ahead(lanes, now, effects))
        wakes += [lane.give_up + EXPIRY_SLACK for lane in lanes]
        if self._fleet.everywhere > self._fleet.healthy and self._parts.depth.total + self._delivery.waiting:
            latest = latest_start(self._parts)  # then a worker abroad is asked for
            wakes += [latest + EXPIRY_SLACK] if latest > now else []
        wake = min(wakes)
        effects.wake = wake if wake < inf else None
        return effects

    def _send_apart(self, now: Seconds, effects: Effects) -> list[Seconds]:
        """Send batches of those who are set apart, while their part of the workers' time allows it."""
        apart, wakes = self._apart, []
        for each in [lane for lane in apart.lanes.values() if lane.buffer.waiting]:
            self._expire(each, now, effects)
            wakes.append(each.give_up + EXPIRY_SLACK)
        if apart.delivery.waiting:
            wakes += self._retry(apart.delivery, now, effects)
        while now >= apart.free_at:
            risk = self._caution.may_risk_one(now)
            lane, worker = apart.next_lane(now, risk=risk), self._fleet.pick()
            if lane is None or worker is None:
                wakes.append(inf if risk else self._caution.sure_at(now))
                break
            size = min(apart.size_of(lane), self._largest(worker, lane.key[1], now))
            requests = lane.buffer.take(size, self._rules.room(), now)
            apart.delivery.budget.earn()
            lane.last_dispatch = now
            batch = Sealed(
                self._ids.next(), self._rules.model, lane.key[0], requests, Reason.DUE, now, apart=True,
                risky=apart.is_feared(lane.key[-1], now),
            )  # fmt: skip
            self._send(worker, batch, now, effects)
            self._expire(lane, now, effects)
        if apart.waiting and now < apart.free_at:
            wakes.append(apart.free_at)
        return wakes

    def _expire(self, lane: Lane, now: Seconds, effects: Effects) -> None:
        """Answer requests that can no longer be in time, and note when the next one will be too late
        (`give_up`)."""
        buffer, horizon = lane.buffer, self._horizon(lane, now)
        lane.horizon = horizon
        while (urgent := buffer.most_urgent(horizon)) is not None:
            lane.give_up = min(urgent.expires, urgent.deadline - horizon)
            if now <= lane.give_up:
                return
            buffer.discard(urgent)
            effects.replies.append(Reply(urgent, Outcome.EXPIRED, failure=late(urgent, now)))
        lane.give_up = inf

    def _horizon(self, lane: Lane, now: Seconds) -> Seconds:
        """How long a batch sealed now would take, with a guard for the spread."""
        if self._parts.in_doubt(now):
            return 0.0
        curve, waiting = lane.curve, lane.buffer.waiting
        size = self._goes_of(lane, waiting, inf) if self._rules.sizes.allowed else waiting
        if waiting <= self._fleet.free:
            return curve(size)  # with workers to spare, trying costs nobody anything
        # No request is given up for what a size may take that has never been seen: a smaller batch can be sent.
        largest, spread = curve.largest, curve.spread
        guard = GUARD * (spread if spread > LEAST_SPREAD else LEAST_SPREAD)
        return curve(size if size < largest else largest) * (1.0 + guard)

    def _retry(self, delivery: Delivery, now: Seconds, effects: Effects) -> list[Seconds]:
        """Send the retries that are due and for which there is a worker. Returns when to look again."""
        fleet = self._fleet
        late = delivery.expire(self._curve, now)
        effects.replies += late
        effects.given_up += late
        wakes = [delivery.next_start(now)]
        for retry in delivery.ready(now):
            start, batch = retry.start, retry.batch
            if batch.apart and now < self._apart.free_at:
                break
            held_until = self._caution.held_until(retry, now)
            if held_until > now:
                wakes.append(held_until)
                continue
            insist = fleet.healthy > 1 and not batch.suspect  # the parts of a batch that hung are in a hurry
            if insist and fleet.shared:
                insist = now < start + INSIST
                wakes += [start + INSIST] if insist else []
            worker = fleet.pick(batch.avoid)
            if worker is None and not insist:
                worker = fleet.pick()
            if worker is None:
                continue  # a worker that frees is the event that brings us back
            size = self._largest(worker, self._lanes.key_of(batch.requests[0])[1], now)
            if batch.size > size:
                self._send(worker, delivery.take_some(batch, size, self._ids.next()), now, effects)
                wakes.append(now)  # the rest may go to another worker
            else:
                self._send(worker, delivery.take(batch), now, effects)
        return [*wakes, delivery.next_expiry(self._curve) + EXPIRY_SLACK]

    def _seal(self, lanes: list[Lane], now: Seconds, effects: Effects) -> list[Seconds]:
        """Seal batches for idle workers, as the policy says. Returns when to ask it again."""
        if len(lanes) > 1:
            lanes = self._turns.in_order(lanes, strict=self._rules.tiers.strict)
        load = sum([lane.meter.rate(now) for lane in lanes])
        wakes: list[Seconds] = []
        for lane in lanes:
            if effects.dispatches:  # a batch on its way ends any doubt, so lanes are looked at again
                self._expire(lane, now, effects)
            while lane.buffer.waiting and (worker := self._fleet.pick()) is not None:
                decision = self._decide(lane, load, self._fits(worker, lane.key[1], now), now)
                if not isinstance(decision, Send):
                    wakes.append(decision.until)
                    break
                self._seal_one(lane, decision, worker, now, effects)
                self._expire(lane, now, effects)
        return wakes

    def _seal_ahead(self, lanes: list[Lane], now: Seconds, effects: Effects) -> Seconds:
        """Hand full batches to workers that are about to be idle. Returns when to look again."""
        lanes = [lane for lane in lanes if lane.buffer.waiting]
        self._ahead.notice(now, waiting=bool(lanes))
        while (lanes := [lane for lane in lanes if lane.buffer.waiting]) and self._ahead.possible:
            lane = self._turns.in_order(lanes, strict=self._rules.tiers.strict)[0] if lanes[1:] else lanes[0]
            if not self._ahead.may_have_enough(lane):
                break
            worker = self._ahead.next_worker()
            if worker is None:
                break
            limit = self._rules.max_batch
            at = self._ahead.look(worker, lane, limit, now)
            if at > now:
                return at
            decision = self._decide(lane, sum(each.meter.rate(now) for each in lanes), limit, now)
            if not (isinstance(decision, Send) and decision.reason in FULL):
                lane.ahead_from = limit
                break
            batch = self._take(lane, decision, worker, now)
            assert batch is not None, "nobody is set apart, so all that was taken goes"
            batch.ahead = True
            self._make_ready(batch)
            self._fleet.hand_ahead(worker, batch)
            effects.ahead.append((worker.id, batch))
            self._expire(lane, now, effects)
        return inf

    def _fits(self, worker: Worker, shape: int, now: Seconds) -> int:
        """How large a batch the memory of this worker holds."""
        sizes = self._parts.safe_sizes
        return sizes.at_most(worker.id, shape, now) if sizes.known else self._rules.max_batch

    def _largest(self, worker: Worker, shape: int, now: Seconds) -> int:
        """How large a batch this worker may have: one on probation has one request."""
        return 1 if worker.on_probation else self._fits(worker, shape, now)

    def _decide(self, lane: Lane, load: float, fits: int, now: Seconds) -> Decision:
        """What the policy says. `fits`: how large a batch may be for the worker that would get it."""
        rules, buffer, fleet = self._rules, lane.buffer, self._fleet
        if self._parts.draining:
            return Send(rules.max_batch, Reason.DRAIN)
        if rules.max_cost < inf and buffer.together >= rules.max_cost:
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
                rising=lane.meter.rising(now, rate),
                peak=lane.meter.peak,
                load=load,
                workers=max(LEAST_SHARE, counted * rate / load) if load > rate else counted,
                all_workers=counted,
                idle=fleet.free,
                busy=fleet.busy,
                last_dispatch=lane.last_dispatch,
                max_batch=fits,
                max_wait=rules.max_wait,
                reserve=rules.reserve,
                curve=lane.curve,
            )
        )

    def _seal_one(self, lane: Lane, decision: Send, worker: Worker, now: Seconds, effects: Effects) -> None:
        """Seal a batch of the most deserving requests of this lane, and send it to this worker."""
        batch = self._take(lane, decision, worker, now)
        if batch is not None:
            lane.last_dispatch = now
            self._send(worker, batch, now, effects)

    def _take(self, lane: Lane, decision: Send, worker: Worker, now: Seconds) -> Sealed | None:
        """Seal a batch for this worker. Returns None if all its requests are to be set apart."""
        most = min(decision.size, self._largest(worker, lane.key[1], now), lane.buffer.waiting)
        size = self._size_for(lane, worker, most, now)
        requests = lane.buffer.take(size, self._rules.room(), now)
        if self._apart.known:
            requests, guilty = self._apart.divide(requests, now)
            if guilty:
                lane.buffer.forget_taken()
            for request in [request for part in guilty for request in part]:
                self._apart.add(request, now)
            if not requests:
                return None
        self._delivery.budget.earn()
        batch = Sealed(self._ids.next(), self._rules.model, lane.key[0], requests, decision.reason, now)
        if len(self._lanes) > 1:
            self._turns.taken(batch, now)
        return batch

    def _size_for(self, lane: Lane, worker: Worker, most: int, now: Seconds) -> int:
        """How many of a lane go to this worker, if the policy would send `most`: all, padded; or what fits a
        size."""
        sizes, buffer, shape = self._rules.sizes, lane.buffer, self._curve.shape
        patience = inf if self._fleet.free > 1 else lane.give_up - now
        if sizes.allowed:
            # A padded batch must not cost more than `max_cost`, if its inputs cost what those that wait do: the
            # mean of them, or the dearest where a batch costs its rows times the dearest.
            room = self._rules.max_cost * buffer.waiting / (buffer.together or 1.0)
            return self._goes_of(lane, min(most, sizes.largest_in(room)), patience)
        if shape.dear:
            return novelty.to_send(worker, most, lane.curve, shape.seconds, patience, now)
        return most

    def _goes_of(self, lane: Lane, waiting: int, patience: Seconds) -> int:
        """How many of `waiting` requests go, if the lane's next batch is as large as it may be and has one of the
        allowed sizes."""
        sizes = self._rules.sizes
        return sizes.to_send(min(waiting, sizes.allowed[-1]), lane.curve.hopeful, patience)

    def _make_ready(self, batch: Sealed) -> None:
        """Say what its worker must know: parameters, and how long it may run."""
        if self._rules.per_item_parameters:
            # One set for each request that is in the batch now: a retry may hold fewer than when it was sealed.
            parameters = (request.parameters or b"{}" for request in batch.requests)
            batch.parameters = b"[" + b",".join(parameters) + b"]"
        batch.hurried = batch.suspect and (batch.size > 1 or self._delivery.waiting > 0)
        known = self._lanes.own_curve_of(batch.requests[0])
        batch.limit = self._limits.limit(known, batch.size, hurry=batch.hurried)

    def _send(self, worker: Worker, batch: Sealed, now: Seconds, effects: Effects) -> None:
        self._make_ready(batch)
        if batch.apart:
            self._apart.charge(self._curve(batch.size), self._parts.workers_apart(now), now)
        batch.sent, batch.crossed = now, worker.abroad
        self._fleet.assign(worker, batch, now)
        effects.dispatches.append((worker.id, batch))
