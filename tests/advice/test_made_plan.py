"""A plan, judged by the simulator: so many GPUs keep the objective, and one fewer does not."""

from random import Random

import pytest

from penstock.advice import arithmetic
from penstock.advice.arithmetic import Need
from penstock.advice.curve import parse_curve
from penstock.advice.plan import Plan, fewest, make_plan
from penstock.advice.trial import latency_at, try_workers
from penstock.errors import UserMistake
from penstock.load.arrivals import poisson
from penstock.load.traffic import Schedule, Traffic, make_schedule

SECONDS = 12.0


def planned(curve: str, rate: float, objective: float, *, spare: int = 0, bursts: float = 1.0) -> Plan:
    traffic = Traffic(rate, SECONDS, 2.0, "bursty" if bursts > 1 else "poisson", seed=3, bursts=bursts)
    need = Need(rate, objective, bursts=bursts)
    return make_plan(parse_curve(curve), need, make_schedule(traffic), 2.0, spare=spare, price=2.0)


@pytest.mark.parametrize(
    ("curve", "rate", "objective", "gpus"),
    [("100ms x 32", 1000.0, 0.2, 4), ("200ms x 64", 2500.0, 0.25, 8), ("1=12ms,32=100ms", 500.0, 0.1, 2)],
)
def test_one_gpu_fewer_would_miss_the_objective(curve: str, rate: float, objective: float, gpus: int) -> None:
    plan = planned(curve, rate, objective)
    assert plan.workers == gpus
    assert plan.needed.keeps(plan.need)
    if plan.fewer is None:
        assert arithmetic.capacity(parse_curve(curve), gpus - 1) <= rate
    else:
        assert plan.fewer.workers == gpus - 1
        assert not plan.fewer.keeps(plan.need)


def test_the_estimate_and_the_capacity_are_those_of_the_simulator() -> None:
    plan = planned("100ms x 32", 1000.0, 0.2)
    assert plan.needed.latency == pytest.approx(plan.estimate, rel=0.05)
    flood = Schedule(poisson(2000.0, 42.0, Random(1)), None, 40.0, "")
    served = try_workers(plan.curve, 4, plan.need, flood, 2.0)
    assert served.answered * 2000.0 == pytest.approx(plan.capacity, rel=0.05)
    assert served.latency is None  # not even 99 % had an answer
    assert not served.keeps(plan.need)


def test_bursts_cost_gpus_and_spare_ones_are_added() -> None:
    bursty = planned("100ms x 32", 1000.0, 0.2, bursts=3.0, spare=2)
    assert bursty.needed.workers > 4
    assert bursty.workers == bursty.needed.workers + 2
    assert bursty.cost == pytest.approx(bursty.workers * 2.0 / 3.6)


def test_an_objective_below_a_batch_of_one_is_a_mistake() -> None:
    with pytest.raises(UserMistake, match="--objective: a batch of one takes 100 ms"):
        planned("100ms x 32", 1000.0, 0.05)


def test_an_objective_that_luck_alone_spoils_is_a_mistake() -> None:
    with pytest.raises(UserMistake, match="too close to the 10 ms of a batch of one"):
        planned("a=10ms,jitter=50% x 1", 20.0, 0.0101)


@pytest.mark.parametrize("begin", [1, 2, 9, 10, 11, 12, 64])
@pytest.mark.parametrize("enough", [1, 2, 7, 10, 13, 60])
def test_the_fewest_is_found_wherever_the_search_begins(begin: int, enough: int) -> None:
    tried: list[int] = []

    def keeps(number: int) -> bool:
        tried.append(number)
        return number >= enough

    assert fewest(keeps, begin, 0) == enough
    assert len(tried) <= 16
    assert min(tried) > 0


def test_a_latency_at_a_quantile_counts_those_without_an_answer_as_the_slowest() -> None:
    assert latency_at([1.0, 2.0, 3.0, 4.0], 4, 0.5) == 2.0
    assert latency_at([1.0, 2.0], 4, 0.5) == 2.0
    assert latency_at([1.0, 2.0], 4, 0.51) is None
    assert latency_at([], 4, 0.5) is None
