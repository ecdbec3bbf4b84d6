"""The server's own decisions in virtual time: arrivals and completions are events, and nothing ever sleeps.
`penstock sim` plays its schedules on it (`study.py`), and so does `advice`; benchmarks and tests play scenarios of
their own.

The kernel takes the place of the runtime: it feeds `core` with events and `now`, and carries out what `core`
decides. The gateway is ideal: nothing takes time but the GPU. So the result shows what the policy is worth.
`penstock bench` measures how close a server comes to it.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from random import Random

from penstock.core.admission import Admission
from penstock.core.backoff import backoff
from penstock.core.batcher import Batcher
from penstock.core.capacity import CapacityRules
from penstock.core.queued import Queued, Sealed
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.errors import BackendCrashed, BackendTimeout, BatchRejected
from penstock.service_model import Fault, NewShapes, ServiceModel
from penstock.types import Failure, Outcome, Reply, Request, Result, Rung, Seconds, WarmUp, WorkerId

RESTART = 1.0  # seconds, about, until a crashed or hung worker is back
AGAIN = 4  # runs of a size in a warm-up, after its first


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is simulated, except the schedule of arrivals."""

    service: ServiceModel
    workers: int = 1
    rules: BatchingRules = field(default_factory=BatchingRules)
    admission: AdmissionRules | None = field(default_factory=AdmissionRules)  # None: everything is let in
    capacity: CapacityRules = field(default_factory=CapacityRules)  # how the tiers share the capacity
    queue_limit: Seconds = 2.0  # how long a request may wait
    request_limit: Seconds = 4.0  # how long it may take until it is answered
    tier_shares: Sequence[float] = (1.0,)  # by tier: its part of the arrivals
    # By tier: the limits of its requests, in the order of the two above. Empty: those two, for every tier.
    tier_limits: Sequence[tuple[Seconds, Seconds]] = ()
    tenants: int = 1
    tenant_shares: Sequence[float] = ()  # by tenant: its part of the arrivals; empty: all have the same
    # By tenant: the part of its requests that carries the service's poison. Empty: none does.
    poisoned: Sequence[float] = ()
    own_parameters: bool = False  # each tenant has parameters of its own, so that tenants share no batch
    warmed: Sequence[int] = ()  # sizes that each worker runs in a warm-up, before the first arrival
    seed: int = 0


@dataclass(slots=True)
class Run:
    """What happened to the requests that arrived after the warm-up, and what the workers did from then on."""

    # For each request that was served in time: how long that took, and when it was answered.
    latencies: "array[float]" = field(default_factory=lambda: array("d"))
    finished_at: "array[float]" = field(default_factory=lambda: array("d"))
    sent: int = 0  # requests that arrived
    late: int = 0  # requests that were served after their deadline; `errors` counts them too
    errors: Counter[str] = field(default_factory=Counter)  # by code
    batches: int = 0
    batched: int = 0  # requests in all batches
    padding: int = 0  # inputs that were repeated to fill batches
    reasons: Counter[str] = field(default_factory=Counter)  # why batches went
    busy_seconds: float = 0.0  # of all workers together
    ended: Seconds = 0.0  # when the last thing happened
    sent_by_tier: Counter[int] = field(default_factory=Counter)
    in_time_by_tier: Counter[int] = field(default_factory=Counter)
    sent_by_tenant: Counter[str] = field(default_factory=Counter)
    in_time_by_tenant: Counter[str] = field(default_factory=Counter)


def askers(scenario: Scenario) -> Iterator[tuple[str, int]]:
    """Yields tenant and tier of each arrival. They are drawn from random numbers of their own, so that they are the
    same for every policy."""
    rng = Random(f"{scenario.seed}/askers")
    shares, tenants = list(scenario.tier_shares), scenario.tenants
    ranks, parts = range(len(shares)), list(scenario.tenant_shares)
    while True:
        tier = rng.choices(ranks, shares)[0] if len(shares) > 1 else 0
        if parts:
            yield str(rng.choices(range(len(parts)), parts)[0]), tier
        else:
            yield str(rng.randrange(tenants)) if tenants > 1 else "", tier


