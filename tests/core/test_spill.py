"""Work stays in its zone while that can do it in time, and comes home."""

from itertools import count

import pytest
from core_kit import REFUSED, ask, finish, offer, outputs, sent, teach
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.admission import Admission
from penstock.core.batcher import Batcher
from penstock.core.capacity import CapacityRules, depth_limits, fleet_capacity, own_capacity
from penstock.core.delivery import RetryRules
from penstock.core.forecast import forecast
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.core.spill import RETRY_WAY, WAY, late_at_home, latest_start
from penstock.types import WorkerId

SHARED = BatchingRules(policy="greedy", max_batch=4, shared=True, breaker_failures=1, breaker_cooldown=1.0)
SECONDS = 0.1


def home(number: int) -> WorkerId:
    return WorkerId(f"home{number}")


def away(number: int) -> WorkerId:
    return WorkerId(f"away{number}")


def zoned(at_home: int, abroad: int, lent: float = 0.0, rules: BatchingRules = SHARED) -> Batcher:
    batcher = Batcher(rules)
    for number in range(at_home):
        batcher.worker_takes(home(number), one_at_a_time=False)
        batcher.worker_known(home(number))
    for number in range(abroad):
        batcher.worker_takes(away(number), one_at_a_time=False, abroad=True)
        batcher.worker_known(away(number))
    batcher.other_zones_lend(lent)
    teach(batcher, SECONDS, size=4)
    return batcher


def busy_at_home(batcher: Batcher, workers: int, now: float = 0.0) -> None:
    """All these workers begin a full batch now."""
    for number in range(workers):
        offer(batcher, *(ask(now) for _ in range(4)))
        batcher.worker_ready(home(number))
        assert sent(batcher.step(now)) == [4]


# ---- when


def test_nobody_is_asked_abroad_while_nothing_waits_or_the_home_is_in_time() -> None:
    batcher = zoned(2, 2)
    assert not batcher.wants_abroad(0.0)
    busy_at_home(batcher, 2)
    assert not batcher.wants_abroad(0.0)
    offer(batcher, *(ask(expires=10.0) for _ in range(20)))
    batcher.step(0.0)
    assert batcher.wants_worker(0.0)
    assert not batcher.wants_abroad(0.0)


def test_a_queue_that_the_home_cannot_begin_in_time_wants_a_worker_abroad() -> None:
    batcher = zoned(1, 1)
    busy_at_home(batcher, 1)
    # The home begins a batch of four every 0.1 s: the fifth of them begins at 0.5 s.
    offer(batcher, *(ask(expires=0.5 / (1.0 - WAY) + 0.01) for _ in range(20)))
    batcher.step(0.0)
    assert not batcher.wants_abroad(0.0)
    offer(batcher, ask(expires=0.5 / (1.0 - WAY) + 0.01))
    batcher.step(0.0)
    assert batcher.wants_abroad(0.0)


def test_the_most_urgent_one_may_be_the_reason_although_little_waits() -> None:
    batcher = zoned(1, 1)
    busy_at_home(batcher, 1)
    offer(batcher, ask(expires=0.05))
    batcher.step(0.0)
    assert batcher.wants_abroad(0.0)


def test_without_a_healthy_worker_at_home_whatever_waits_may_leave() -> None:
    batcher = zoned(1, 1)
    offer(batcher, ask(expires=10.0))
    batcher.step(0.0)
    assert not batcher.wants_abroad(0.0)
    batcher.worker_doubted(home(0))
    assert batcher.wants_abroad(0.0)
    batcher.worker_known(home(0))
    assert not batcher.wants_abroad(0.0)


def test_a_home_that_hangs_is_noticed_in_time_and_the_batcher_asks_to_be_woken_then() -> None:
    batcher = zoned(1, 1)
    busy_at_home(batcher, 1)
    offer(batcher, ask(expires=2.0))
    wake = batcher.step(0.0).wake
    assert wake is not None
    assert wake < 2.0 * (1.0 - WAY) + 0.01
    assert not batcher.wants_abroad(wake - 0.01)
    batcher.step(wake)
    assert batcher.wants_abroad(wake)


def test_a_retry_that_the_home_cannot_begin_in_time_wants_a_worker_abroad() -> None:
    batcher = zoned(1, 1, rules=BatchingRules(policy="greedy", shared=True, retries=RetryRules(base=0.0)))
    offer(batcher, ask(deadline=1.0))
    batcher.worker_ready(home(0))
    batcher.step(0.0)
    batcher.worker_known(home(1))
    finish(batcher, home(0), REFUSED, 0.1)
    batcher.step(0.1)
    assert batcher.delivery.waiting == 1
    limit = 1.0 - batcher.curve(1)
    assert latest_start(batcher.parts) == limit - RETRY_WAY
    assert not late_at_home(batcher.parts, 0.2)
    assert late_at_home(batcher.parts, limit - RETRY_WAY + 0.01)


