"""The simulator offers requests together where nothing happens in between: nobody can tell from the results."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from penstock.core.policy import POLICIES
from penstock.core.queued import Queued
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.core.sizes import powers_to
from penstock.load.arrivals import bursty, poisson
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Kernel, Run, Scenario
from penstock.types import Seconds

CASE_A = Scenario(ServiceModel(a=0.1), 6, BatchingRules(max_batch=32))
FAULTY = ServiceModel(a=0.05, b=0.001, jitter=0.1, fail=0.03, crash=0.02, hang=0.01)


class OneByOne(Kernel):
    """Offers each request by itself, as a server does."""

    def _offer_more(self, like: Queued, places: range, schedule: Sequence[float]) -> int:
        return 0


class Counting(Kernel):
    together = 0

    def _offer_more(self, like: Queued, places: range, schedule: Sequence[float]) -> int:
        number = super()._offer_more(like, places, schedule)
        self.together += number
        return number


def policy(name: str) -> Scenario:
    return replace(CASE_A, rules=replace(CASE_A.rules, policy=name))


CASES: dict[str, tuple[Scenario, float]] = {
    **{f"{name} at {rate:g}/s": (policy(name), rate) for name in POLICIES for rate in (300.0, 1728.0)},
    "more than they can do": (CASE_A, 4000.0),
    "and in a hurry": (replace(CASE_A, queue_limit=0.2, request_limit=0.2), 4000.0),
    "nobody is refused": (replace(CASE_A, admission=None, queue_limit=0.3, request_limit=0.3), 4000.0),
    "a short queue": (replace(CASE_A, admission=AdmissionRules(max_queue=40)), 4000.0),
    "a queue of few bytes": (replace(CASE_A, admission=AdmissionRules(max_queue_bytes=61)), 4000.0),
    "one worker, steps and jitter": (
        Scenario(ServiceModel(0.01, knee=16, padded=True, jitter=0.1), 1, BatchingRules(sizes=powers_to(64))),
        900.0,
    ),
    "faults": (Scenario(FAULTY, 4, BatchingRules(max_batch=32, processing=0.5)), 900.0),
    "batches that are poison": (Scenario(ServiceModel(a=0.05, poison='""'), 2), 200.0),
    "tiers": (replace(CASE_A, tier_shares=(0.2, 0.3, 0.5), tenants=3), 2500.0),
}


def same(one: Run, other: Run) -> None:
    assert one.latencies == other.latencies
    assert one.finished_at == other.finished_at
    assert one == other


@pytest.mark.parametrize("warmup", [0.0, 1.0])
@pytest.mark.parametrize("case", CASES)
def test_the_results_are_those_of_requests_that_are_offered_one_by_one(case: str, warmup: Seconds) -> None:
    scenario, rate = CASES[case]
    schedule = poisson(rate, 3.0, Random(1))
    same(Kernel(scenario).run(schedule, None, warmup), OneByOne(scenario).run(schedule, None, warmup))


def test_bursts_and_requests_at_one_instant_are_no_different() -> None:
    arrivals = bursty(1000.0, 6.0, 3.0, 2.0, Random(2))
    schedule = sorted(round(time, 2) for time in arrivals)
    same(Kernel(CASE_A).run(schedule, None, 1.0), OneByOne(CASE_A).run(schedule, None, 1.0))


def test_where_all_are_alike_and_the_workers_busy_nearly_all_are_offered_together() -> None:
    schedule = poisson(1728.0, 5.0, Random(1))
    kernel = Counting(CASE_A)
    kernel.run(schedule)
    assert kernel.together > 0.7 * len(schedule)
    mixed = Counting(replace(CASE_A, tenants=2))
    mixed.run(schedule)
    assert mixed.together == 0
