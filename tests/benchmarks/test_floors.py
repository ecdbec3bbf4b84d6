from dataclasses import replace
from random import Random

import pytest
from benchmarks.floors import Service

from benchmarks import floors
from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.service_model import ServiceModel
from penstock.sim.floor import floor
from penstock.sim.kernel import Kernel, Scenario

CASE_A = Service(a=0.100, workers=6, max_batch=32)
AFFINE = Service(a=0.050, b=0.0005, workers=6, max_batch=100)


def test_with_constant_service_the_floor_is_that_of_staggered_workers() -> None:
    found = (
        floors.mean(CASE_A, 1000),
        floors.quantile(CASE_A, 1000, 0.95),
        floors.quantile(CASE_A, 1000, 0.99),
    )
    assert [round(seconds * 1e3, 1) for seconds in found] == [108.3, 115.8, 116.5]


def test_capacity_is_reached_with_full_batches_on_workers_that_never_rest() -> None:
    assert CASE_A.capacity == pytest.approx(1920)
    assert floors.load(CASE_A, 960) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("service", "rate"), [(CASE_A, 10), (CASE_A, 300), (CASE_A, 1728), (AFFINE, 500), (AFFINE, 3000)]
)
def test_the_simulators_own_floor_agrees(service: Service, rate: float) -> None:
    theirs = floor(ServiceModel(a=service.a, b=service.b), service.workers, service.max_batch, rate)
    assert theirs is not None
    if floors.plentiful(service, rate):
        ours = floors.alone(service), floors.alone(service)
    else:
        ours = floors.mean(service, rate), floors.quantile(service, rate, 0.99)
    assert (theirs.mean, theirs.p99) == pytest.approx([seconds * 1e3 for seconds in ours])


def test_when_service_grows_with_the_batch_the_gap_grows_with_the_rate() -> None:
    assert floors.gap(AFFINE, 3000) > floors.gap(AFFINE, 1000) > floors.gap(replace(AFFINE, b=0.0), 3000)


def test_crowding_grows_without_bound_towards_capacity() -> None:
    calm, busy = (floors.crowding(CASE_A, share * CASE_A.capacity) for share in (0.5, 0.98))
    assert busy == pytest.approx(25 * calm)
    assert floors.crowding(CASE_A, 1000, q=0.99) > floors.crowding(CASE_A, 1000, q=0.95)


def test_a_rate_beyond_any_batch_size_has_no_floor() -> None:
    with pytest.raises(ValueError, match="more than any batch size"):
        floors.gap(AFFINE, 12_000)
    with pytest.raises(ValueError, match="more than any batch size"):
        floors.single_worker_mean(0.05, 0.0005, 2000)


def test_one_greedy_worker_stays_just_below_its_known_bound() -> None:
    service = ServiceModel(a=0.020, b=0.0005)
    rules = BatchingRules(max_batch=10_000, policy="greedy")
    scenario = Scenario(service, workers=1, rules=rules, admission=None)
    latencies = Kernel(scenario).run(poisson(1000, 60, Random(1)), warmup=1.0).latencies
    bound = floors.single_worker_mean(0.020, 0.0005, 1000)
    assert 0.97 * bound < sum(latencies) / len(latencies) < 1.01 * bound