def test_what_waits_without_a_limit_never_leaves_while_the_home_is_there() -> None:
    batcher = zoned(1, 1)
    busy_at_home(batcher, 1)
    request = ask(expires=float("inf"), deadline=float("inf"))
    offer(batcher, request)
    batcher.step(0.0)
    assert latest_start(batcher.parts) == float("inf")
    assert not batcher.wants_abroad(1e6)


# ---- who


def test_a_worker_at_home_is_picked_before_one_abroad_and_a_trusted_one_before_both() -> None:
    batcher = zoned(1, 1)
    batcher.worker_ready(away(0))
    batcher.worker_ready(home(0))
    assert batcher.fleet.pick() is batcher.fleet.workers[home(0)]
    assert batcher.fleet.pick(avoid=home(0)) is batcher.fleet.workers[away(0)]
    batcher.fleet.workers[home(0)].cooldown = 1.0
    assert batcher.fleet.pick() is batcher.fleet.workers[away(0)]
    batcher.fleet.workers[away(0)].cooldown = 1.0
    assert batcher.fleet.pick() is batcher.fleet.workers[home(0)]


def test_a_batch_that_leaves_says_so_and_its_worker_is_no_more_ours_than_before() -> None:
    batcher = zoned(1, 1)
    batcher.worker_ready(away(0))
    offer(batcher, ask())
    ((name, batch),) = batcher.step(0.0).dispatches
    assert (name, batch.crossed) == (away(0), True)
    assert batcher.fleet.free_at_home
    finish(batcher, name, outputs(batch), 0.1)
    batcher.step(0.1)
    assert (batcher.fleet.idle, batcher.fleet.busy, batcher.fleet.healthy) == (0, 0, 1)
    batcher.worker_ready(home(0))
    offer(batcher, ask(0.2))
    ((name, batch),) = batcher.step(0.2).dispatches
    assert (name, batch.crossed) == (home(0), False)


def test_a_batch_whose_worker_abroad_is_lost_is_tried_again_at_home() -> None:
    batcher = zoned(1, 1)
    batcher.worker_ready(away(0))
    offer(batcher, ask())
    batcher.step(0.0)
    batcher.worker_removed(away(0), 0.5)
    batcher.worker_ready(home(0))
    ((name, batch),) = batcher.step(0.6).dispatches
    assert (name, batch.retry, batch.crossed) == (home(0), True, False)


def test_no_batch_is_handed_ahead_to_a_worker_abroad() -> None:
    rules = BatchingRules(policy="greedy", max_batch=4, shared=True, ahead=True)
    batcher = zoned(1, 1, rules=rules)
    batcher.worker_ready(away(0))
    offer(batcher, *(ask() for _ in range(4)))
    ((name, batch),) = batcher.step(0.0).dispatches
    finish(batcher, name, outputs(batch), 0.1)
    batcher.step(0.1)
    batcher.worker_ready(away(0))  # it has answered before, and gets another batch
    offer(batcher, *(ask(0.1) for _ in range(4)))
    assert sent(batcher.step(0.1)) == [4]
    offer(batcher, *(ask(0.1) for _ in range(40)))
    assert batcher.step(0.195).ahead == []


# ---- what is counted on ----------------------------------------------------------------------------


def test_policies_count_on_the_home_and_forecasts_also_on_what_is_lent() -> None:
    batcher = zoned(2, 6, lent=3.0)
    batcher.share = 0.5
    fleet = batcher.fleet
    assert (fleet.healthy, fleet.everywhere) == (2, 8)
    assert (fleet.counted, fleet.own, fleet.reach) == (1.0, 2.5, 2.5)
    each = 4 / SECONDS
    assert fleet_capacity(batcher) == pytest.approx(each * 8)
    assert own_capacity(batcher) == pytest.approx(each * 2.5)
    assert depth_limits(batcher, CapacityRules(warning=0.0)).warning == pytest.approx(2 * 4 * 2.5)


def test_a_zone_that_lends_leaves_the_others_the_rest_unless_it_would_be_late() -> None:
    batcher = zoned(3, 0)
    batcher.other_zones_lend(0.0, ours=1.5)
    assert (batcher.fleet.counted, batcher.fleet.own) == (1.5, 1.5)
    offer(batcher, ask(expires=10.0))
    batcher.step(0.0)
    assert batcher.wants_worker(0.0)
    batcher.worker_ready(home(0))
    assert sent(batcher.step(0.0)) == [1]
    lonely = ask(expires=10.0)
    offer(batcher, lonely)
    batcher.step(0.0)
    assert not batcher.wants_worker(0.0)
    offer(batcher, *(ask(expires=10.0) for _ in range(3)))
    batcher.step(0.0)
    assert batcher.wants_worker(0.0), "a full batch waits"
    batcher.withdraw(lonely)
    assert not batcher.wants_worker(0.0)
    batcher.worker_doubted(home(1))
    batcher.worker_doubted(home(2))
    offer(batcher, ask(expires=0.05))
    batcher.step(0.0)
    assert batcher.wants_worker(0.0), "it would be late otherwise"


