"""Several batchers, one pool of workers, credits between them: sharing must not cost the batches their size.

The same core as the server's, in virtual time. A free worker's credit goes to the batcher that has asked for one
longest; whoever holds a credit with nothing to send gives it back.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import NamedTuple

import pytest

from penstock.core.batcher import Batcher
from penstock.core.queued import Queued
from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.load.report import Spread, spread
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Kernel, Scenario
from penstock.types import Batch, Outcome, Result, WorkerId

SECONDS, WORKERS, LIMIT = 0.1, 6, 32  # case A of the tables
KEPT = 0.5  # seconds a credit is kept for nothing
PATIENT = 1e6
WARM_UP = 2.0


class Found(NamedTuple):
    latency: Spread  # milliseconds
    batch: float  # mean size
    answered: int


class Pool:
    """Workers whose credits the batchers take and give back, and the time they all live in."""

    def __init__(self, batchers: int, transit: float) -> None:
        rules = BatchingRules(max_batch=LIMIT, shared=True)
        self.batchers = [Batcher(rules) for _ in range(batchers)]
        self.transit = transit  # of a batch to its worker and of the word that it is done, each
        self.credits = deque(WorkerId(f"w{number}") for number in range(WORKERS))
        self.hungry: deque[Batcher] = deque()
        self.working: set[WorkerId] = set()
        self.latencies: list[float] = []
        self.sizes: list[int] = []
        self.answered = 0
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()
        for batcher in self.batchers:
            batcher.share = 1 / batchers
            for worker in self.credits:
                batcher.worker_known(worker)

    def at(self, when: float, happen: Callable[[float], None]) -> None:
        heappush(self._events, (when, next(self._numbers), happen))

    def play(self, schedule: Sequence[float]) -> Found:
        for number, when in enumerate(schedule):
            self.at(when, self._arrival(self.batchers[number % len(self.batchers)]))
        while self._events:
            now, _, happen = heappop(self._events)
            happen(now)
        return Found(spread(self.latencies), sum(self.sizes) / len(self.sizes), self.answered)

    def _arrival(self, batcher: Batcher) -> Callable[[float], None]:
        def arrive(now: float) -> None:
            if batcher.offer(Queued("", "model", b"1", now, now + PATIENT, now + PATIENT), now):
                self.step(batcher, now)

        return arrive

    def step(self, batcher: Batcher, now: float) -> None:
        effects = batcher.step(now)
        for worker, batch in effects.dispatches:
            self._run(batcher, worker, batch, now)
        for reply in effects.replies:
            assert reply.outcome is Outcome.SUCCESS
            self.answered += 1
            if reply.request.arrival > WARM_UP:
                self.latencies.append(now - reply.request.arrival)
        if effects.wake is not None and effects.wake < now + PATIENT / 2:
            self.at(effects.wake, lambda then: self.step(batcher, then))
        if batcher.wants_worker(now) and batcher not in self.hungry:
            self.hungry.append(batcher)
            self._share_out(now)

    def _share_out(self, now: float) -> None:
        while self.hungry and self.credits:
            batcher, worker = self.hungry.popleft(), self.credits.popleft()
            batcher.worker_ready(worker)
            self.at(now + KEPT, partial(self._give_back, batcher))
            self.step(batcher, now)

    def _give_back(self, batcher: Batcher, now: float) -> None:
        for worker in batcher.spare(now):
            batcher.worker_lent(worker)
            self.credits.append(worker)
        self._share_out(now)

    def _run(self, batcher: Batcher, worker: WorkerId, batch: Batch, now: float) -> None:
        assert worker not in self.working
        self.working.add(worker)
        if now > WARM_UP:
            self.sizes.append(batch.size)

        def done(then: float) -> None:
            self.working.discard(worker)
            batcher.finished(worker, batch.id, Result(delivered=batch.size), then)
            self.credits.append(worker)
            self.step(batcher, then)
            self._share_out(then)

        self.at(now + SECONDS + 2 * self.transit, done)


def shared_by(batchers: int, load: float, *, seconds: float = 40.0, transit: float = 0.0) -> Found:
    rate = load * WORKERS * LIMIT / SECONDS
    schedule = poisson(rate, seconds, Random(1))
    found = Pool(batchers, transit).play(schedule)
    assert found.answered == len(schedule)
    return found


@pytest.mark.parametrize("batchers", [2, 4])
def test_batchers_that_share_workers_fill_their_batches_as_one_would(batchers: int) -> None:
    alone, together = shared_by(1, 0.9), shared_by(batchers, 0.9)
    assert together.batch >= 0.9 * alone.batch


@pytest.mark.parametrize("load", [0.5, 0.9])
@pytest.mark.parametrize("batchers", [1, 2])
def test_each_batcher_s_requests_wait_half_a_gap_of_its_own_share(batchers: int, load: float) -> None:
    found = shared_by(batchers, load)
    floor = 1e3 * SECONDS * (1 + 0.5 * batchers / WORKERS)
    assert found.latency.mean is not None
    assert 0.99 * floor <= found.latency.mean <= 1.02 * floor


def test_one_batcher_of_a_shared_fleet_does_as_well_as_with_workers_of_its_own() -> None:
    rules = BatchingRules(max_batch=LIMIT)
    own = Kernel(
        Scenario(ServiceModel(a=SECONDS), WORKERS, rules, queue_limit=PATIENT, request_limit=PATIENT)
    )
    run = own.run(poisson(1728.0, 40.0, Random(1)), warmup=WARM_UP)
    expected, found = spread(run.latencies), shared_by(1, 0.9)
    assert found.latency.mean == pytest.approx(expected.mean, rel=0.01)
    assert found.latency.p99 == pytest.approx(expected.p99, rel=0.03)
    assert found.batch == pytest.approx(run.batched / run.batches, rel=0.01)


def test_workers_far_away_cost_the_way_and_no_batch_size() -> None:
    near, far = shared_by(2, 0.9), shared_by(2, 0.9, transit=0.0005)
    assert far.batch >= near.batch
    assert near.latency.mean is not None
    assert far.latency.mean == pytest.approx(near.latency.mean + 1.0, abs=1.0)
