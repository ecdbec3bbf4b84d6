"""Zones in virtual time: what crosses, what is lost, and what each way of helping costs."""

from random import Random

import pytest

from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Scenario
from penstock.sim.zoned import Spill, ZonedKernel, ZonedRun, Zones
from penstock.sim.zoned_study import back_after

SCENARIO = Scenario(ServiceModel(a=0.1), 6, BatchingRules(max_batch=32))
CAPACITY = 6 * 32 / 0.1
EVEN = {"a": 1.0, "b": 1.0, "c": 1.0}
UNEVEN = {"a": 0.7, "b": 0.15, "c": 0.15}


def played(zones: Zones, load: float, seconds: float = 20.0) -> ZonedRun:
    schedule = poisson(load * CAPACITY, seconds, Random(1))
    run = ZonedKernel(SCENARIO, zones).run(schedule, warmup=2.0)
    arrived = sum(when >= 2.0 for when in schedule)
    assert len(run.latencies) + sum(run.errors.values()) == arrived, "each request ends once"
    return run


def test_at_60_percent_nothing_leaves_its_zone_and_a_pool_sends_two_thirds_away() -> None:
    home, pool = (played(Zones(EVEN, spill=spill), 0.6) for spill in (Spill.DEADLINE, Spill.POOL))
    assert home.crossed == 0
    assert pool.crossed > 0.6 * len(pool.latencies)
    assert not home.errors
    assert not pool.errors


@pytest.mark.parametrize("spill", [Spill.DEADLINE, Spill.POOL])
def test_a_zone_lost_at_60_percent_costs_no_accepted_request_and_p99_is_back_within_5_seconds(
    spill: Spill,
) -> None:
    run = played(Zones(EVEN, spill=spill, lost="c", lost_at=8.0), 0.6)
    assert run.inherited > 0
    assert len(run.latencies) == run.accepted
    back = back_after(run, 8.0)
    assert back is not None
    assert back <= 5.0


def test_what_a_zone_cannot_do_in_time_is_done_elsewhere_and_no_more_than_that_crosses() -> None:
    alone, helped = (played(Zones(UNEVEN, spill=spill), 0.85) for spill in (Spill.NEVER, Spill.DEADLINE))
    assert alone.errors["SERVICE_OVERLOADED"] > 0.2 * alone.accepted
    assert helped.errors.total() == 0
    beyond = 1.0 - CAPACITY / 3 / (0.7 * 0.85 * CAPACITY)  # the part of the first zone's requests
    assert 0.0 < helped.crossed <= (0.7 * beyond + 0.1) * len(helped.latencies)


def test_a_zone_that_helps_still_serves_its_own_in_time() -> None:
    run = played(Zones(UNEVEN, spill=Spill.DEADLINE), 1.3)
    assert run.errors["SERVICE_OVERLOADED"] > 0
    served = len(run.latencies)
    assert run.accepted - served < 0.01 * served
    assert served > 0.95 * CAPACITY * 18.0
