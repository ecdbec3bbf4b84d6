"""The simulator against what is known of waiting: floors no policy can beat, and the tables of the design.

Virtual time and fixed seeds, so every figure is the same on every machine. A run is as short as the cell allows.
"""

from random import Random
from typing import NamedTuple

import pytest

from penstock.core.buffer import TierRules
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.load.report import Spread, spread
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Kernel, Run, Scenario

PATIENT = 1e6  # a deadline nobody misses


class Case(NamedTuple):
    a: float
    workers: int
    batch: int
    rate: float
    b: float = 0.0

    @property
    def load(self) -> float:
        return self.rate * (self.a + self.b * self.batch) / (self.workers * self.batch)

    @property
    def gap(self) -> float:
        """The shortest time between two batches that keeps up."""
        return self.a / (self.workers - self.rate * self.b)

    def floor(self, quantile: float) -> float:
        """Milliseconds; the mean is the quantile one half."""
        return 1e3 * self.gap * (self.workers + quantile)


def simulate(case: Case, policy: str, requests: float, *, seed: int = 1, warm_up: float = 0.0) -> Spread:
    """Latencies in milliseconds; those answered in the first `warm_up` seconds are left out."""
    rules = BatchingRules(max_batch=case.batch, policy=policy, processing=PATIENT)
    scenario = Scenario(
        ServiceModel(a=case.a, b=case.b), case.workers, rules,
        admission=None, queue_limit=PATIENT, request_limit=PATIENT,
    )  # fmt: skip
    run = Kernel(scenario).run(poisson(case.rate, requests / case.rate, Random(seed)))
    assert len(run.latencies) == run.sent
    return spread(
        latency for latency, end in zip(run.latencies, run.finished_at, strict=True) if end > warm_up
    )


def is_close(found: Spread, mean: float, p95: float, p99: float, tails: float = 0.02) -> None:
    """Within 2 % of the table, or half a unit of its last digit."""
    assert found.mean == pytest.approx(mean, rel=0.02, abs=0.5)
    assert found.p95 == pytest.approx(p95, rel=tails, abs=0.5)
    assert found.p99 == pytest.approx(p99, rel=tails, abs=0.5)


A10, A300, A1000 = (Case(0.1, 6, 32, rate) for rate in (10.0, 300.0, 1000.0))
A1728, A1882 = (Case(0.1, 6, 32, rate) for rate in (1728.0, 1882.0))
A_N100 = Case(0.1, 6, 100, 1000.0)
B = Case(0.2, 32, 64, 10_000.0)
C = Case(0.05, 4, 32, 1000.0)
AFFINE = Case(0.05, 6, 100, 3000.0, b=0.0005)


@pytest.mark.parametrize(
    ("case", "window", "paced"),
    [
        pytest.param(A10, (142, 150, 150), (100, 100, 100), id="A 10/s"),
        pytest.param(A300, (127, 150, 150), (108, 116, 117), id="A 300/s"),
        pytest.param(A1000, (116, 133, 139), (108, 116, 117), id="A 1000/s"),
        pytest.param(A1728, (109, 119, 123), (109, 117, 122), id="A 1728/s"),
        pytest.param(A_N100, (126, 149, 150), (108, 116, 117), id="A, N 100"),
        pytest.param(B, (203, 207, 209), (204, 208, 210), id="B"),
        pytest.param(C, (66, 83, 89), (56, 62, 62), id="C"),
        pytest.param(AFFINE, None, (74, 80, 83), id="affine"),
    ],
)
def test_window_and_paced_wait_as_long_as_the_table_says(
    case: Case, window: tuple[float, float, float] | None, paced: tuple[float, float, float]
) -> None:
    requests = min(120_000.0, max(3_000.0, 40 * case.rate))
    warm_up = min(2.0, 0.1 * requests / case.rate)
    is_close(simulate(case, "paced", requests, warm_up=warm_up), *paced)
    if window is not None:
        is_close(simulate(case, "window", requests, warm_up=warm_up), *window)


@pytest.mark.parametrize(
    ("case", "requests", "seed", "greedy"),
    [
        pytest.param(A10, 3_000, 1, (100, 100, 100), id="A 10/s"),
        pytest.param(A300, 60_000, 3, (109, 119, 124), id="A 300/s"),
        # Where it bunches, greedy has no steady state in reach: the workers start together and drift apart over
        # minutes, so the mean falls from 136 ms in the first minute to 128 ms after five (A, 1,000/s). The table
        # holds what a run of a little over two minutes gives, its start included.
        pytest.param(A1000, 130_000, 2, (131, 173, 177), id="A 1000/s"),
        pytest.param(A_N100, 130_000, 2, (125, 164, 170), id="A, N 100"),
        pytest.param(C, 130_000, 2, (61, 79, 82), id="C"),
        pytest.param(A1728, 100_000, 1, (146, 189, 193), id="A 1728/s"),
        pytest.param(B, 150_000, 1, (298, 387, 395), id="B"),
        pytest.param(AFFINE, 60_000, 2, (88, 126, 137), id="affine"),
    ],
)
def test_greedy_bunches_as_much_as_the_table_says(
    case: Case, requests: float, seed: int, greedy: tuple[float, float, float]
) -> None:
    warm_up = 5.0 if case is A300 else 0.0  # here the bunch of the start is gone for good within seconds
    is_close(simulate(case, "greedy", requests, seed=seed, warm_up=warm_up), *greedy)


