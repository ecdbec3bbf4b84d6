"""What holding back the lower tiers is worth under overload, in virtual time."""

from random import Random

import pytest

from penstock.core.buffer import TierRules
from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Kernel, Run, Scenario

CAPACITY = 4 * 32 / 0.1
SECONDS, WARMUP = 14.0, 4.0
USUAL = (2.0, 4.0)  # time limits of queue and request


def offered(load: float, *shares: float, limits: tuple[float, float] = USUAL, strict: bool = False) -> Run:
    """Four workers of 100 ms × 32 with some jitter, and this times what they can do."""
    scenario = Scenario(
        ServiceModel(a=0.1, jitter=0.1), workers=4, tier_shares=shares,
        rules=BatchingRules(max_batch=32, tiers=TierRules(strict=strict)),
        queue_limit=limits[0], request_limit=limits[1],
    )  # fmt: skip
    return Kernel(scenario).run(poisson(CAPACITY * load, SECONDS, Random(7)), warmup=WARMUP)


def goodput(run: Run) -> float:
    return len(run.latencies) / (SECONDS - WARMUP) / CAPACITY


def part(run: Run, tier: int) -> float:
    """Of the capacity, what this tier was served in time."""
    return run.in_time_by_tier[tier] / (SECONDS - WARMUP) / CAPACITY


def test_at_twice_the_capacity_the_best_is_served_whole_the_lowest_its_part_and_no_worker_idles() -> None:
    run = offered(2.0, 0.2, 0.3, 0.5)
    assert goodput(run) >= 0.97
    assert run.in_time_by_tier[0] >= 0.999 * run.sent_by_tier[0]
    assert part(run, 1) >= 1.0 - 0.4 - 1 / 13 - 0.03
    assert part(run, 2) >= 0.98 / 13
    assert run.late == 0


@pytest.mark.parametrize(("seconds", "whole"), [(0.3, 0.998), (0.4, 0.999), (1.0, 0.999), (2.0, 0.999)])
def test_the_best_tier_is_served_whole_where_it_fits_however_little_of_the_service_its_weight_gives_it(
    seconds: float, whole: float
) -> None:
    """It alone is 0.9 × the capacity, and of the service its weight says 0.6. The lowest tier's part comes on top,
    so with a deadline of only three batches a few are short of time."""
    run = offered(2.0, 0.45, 0.3, 0.25, limits=(seconds, seconds))
    assert goodput(run) >= 0.97
    assert run.in_time_by_tier[0] >= whole * run.sent_by_tier[0]
    assert part(run, 2) >= 0.98 / 13


def test_at_ten_times_the_capacity_no_worker_idles_and_nobody_is_served_late() -> None:
    run = offered(10.0, 0.2, 0.3, 0.5, limits=(1.0, 1.0))
    assert goodput(run) >= 0.97
    assert run.late < 0.005 * len(run.latencies)
    assert part(run, 2) >= 0.98 / 13
    assert part(run, 1) >= 0.5 / 13  # whoever is between has as much, after a while
    assert run.errors["DEADLINE_EXCEEDED"] < 0.01 * run.sent  # who is let in is served


def test_under_strict_tiers_the_lowest_may_get_nothing() -> None:
    run = offered(2.0, 0.3, 0.4, 0.3, strict=True)
    assert run.in_time_by_tier[0] >= 0.999 * run.sent_by_tier[0]
    assert part(run, 2) < 0.01


@pytest.mark.parametrize("load", [0.9, 1.5])
def test_a_few_better_requests_do_not_keep_the_lowest_tier_from_what_nobody_else_uses(load: float) -> None:
    run = offered(load, 0.1, 0.0, 0.9)
    assert goodput(run) >= 0.97 * min(load, 1.0)
    assert run.in_time_by_tier[0] >= 0.999 * run.sent_by_tier[0]


def test_a_scenario_may_give_each_tier_its_own_time_limits() -> None:
    scenario = Scenario(
        ServiceModel(a=0.1), rules=BatchingRules(max_batch=1), admission=None,
        tier_shares=(0.5, 0.5), tier_limits=((60.0, 60.0), (0.05, 60.0)),
    )  # fmt: skip
    run = Kernel(scenario).run([0.01 * number for number in range(50)])
    assert run.in_time_by_tier[0] == run.sent_by_tier[0]
    assert run.in_time_by_tier[1] < 0.5 * run.sent_by_tier[1]