def test_a_zone_that_has_lost_its_workers_counts_on_what_is_lent() -> None:
    batcher = zoned(0, 4, lent=2.0)
    assert (batcher.fleet.counted, batcher.fleet.reach) == (2.0, 2.0)
    assert not batcher.fleet.free_at_home
    expected = forecast(batcher, 0, 5.0)
    assert expected is not None
    assert expected.start == 5.0
    batcher.other_zones_lend(0.0)
    assert forecast(batcher, 0, 5.0) is None


def test_admission_lets_in_what_other_zones_can_do() -> None:
    alone, helped = zoned(1, 0), zoned(1, 3, lent=3.0)
    let_in = []
    for batcher in (alone, helped):
        admission = Admission(batcher, AdmissionRules(), CapacityRules())
        for number in count():  # noqa: B007
            request = ask(expires=1.0, deadline=2.0)
            if admission.refusal(request, 0.0) is not None:
                break
            batcher.offer(request, 0.0)
        let_in.append(number)
    assert 3 * let_in[0] < let_in[1]


def test_a_worker_abroad_that_rests_is_not_counted() -> None:
    batcher = zoned(1, 2)
    batcher.worker_ready(away(0))
    offer(batcher, ask(deadline=0.15))
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, REFUSED, 0.1)
    assert (batcher.fleet.healthy, batcher.fleet.everywhere) == (1, 2)
    assert [each.id for each in batcher.fleet.trusted] == [home(0)]
    batcher.worker_doubted(name)
    batcher.worker_doubted(away(1))
    assert (batcher.fleet.healthy, batcher.fleet.everywhere) == (1, 1)


def test_a_worker_does_not_move_while_it_is_counted() -> None:
    batcher = zoned(1, 0)
    batcher.worker_takes(home(0), one_at_a_time=False, abroad=True)
    assert batcher.fleet.healthy == 1


def test_when_the_home_is_free_is_told_without_those_abroad() -> None:
    batcher = zoned(1, 1, lent=1.0)
    batcher.worker_ready(away(0))
    offer(batcher, *(ask() for _ in range(4)))
    batcher.step(0.0)
    busy_at_home(batcher, 1, now=0.05)
    fleet, curve = batcher.fleet, batcher.curve
    assert fleet.next_free(curve, 0.06, at_home=True) == pytest.approx(0.05 + SECONDS)
    assert fleet.next_free(curve, 0.06) == pytest.approx(
        SECONDS
    )  # the one that was lent is the first to be done
    batcher.worker_doubted(home(0))
    assert fleet.next_free(curve, 0.06, at_home=True) == 0.06  # nothing is heard of it: it may be done
    finish(batcher, home(0), REFUSED, 0.07)
    assert fleet.next_free(curve, 0.08, at_home=True) is None


# ---- without zones ----------------------------------------------------------------------------


@given(
    workers=st.integers(0, 5),
    share=st.floats(0.0, 1.0),
    waiting=st.integers(0, 30),
    resting=st.booleans(),
)
def test_without_zones_all_counts_are_those_of_one_fleet(
    workers: int, share: float, waiting: int, resting: bool
) -> None:
    batcher = zoned(workers, 0)
    batcher.share = share
    if workers and resting:
        batcher.worker_ready(home(0))
        offer(batcher, ask(deadline=0.05))
        batcher.step(0.0)
        finish(batcher, home(0), REFUSED, 0.04)
    offer(batcher, *(ask(0.05) for _ in range(waiting)))
    batcher.step(0.05)
    fleet = batcher.fleet
    assert fleet.everywhere == fleet.healthy
    assert fleet.counted == fleet.reach == max((fleet.healthy or 1) * share, 0.01)
    assert fleet.own == fleet.healthy * share


# ---- always


@given(
    at_home=st.integers(0, 3),
    queue=st.integers(0, 40),
    limit=st.floats(0.01, 5.0),
    now=st.floats(0.0, 4.0),
)
def test_a_worker_abroad_is_wanted_only_if_the_home_cannot_do_it_in_time(
    at_home: int, queue: int, limit: float, now: float
) -> None:
    batcher = zoned(at_home, 2)
    busy_at_home(batcher, at_home)
    offer(batcher, *(ask(expires=limit) for _ in range(queue)))
    batcher.step(now)  # whoever is too late by now is answered
    wanted = batcher.wants_abroad(now)
    left = batcher.depth.total
    if not left:
        assert not wanted
    elif not at_home:
        assert wanted
    else:
        free = max(now, SECONDS)
        last = free + (left - 1) // 4 * SECONDS / at_home
        latest = limit * (1 - WAY)
        if abs(latest - free) > 1e-6 and abs(latest - last) > 1e-6:
            assert wanted == (max(free, last) > latest)