@pytest.mark.parametrize(
    ("policy", "mean", "p95", "p99"),
    [("window", 118, 147, 163), ("greedy", 158, 207, 228), ("paced", 119, 149, 165)],
)
def test_at_98_percent_load_the_mean_is_that_of_the_table(
    policy: str, mean: float, p95: float, p99: float
) -> None:
    """The tails are made by a few excursions of the queue, each tens of seconds long: over 200 s the p95 of
    `window` is between 140 and 169 ms, by the seed. So they are held to 8 % only."""
    is_close(simulate(A1882, policy, 250_000, seed=4), mean, p95, p99, tails=0.08)


@pytest.mark.parametrize(
    "case",
    [A300, A1000, C, Case(0.03, 2, 16, 600.0), Case(0.2, 12, 64, 2000.0), Case(0.15, 3, 8, 100.0), AFFINE],
)
def test_no_policy_beats_the_floor_and_paced_reaches_it(case: Case) -> None:
    """Latency at quantile q is at least S (1 + q/G); with a service that grows, τ* (G + q)."""
    slack = 1.02 if not case.b else 1.05  # a growing service needs a longer gap, or it runs dry
    for policy in ("greedy", "window", "paced"):
        found = simulate(case, policy, 20_000, warm_up=2.0)
        assert found.mean is not None
        assert found.p95 is not None
        assert found.mean >= 0.995 * case.floor(0.5)
        assert found.p95 >= 0.995 * case.floor(0.95)
        if policy == "paced":
            assert found.mean <= slack * case.floor(0.5)
            assert found.p95 <= slack * case.floor(0.95)


@pytest.mark.parametrize("case", [A1728, A1882, Case(0.05, 4, 16, 1216.0)])
def test_near_capacity_the_mean_grows_by_no_more_than_the_known_correction(case: Case) -> None:
    found = simulate(case, "paced", 100_000, warm_up=5.0)
    added = 1e3 * case.gap / (2 * case.batch * (1 - case.load))
    assert found.mean is not None
    assert 0.99 * case.floor(0.5) <= found.mean <= case.floor(0.5) + 1.25 * added


@pytest.mark.parametrize("rate", [80.0, 100.0, 130.0])
def test_one_greedy_worker_without_a_cap_keeps_to_inoue_s_bound(rate: float) -> None:
    case = Case(0.05, 1, 10_000, rate, b=0.005)
    found = simulate(case, "greedy", 60_000)
    busy = rate * case.b
    bound = 3 * case.a / (2 * (1 - busy)) + case.b / 2 * (busy + 2) / (1 - busy**2)
    assert found.mean is not None
    assert 0.98 * bound <= found.mean / 1e3 <= 1.004 * bound


@pytest.mark.parametrize("max_wait", [0.0, 0.001, 0.01, 0.2])
def test_late_binding_is_stable_for_every_timer(max_wait: float) -> None:
    """An early-binding timer of 10 ms diverges here, at 52 % load."""
    rules = BatchingRules(max_batch=32, policy="window", max_wait=max_wait)
    run = Kernel(Scenario(ServiceModel(a=0.1), 6, rules)).run(poisson(1000.0, 20.0, Random(1)))
    assert len(run.latencies) == run.sent
    assert max(run.latencies) < 0.5


def overloaded(admission: AdmissionRules | None, policy: str = "paced") -> Run:
    """Twice the capacity of case A, 200 ms deadlines, 10 % jitter, three tiers of 20, 30 and 50 %."""
    rules = BatchingRules(max_batch=32, policy=policy, tiers=TierRules(strict=True))
    scenario = Scenario(
        ServiceModel(a=0.1, jitter=0.1), 6, rules,
        admission=admission, queue_limit=0.2, request_limit=0.2, tier_shares=(0.2, 0.3, 0.5),
    )  # fmt: skip
    return Kernel(scenario).run(poisson(3840.0, 20.0, Random(1)))


@pytest.mark.parametrize(
    "admission", [None, AdmissionRules()], ids=["expiry with guard", "refuse at arrival"]
)
def test_overload_costs_no_goodput_and_only_the_lowest_tier_is_shed(admission: AdmissionRules | None) -> None:
    run = overloaded(admission)
    assert len(run.latencies) / 20.0 >= 0.99 * 1920.0
    served = [run.in_time_by_tier[tier] / run.sent_by_tier[tier] for tier in range(3)]
    assert served == pytest.approx([1.00, 0.96, 0.02], abs=0.015)
    assert run.late < 0.002 * run.sent
    assert len(run.latencies) + sum(run.errors.values()) == run.sent
