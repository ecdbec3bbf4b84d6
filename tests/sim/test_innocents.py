"""Inputs that make their batch fail, beside others, in virtual time: the others are served, all of them."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from penstock.core.queued import Queued, Sealed
from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Kernel, Scenario
from penstock.types import Outcome, Reply, Seconds, WorkerId

BATCH, MAX_BATCH, SECONDS = 0.03, 64, 12.0
GOOD, BAD = 800.0, 50.0  # requests a second


@dataclass
class Told:
    """What became of the innocent, and what the workers did."""

    endings: Counter[Outcome] = field(default_factory=Counter)
    waits: list[tuple[float, float]] = field(default_factory=list)  # when it came, and how long it took
    sent: Counter[str] = field(default_factory=Counter)

    def dispatched(self, now: Seconds, worker: WorkerId, batch: Sealed) -> None:
        self.sent["apart" if batch.apart else "others"] += 1

    def replied(self, now: Seconds, reply: Reply) -> None:
        if b"poison" not in reply.request.input:
            self.endings[reply.outcome] += 1
            self.waits.append((reply.request.arrival, now - reply.request.arrival))

    def p99(self, after: Seconds = 0.0) -> float:
        waits = sorted(wait for arrival, wait in self.waits if arrival >= after)
        return waits[int(0.99 * len(waits))]


class Nameless(Kernel):
    """Nobody says who they are, and the poison is the same each time."""

    def _arrive(self, request: Queued, now: Seconds) -> bool:
        request.tenant = ""
        if b"poison" in request.input:
            request.input = b'"poison"'
        return super()._lets_in(request, now)


def beside(
    bad: float,
    *,
    good: tuple[float, ...] = (GOOD,),
    part: float = 1.0,
    workers: int = 2,
    kind: type[Kernel] = Kernel,
) -> Told:
    """Tenant 0 sends so much, this part of it poison; each of the others sends nothing bad."""
    told = Told()
    scenario = Scenario(
        ServiceModel(a=BATCH, jitter=0.05, poison="poison"), workers, BatchingRules(max_batch=MAX_BATCH),
        tenant_shares=(bad, *good), poisoned=(part, *[0.0] * len(good)),
    )  # fmt: skip
    kernel = kind(scenario, told.dispatched, told.replied)
    kernel.run(poisson(bad + sum(good), SECONDS, Random(3)))
    return told


@pytest.fixture(scope="module")
def calm() -> float:
    return beside(BAD, part=0.0).p99()


def test_a_tenant_that_sends_nothing_but_poison_costs_the_others_nothing_but_a_moment(calm: float) -> None:
    told = beside(BAD)
    assert set(told.endings) == {Outcome.SUCCESS}
    assert told.p99() <= 3 * calm
    assert told.p99(after=1.0) <= 1.5 * calm


def test_nor_does_a_flood_of_poison_and_it_has_no_more_of_the_workers_time_than_the_others_leave(
    calm: float,
) -> None:
    told = beside(2.5 * GOOD)
    assert set(told.endings) == {Outcome.SUCCESS}
    assert told.p99() <= 3 * calm
    load = GOOD * BATCH / MAX_BATCH / 2
    assert told.sent["apart"] * BATCH <= 1.05 * (1 - 2 * load) * 2 * SECONDS


def test_on_a_single_worker_too_the_others_are_all_served() -> None:
    told = beside(BAD, good=(400.0,), workers=1)
    assert set(told.endings) == {Outcome.SUCCESS}


def test_many_small_tenants_are_served_beside_one_that_poisons(calm: float) -> None:
    told = beside(BAD, good=(20.0,) * 40)
    assert set(told.endings) == {Outcome.SUCCESS}
    assert told.p99() <= 4 * calm


def test_where_nobody_says_who_they_are_an_input_that_keeps_failing_costs_the_others_a_moment(
    calm: float,
) -> None:
    told = beside(BAD, kind=Nameless)
    assert set(told.endings) == {Outcome.SUCCESS}
    assert told.p99(after=1.0) <= 1.5 * calm


def test_poison_that_is_new_each_time_fails_nobody_else_while_halving_keeps_up() -> None:
    class Anonymous(Kernel):
        def _lets_in(self, request: Queued, now: Seconds) -> bool:
            request.tenant = ""
            return super()._lets_in(request, now)

    told = beside(4.0, kind=Anonymous)
    assert set(told.endings) == {Outcome.SUCCESS}
