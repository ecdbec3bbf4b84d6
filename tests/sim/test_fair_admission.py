"""A tenant sends more than twice what the workers can do: what the others of its tier get, in virtual time."""

from random import Random

import pytest

from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Kernel, Run, Scenario

CAPACITY = 4 * 32 / 0.1
SECONDS, WARMUP = 9.0, 3.0
BURST = 2.3  # times the capacity


def offered(
    *loads: float,
    limits: tuple[float, float] = (2.0, 4.0),  # as they are by default
    admission: AdmissionRules | None = None,
    tiers: tuple[float, ...] = (1.0,),
    own_parameters: bool = False,
) -> Run:
    """Of each tenant, in terms of the capacity: four workers of 100 ms × 32 with some jitter."""
    scenario = Scenario(
        ServiceModel(a=0.1, jitter=0.1), workers=4, rules=BatchingRules(max_batch=32), tier_shares=tiers,
        tenant_shares=loads, queue_limit=limits[0], request_limit=limits[1],
        admission=admission or AdmissionRules(), own_parameters=own_parameters,
    )  # fmt: skip
    return Kernel(scenario).run(poisson(CAPACITY * sum(loads), SECONDS, Random(7)), warmup=WARMUP)


def served(run: Run, *tenants: int) -> float:
    sent = sum(run.sent_by_tenant[str(tenant)] for tenant in tenants)
    return sum(run.in_time_by_tenant[str(tenant)] for tenant in tenants) / sent


def all_workers_are_used(run: Run) -> None:
    assert len(run.latencies) / (SECONDS - WARMUP) >= 0.97 * CAPACITY
    assert run.errors["DEADLINE_EXCEEDED"] < 0.01 * run.sent, "who is let in is served"


@pytest.mark.parametrize("trickle", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("limits", [(2.0, 4.0), (1.0, 1.0)])
def test_a_trickle_is_served_whole_beside_a_burst(trickle: float, limits: tuple[float, float]) -> None:
    run = offered(BURST, trickle, limits=limits)
    assert served(run, 1) >= 0.99
    all_workers_are_used(run)


def test_so_is_one_whose_parameters_keep_it_out_of_the_batches_of_the_burst() -> None:
    run = offered(BURST, 0.05, own_parameters=True)
    assert served(run, 1) >= 0.99


def test_so_are_many_trickles() -> None:
    run = offered(BURST, *[0.005] * 60)
    assert served(run, *range(1, 61)) >= 0.99
    all_workers_are_used(run)


def test_two_that_both_want_more_than_half_have_half_each() -> None:
    run = offered(BURST, 1.0)
    half = CAPACITY / 2 * (SECONDS - WARMUP)
    assert run.in_time_by_tenant["0"] == pytest.approx(half, rel=0.1)
    assert run.in_time_by_tenant["1"] == pytest.approx(half, rel=0.1)


@pytest.mark.parametrize("admission", [AdmissionRules(max_queue=500), AdmissionRules(max_queue_bytes=1000)])
def test_a_trickle_finds_room_in_a_queue_that_a_burst_has_filled(admission: AdmissionRules) -> None:
    run = offered(BURST, 0.05, admission=admission)
    assert served(run, 1) >= 0.99
    all_workers_are_used(run)


@pytest.mark.parametrize("tiers", [(0.02, 0.0, 0.98), (0.02, 0.98, 0.0), (0.98, 0.02, 0.0)])
def test_a_trickle_is_served_whole_beside_a_burst_of_its_tier_where_several_tiers_are_in_use(
    tiers: tuple[float, ...],
) -> None:
    assert served(offered(BURST, 0.05, tiers=tiers), 1) >= 0.99