def _are_alike(scenario: Scenario) -> bool:
    """Whether requests differ in nothing but their times, and what they cost, so that many may be offered at once.
    False where batches are handed over ahead, since one may be due at any arrival."""
    several = len(scenario.tier_shares) > 1 or scenario.tenants > 1 or scenario.tenant_shares
    return not (several or scenario.tier_limits or scenario.poisoned or scenario.rules.ahead)


def _earlier(wake: Seconds | None, asked: Seconds | None) -> Seconds | None:
    """Returns when to wake. As in a server, a timer that rings early enough is kept: it asks the batcher then."""
    return asked if wake is None or asked is None or asked < wake else wake


class Kernel:
    """Plays one schedule against one batcher."""

    def __init__(
        self,
        scenario: Scenario,
        on_dispatch: Callable[[Seconds, WorkerId, Sealed], None] | None = None,
        on_reply: Callable[[Seconds, Reply], None] | None = None,
    ) -> None:
        self.scenario = scenario
        self.batcher = Batcher(scenario.rules)
        rules = scenario.admission
        self._admission = None if rules is None else Admission(self.batcher, rules, scenario.capacity)
        self.run_so_far = Run()
        self._on_dispatch = on_dispatch
        self._on_reply = on_reply
        self._measured_from = 0.0  # when the warm-up was over
        self._rng = Random(scenario.seed)
        # What is to happen, as a heap: when, a number that breaks ties, and what is called then.
        self._events: list[tuple[Seconds, int, Callable[[Seconds], None]]] = []
        self._sequence = 0
        self._poison = scenario.service.poison.encode()  # an input with this text in it makes its batch fail
        self._restarts: Counter[WorkerId] = Counter()
        self._faulty = any(getattr(scenario.service, fault) for fault in Fault)  # whether faults are drawn
        self._alike = _are_alike(scenario)
        self._new_shapes: dict[WorkerId, NewShapes] = {}  # which sizes are new to each worker

    def run(
        self, schedule: Sequence[float], costs: Sequence[float] | None = None, warmup: Seconds = 0.0
    ) -> Run:
        """Play the whole schedule and drain. `costs` gives each arrival's cost (1 if absent).

        What arrives before `warmup` is simulated and not counted.
        """
        for index in range(self.scenario.workers):
            self._start(WorkerId(f"sim/{index}"))
        events, step, offer = self._events, self._step, self.batcher.offer
        make = self._requests(costs)
        wake: Seconds | None = None
        # What arrives before this index of the schedule is not counted. If the warm-up is longer, all is counted.
        before = bisect_left(schedule, warmup) if warmup > 0.0 else 0
        before = before if before < len(schedule) else 0
        alike, taken = costs is None and self._alike, 0
        for index, arrival in enumerate(schedule):
            if index < taken:
                continue
            while (events and events[0][0] <= arrival) or (wake is not None and wake <= arrival):
                wake = self._next_event(wake)
            if index == before and before:
                self._start_counting(arrival)
            request = make(index, arrival)
            if not self._lets_in(request, arrival):
                continue
            if offer(request, arrival):
                wake = _earlier(wake, step(arrival))
            elif alike:
                next_event = min(events[0][0] if events else inf, inf if wake is None else wake)
                stop = before if index < before else len(schedule)
                stop = bisect_left(schedule, next_event, index + 1, stop)
                taken = index + 1 + self._offer_more(request, range(index + 1, stop), schedule)
        while events or wake is not None:
            wake = self._next_event(wake)
        run = self.run_so_far
        run.sent = len(schedule) - before
        if self._alike:
            run.sent_by_tier[0], run.sent_by_tenant[""] = run.sent, run.sent
        run.busy_seconds += sum(worker.busy_seconds for worker in self.batcher.fleet.workers.values())
        return run

    def _start(self, worker: WorkerId) -> None:
        """Make a worker ready, after its warm-up if it has one. Every size that it has not run is new to it."""
        service, rng = self.scenario.service, self._rng
        self._new_shapes[worker] = new = NewShapes(service)
        if self.scenario.warmed:
            rungs = []
            for size in self.scenario.warmed:
                first, *again = [service.seconds(size, rng.gauss(0.0, 1.0)) for _ in range(1 + AGAIN)]
                rungs.append(Rung(size, first + new.seconds(size), tuple(again)))
            self.batcher.worker_warmed(worker, WarmUp(tuple(rungs)), 0.0)
        self.batcher.worker_ready(worker)

    def _start_counting(self, now: Seconds) -> None:
        self._measured_from = now
        busy = sum(worker.busy_for(now) for worker in self.batcher.fleet.workers.values())
        self.run_so_far = Run(busy_seconds=-busy)

    def _next_event(self, wake: Seconds | None) -> Seconds | None:
        """Plays what comes first: a completion, or the time at which the batcher asked to be woken. Returns when to
        wake next."""
        if self._events and (wake is None or self._events[0][0] <= wake):
            now, _, happen = heappop(self._events)
            happen(now)
            return _earlier(wake, self._step(now))
        assert wake is not None
        return self._step(wake)

    def _offer_more(self, like: Queued, indices: range, schedule: Sequence[float]) -> int:
        """Offer the requests at these indices of the schedule, which come before anything else happens, after one
        like them for which no step was called for. Returns how many of them were let in without a closer look."""
        number, batcher = len(indices), self.batcher
        if number and self._admission is not None:
            number = self._admission.let_in(like, number)
        if not number or batcher.apart.known:
            return 0
        model, text, start = like.model, like.input, indices.start
        queue, limit = self.scenario.queue_limit, self.scenario.request_limit
        more = [
            Queued(str(index), model, text, now, now + queue, now + limit)
            for index, now in enumerate(schedule[start : start + number], start)
        ]
        batcher.offer_more(like, more)
        return number

    def _requests(self, costs: Sequence[float] | None) -> Callable[[int, Seconds], Queued]:
        """Returns a function that makes the request at an index of the schedule. It must be called in order."""
        scenario = self.scenario
        several = len(scenario.tier_shares) > 1 or scenario.tenants > 1 or scenario.tenant_shares
        draw = askers(scenario) if several else None
        queue_limit, request_limit, model = scenario.queue_limit, scenario.request_limit, scenario.rules.model
        limits = scenario.tier_limits
        poisoned, poison, rng = scenario.poisoned, self._poison, Random(f"{scenario.seed}/poison")

        def make(index: int, now: Seconds) -> Queued:
            request = Queued(str(index), model, b'""', now, now + queue_limit, now + request_limit)
            if draw is not None:
                request.tenant, request.tier = next(draw)
            if scenario.own_parameters:
                request.parameters = request.tenant.encode()
            if poisoned:
                bad = rng.random() < poisoned[int(request.tenant)]
                request.input = b'"%s%d"' % (poison if bad else b"", index)
            if limits:
                queue, whole = limits[request.tier]
                request.expires, request.deadline = now + queue, now + whole
            if costs is not None:
                request.cost = costs[index]
                request.length = int(costs[index])
            return request

        return make

    def _lets_in(self, request: Queued, now: Seconds) -> bool:
        """Returns whether a request that arrives is let in. A refused one changes nothing."""
        run, admission = self.run_so_far, self._admission
        if not self._alike:
            run.sent_by_tier[request.tier] += 1
            run.sent_by_tenant[request.tenant] += 1
        if admission is not None:
            refused = admission.refusal(request, now)
            if refused is not None:
                run.errors[refused.code] += 1
                return False
        return True

    def _step(self, now: Seconds) -> Seconds | None:
        effects = self.batcher.step(now)
        if effects.replies:
            self._reply(effects.replies, now)
        for worker, batch in effects.dispatches:
            self._dispatch(worker, batch, now)
        self.run_so_far.ended = now
        return effects.wake

    def _reply(self, replies: Sequence[Reply], now: Seconds) -> None:
        run, measured_from = self.run_so_far, self._measured_from
        if self._on_reply is not None:
            for reply in replies:
                self._on_reply(now, reply)
        in_time: list[Request] = []
        success = Outcome.SUCCESS
        for reply in replies:
            request = reply.request
            if request.arrival < measured_from:
                continue
            if reply.outcome is not success:
                assert reply.failure is not None
                run.errors[reply.failure.code] += 1
            elif now > request.deadline:
                run.late += 1
                run.errors["DEADLINE_EXCEEDED"] += 1
            else:
                in_time.append(request)
        run.latencies.extend([now - request.arrival for request in in_time])
        run.finished_at.extend([now] * len(in_time))
        if self._alike and in_time:
            run.in_time_by_tier[in_time[0].tier] += len(in_time)
            run.in_time_by_tenant[in_time[0].tenant] += len(in_time)
        else:
            run.in_time_by_tier.update([request.tier for request in in_time])
            run.in_time_by_tenant.update([request.tenant for request in in_time])

    def _dispatch(self, worker: WorkerId, batch: Sealed, now: Seconds) -> None:
        """Let a worker run a batch: draw how long that takes and how it ends."""
        run, rng, service = self.run_so_far, self._rng, self.scenario.service
        run.batches += 1
        rows = int(self.scenario.rules.sizes.padded(batch.size))
        padding = rows - batch.size
        run.batched += batch.size
        run.padding += padding
        run.reasons[batch.reason] += 1
        if self._on_dispatch is not None:
            self._on_dispatch(now, worker, batch)
        longest = max([request.length for request in batch.requests]) if service.length else 0
        seconds = service.seconds(rows, rng.gauss(0.0, 1.0) if service.jitter else 0.0, longest)
        seconds += self._new_shapes[worker].seconds(rows)
        luck = rng.random()
        fault = service.fault(luck) if self._faulty else None
        poisoned = self._poison and any(self._poison in request.input for request in batch.requests)
        limit = batch.limit
        if fault is Fault.HANG or seconds > limit:
            failure = Failure(BackendTimeout.code, f"no answer within {limit:g} s", splittable=True)
            self._at(now + limit, lambda then: self._lose(worker, batch.id, failure, then))
        elif fault is Fault.CRASH:
            failure = Failure(BackendCrashed.code, "the worker crashed", splittable=True)
            self._at(now + seconds, lambda then: self._lose(worker, batch.id, failure, then))
        elif fault is not None or poisoned:
            failure = Failure(BatchRejected.code, "the backend refused the batch", splittable=True)
            self._at(now + seconds, lambda then: self.batcher.finished(worker, batch.id, failure, then))
        else:
            outputs = [request.input for request in batch.requests]
            result = Result(outputs, executed=rows if padding else 0, padding=padding)
            self._at(now + seconds, lambda then: self.batcher.finished(worker, batch.id, result, then))

    def _lose(self, worker: WorkerId, batch_id: int, failure: Failure, now: Seconds) -> None:
        """A worker crashed or hung with a batch. It comes back after a while."""
        self._restarts[worker] += 1
        back = now + backoff(1, RESTART, RESTART, self._restarts[worker])
        self.batcher.finished(worker, batch_id, failure, now)
        self.batcher.worker_gone(worker, now, back)
        self._at(back, lambda _: self._start(worker))

    def _at(self, when: Seconds, happen: Callable[[Seconds], None]) -> None:
        self._sequence += 1
        heappush(self._events, (when, self._sequence, happen))
