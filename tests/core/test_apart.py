"""Tenants that spoil batches are set apart, for a while, with a part of the workers' time."""

import pytest
from core_kit import REFUSED, TIMED_OUT, ask, batcher_with, finish, offer, outputs, teach, worker

from penstock.core.admission import Admission
from penstock.core.aftermath import WORKER_LOST
from penstock.core.apart import (
    LEAST_FAIR,
    MOST_FAIR,
    MOST_KNOWN,
    OTHERS_ASK,
    RESTART,
    SET_APART,
    Apart,
    ApartLanes,
)
from penstock.core.batcher import Batcher
from penstock.core.capacity import CapacityRules
from penstock.core.culprit import Culprit
from penstock.core.estimator import ServiceCurve
from penstock.core.queued import Sealed
from penstock.core.refusal import SET_APART as REFUSAL
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.errors import Overloaded, Unacceptable
from penstock.types import Failure, Outcome, Reason, Result, WorkerId

GREEDY = BatchingRules(policy="greedy", max_batch=8)
SECONDS = 0.03


def apart_of(*culprits: Culprit, rules: BatchingRules = GREEDY) -> Apart:
    """With these set apart, and somebody else about."""
    apart = Apart(rules, ServiceCurve(rules.max_batch))
    convict(apart, *culprits)
    return apart


def convict(apart: Apart, *culprits: Culprit, now: float = 0.0) -> None:
    for who in culprits:
        apart._convict(who, now)
        apart._convict(who, now)
    for tenant in ("somebody", "somebody else"):
        apart.holds(ask(tenant=tenant), now)


def batcher_apart(*culprits: Culprit, workers: int = 2, rules: BatchingRules = GREEDY) -> Batcher:
    batcher = batcher_with(workers, rules)
    teach(batcher, SECONDS)
    batcher.parts.last_finish = 0.0
    convict(batcher.apart, *culprits)
    return batcher


def failed_again(*tenants: str) -> Sealed:
    return Sealed(1, "model", b"", [ask(tenant=tenant) for tenant in tenants], Reason.DUE, 0.0, retry=True)


def sent_by(batcher: Batcher, now: float) -> list[list[str]]:
    """The tenants in each batch that goes now."""
    return [[request.tenant for request in batch.requests] for _, batch in batcher.step(now).dispatches]


# ---- who is set apart ------------------------------------------------------------------------------------


def test_the_second_batch_that_a_tenant_spoils_sets_it_apart_and_time_lets_it_out() -> None:
    apart = apart_of()
    for now in (0.0, 1.0):
        apart.holds(ask(tenant="good"), now)
        assert not apart.holds(ask(tenant="bad"), now)
        apart.spoilt(failed_again("bad", "bad"), now)
    assert apart.holds(ask(tenant="bad"), 1.0)
    assert not apart.holds(ask(tenant="good"), 1.0)
    assert (apart.tenants(1.0), apart.tenants(60.0)) == (["bad"], [])
    assert not apart.holds(ask(tenant="bad"), 60.0)


def test_spoilt_batches_that_are_far_between_set_nobody_apart() -> None:
    apart = apart_of()
    for now in (0.0, 60.0, 120.0):
        apart.spoilt(failed_again("bad"), now)
        apart.holds(ask(tenant="good"), now)
        assert not apart.holds(ask(tenant="bad"), now)


def test_a_batch_counts_once_however_often_it_is_halved() -> None:
    apart = apart_of()
    batch = failed_again("bad", "bad")
    for _ in range(5):
        apart.spoilt(batch, 0.0)
    assert batch.charged
    assert apart.known["bad"].score(0.0) == 1.0


@pytest.mark.parametrize("retry", [False, True])
def test_a_batch_of_several_tenants_or_on_its_first_worker_tells_of_nobody(retry: bool) -> None:
    apart = apart_of()
    batch = failed_again("bad", "good") if retry else failed_again("bad", "bad")
    batch.retry = retry
    apart.spoilt(batch, 0.0)
    assert not apart.known


def test_nobody_is_set_apart_while_nobody_else_asks() -> None:
    apart = Apart(GREEDY, ServiceCurve(8))
    apart._convict("only", 0.0)
    apart._convict("only", 0.0)
    assert not apart.holds(ask(tenant="only"), 0.0)
    assert not apart.holds(ask(tenant="other"), 0.1)
    assert apart.holds(ask(tenant="only"), 0.2)
    assert not apart.holds(ask(tenant="only"), 0.2 + OTHERS_ASK)


def test_without_tenants_an_input_that_spoils_batches_is_set_apart() -> None:
    batcher = batcher_with(1, GREEDY)
    for now in (0.0, 1.0):
        batcher.apart.spoilt(Sealed(1, "model", b"", [ask(text=b'"bad"')], Reason.DUE, now, retry=True), now)
    batcher.apart.holds(ask(text=b'"good"'), 1.0)
    assert batcher.apart.holds(ask(text=b'"bad"'), 1.0)
    assert not batcher.apart.holds(ask(text=b'"good"'), 1.0)


def test_only_the_worst_few_are_known() -> None:
    apart = apart_of(*(f"t{n}" for n in range(MOST_KNOWN)))
    apart._convict("one more", 0.0)
    assert "one more" not in apart.known
    apart._convict("one more", 15.0)  # by now none of them counts for more
    assert len(apart.known) == MOST_KNOWN
    assert "one more" in apart.known


def test_what_is_forgotten_is_no_longer_asked_about() -> None:
    apart = apart_of("bad")
    assert apart.known["bad"].score(0.0) >= SET_APART
    apart.holds(ask(tenant="good"), 500.0)
    assert not apart.known


# ---- what becomes of their requests ----------------------------------------------------------------------


def test_they_share_no_batch_with_others_nor_with_each_other() -> None:
    batcher = batcher_apart("bad", "worse", workers=3)
    offer(batcher, *(ask(tenant=tenant) for tenant in ("good", "bad", "worse", "good", "bad")))
    assert batcher.waiting == 5
    batches, now = [], 0.0
    while batcher.waiting:
        effects = batcher.step(now)
        batches += [[request.tenant for request in batch.requests] for _, batch in effects.dispatches]
        for name, batch in effects.dispatches:
            finish(batcher, name, outputs(batch), now + SECONDS)
        now += SECONDS
    assert sorted(batches) == [["bad", "bad"], ["good", "good"], ["worse"]]


def test_who_is_set_apart_while_it_waits_is_taken_out_of_the_batch_that_is_sealed() -> None:
    batcher = batcher_apart(workers=0)
    waits = [ask(tenant=tenant) for tenant in ("bad", "good", "bad", "bad")]
    offer(batcher, *waits)
    convict(batcher.apart, "bad")
    batcher.worker_ready(worker(0))
    assert sent_by(batcher, 0.0) == [["good"]]
    assert batcher.apart.depth.total == 3
    assert batcher.withdraw(waits[0])
    assert batcher.apart.depth.total == 2


def test_where_all_that_waits_is_theirs_no_batch_is_sealed_for_the_others() -> None:
    batcher = batcher_apart(workers=0)
    offer(batcher, ask(tenant="bad"), ask(tenant="bad"))
    convict(batcher.apart, "bad")
    batcher.worker_ready(worker(0))
    ((_, batch),) = batcher.step(0.0).dispatches
    assert (batch.apart, batch.size, batcher.waiting) == (True, 2, 0)


def test_a_failed_batch_is_parted_from_those_that_are_set_apart_and_the_others_go_together() -> None:
    batcher = batcher_apart(workers=4)
    offer(batcher, *(ask(tenant=tenant) for tenant in ("a", "bad", "b", "worse", "c", "bad")))
    ((name, _),) = batcher.step(0.0).dispatches
    convict(batcher.apart, "bad", "worse")
    finish(batcher, name, REFUSED, SECONDS)
    first = sent_by(batcher, SECONDS)
    assert first[0] == ["a", "b", "c"]
    assert sorted(sent_by(batcher, 1.0) + first[1:]) == [["bad", "bad"], ["worse"]]


def test_of_a_failed_batch_that_is_all_theirs_nothing_is_left_for_the_others() -> None:
    batcher = batcher_apart()
    offer(batcher, ask(tenant="bad"), ask(tenant="bad"))
    ((name, batch),) = batcher.step(0.0).dispatches
    convict(batcher.apart, "bad")
    finish(batcher, name, Failure("BACKEND_FAILED", "no", "secret", splittable=True), SECONDS)
    assert batcher.delivery.waiting == 0
    assert batcher.apart.delivery.waiting == 2
    assert [attempt.details for request in batch.requests for attempt in request.history] == ["", ""]
    assert batcher.withdraw(batch.requests[0])
    assert batcher.apart.waiting == 1


def test_their_batches_become_smaller_with_failures_and_larger_with_successes() -> None:
    batcher = batcher_apart("bad", workers=1)
    sizes, now = [], 0.0
    for outcome in ("no", "no", "no", "no", "yes", "yes", "yes", "yes"):
        offer(batcher, *(ask(now, tenant="bad", deadline=30.0) for _ in range(8)))
        fresh = None
        while fresh is None:
            effects = batcher.step(now)
            for name, batch in effects.dispatches:
                if batch.retry:
                    finish(batcher, name, outputs(batch), now)
                else:
                    fresh = name, batch
            now += SECONDS
        sizes.append(fresh[1].size)
        finish(batcher, fresh[0], REFUSED if outcome == "no" else outputs(fresh[1]), now)
    assert sizes == [8, 4, 2, 1, 1, 2, 4, 8]


def test_a_culprit_that_was_forgotten_while_it_waited_has_full_batches() -> None:
    batcher = batcher_apart("bad", workers=0)
    offer(batcher, *(ask(tenant="bad") for _ in range(8)))
    batcher.apart.known.clear()
    batcher.worker_ready(worker(0))
    ((name, batch),) = batcher.step(0.0).dispatches
    assert batch.size == 8
    finish(batcher, name, outputs(batch), SECONDS)
    assert [reply.outcome for reply in batcher.step(SECONDS).replies] == [Outcome.SUCCESS] * 8


def test_a_worker_that_must_show_that_it_is_well_is_given_one_of_them_at_a_time() -> None:
    batcher = batcher_apart("bad", workers=1)
    batcher.fleet.workers[worker(0)].cooldown = 0.001
    offer(batcher, *(ask(tenant="bad") for _ in range(8)))
    assert sent_by(batcher, 0.0) == [["bad"]]


def test_what_they_fail_is_not_held_against_the_worker() -> None:
    batcher = batcher_apart("bad", workers=1)
    now = 0.0
    for _ in range(50):
        offer(batcher, ask(now, tenant="bad"))
        for name, _ in batcher.step(now).dispatches:
            finish(batcher, name, REFUSED, now + SECONDS)
        now += 1.0
    assert batcher.fleet.healthy == 1


def test_what_of_theirs_can_no_longer_make_it_is_answered() -> None:
    batcher = batcher_apart("bad", workers=0)
    offer(batcher, ask(tenant="bad", expires=0.5))
    wake = batcher.step(0.0).wake
    assert wake == pytest.approx(0.5, abs=0.01)
    assert [reply.outcome for reply in batcher.step(0.6).replies] == [Outcome.EXPIRED]
    assert batcher.waiting == 0


# ---- their part of the workers' time ---------------------------------------------------------------------


def test_their_part_is_what_the_others_leave_or_a_fair_one() -> None:
    apart = apart_of("bad")
    assert apart.share(0.0, 0) == 1.0
    assert apart.share(0.1, 1) == pytest.approx(0.8)
    assert apart.share(0.9, 0) == apart.share(0.9, 1) == MOST_FAIR
    assert apart.share(0.9, 4) == pytest.approx(0.2)
    assert apart.share(0.9, 1000) == LEAST_FAIR


def test_each_of_their_batches_pushes_the_next_one_back() -> None:
    """Two workers, and more than enough to do for both."""
    batcher = batcher_apart("bad", workers=2)
    running: dict[WorkerId, tuple[float, Sealed]] = {}
    sent, step = 0, SECONDS / 6
    for now in (number * step for number in range(600)):
        for name in [name for name, (end, _) in running.items() if end <= now]:
            _, batch = running.pop(name)
            finish(batcher, name, REFUSED if batch.apart else outputs(batch), now)
        offer(batcher, ask(now, tenant="bad"), *(ask(now, tenant="good") for _ in range(8)))
        for name, batch in batcher.step(now).dispatches:
            running[name] = now + SECONDS, batch
            sent += batch.apart
    assert 0.1 <= sent * SECONDS / (600 * step * 2 * MOST_FAIR) <= 1.05


def test_what_was_charged_while_the_others_needed_nearly_all_is_soon_worked_off_once_they_do_not() -> None:
    apart = apart_of("bad")
    apart.charge(2.0, LEAST_FAIR, 10.0)
    assert apart.free_at == pytest.approx(110.0)
    apart.renew(2.0, 20.0)  # for 10 s it was worked off by a fiftieth of a worker
    assert apart.free_at == pytest.approx(20.9)
    apart.renew(LEAST_FAIR, 30.0)
    assert apart.free_at == pytest.approx(20.9), "nothing is owed any more"


def test_they_are_let_in_to_workers_that_nobody_else_needs() -> None:
    batcher = batcher_apart("bad", workers=2)
    batcher.apart.charge(2.0, LEAST_FAIR, 0.0)
    request = ask(0.5, tenant="bad", expires=2.5, deadline=4.5)
    assert admission_of(batcher).refusal(request, 0.5) is None
    offer(batcher, request)
    assert batcher.apart.free_at == pytest.approx(
        1.495
    )  # two workers for what a fiftieth was to do until 100.0
    assert sent_by(batcher, 1.5) == [["bad"]]


def test_they_are_not_forgotten_while_the_others_take_every_worker() -> None:
    batcher = batcher_apart("bad", workers=1)
    offer(batcher, ask(tenant="bad"), *(ask(tenant="good") for _ in range(100)))
    batches: list[Sealed] = []
    now = 0.0
    while not any(batch.apart for batch in batches):
        for name, batch in batcher.step(now).dispatches:
            batches.append(batch)
            finish(batcher, name, outputs(batch), now + SECONDS)
        now += SECONDS
        assert now < 1.0
    assert len(batches) > 1, "the others come first"


@pytest.mark.parametrize(
    ("outcome", "least"), [(REFUSED, 0.0), (TIMED_OUT, 0.5), (WORKER_LOST, RESTART), (Result([]), 0.0)]
)
def test_what_takes_longer_than_it_should_or_costs_a_worker_counts_for_more(
    outcome: Failure | Result, least: float
) -> None:
    batcher = batcher_apart("bad", workers=1)
    offer(batcher, ask(tenant="bad"), ask(tenant="good"))
    batches = {batch.apart: name for name, batch in batcher.step(0.0).dispatches}
    while True not in batches:
        finish(batcher, worker(0), Result([b"1"]), SECONDS)
        batches = {batch.apart: name for name, batch in batcher.step(1.0).dispatches}
    took = 1.0 if outcome is TIMED_OUT else SECONDS
    finish(batcher, batches[True], outcome, 1.0 + took)
    assert batcher.apart.free_at >= 1.0 + least
    assert batcher.used_up(1.0 + took) > 0.0


def test_a_shared_fleet_is_asked_for_a_worker_for_them_when_their_time_has_come() -> None:
    batcher = Batcher(BatchingRules(policy="greedy", shared=True))
    convict(batcher.apart, "bad")
    batcher.worker_known(worker(0))
    offer(batcher, ask(tenant="bad"))
    batcher.apart.free_at = 1.0
    assert batcher.step(0.0).wake == 1.0
    assert not batcher.wants_worker(0.0)
    assert batcher.wants_worker(1.0)
    batcher.worker_ready(worker(0))
    assert batcher.spare(1.0) == []
    assert batcher.spare(0.0) == [worker(0)]


# ---- admission -------------------------------------------------------------------------------------------


def admission_of(batcher: Batcher, **limits: int) -> Admission:
    return Admission(batcher, AdmissionRules(**limits), CapacityRules())


def test_what_waits_of_theirs_keeps_nobody_else_out() -> None:
    batcher = batcher_apart("bad", workers=1)
    admission = admission_of(batcher)
    offer(batcher, *(ask(tenant="bad") for _ in range(5000)))
    assert isinstance(admission.refusal(ask(tenant="bad", expires=2.0, deadline=4.0), 0.0), Overloaded)
    assert admission.refusal_of_more(ask(tenant="bad", expires=2.0, deadline=4.0), 10**6, 0.0) is None
    assert admission.refusal(ask(tenant="good", expires=0.5, deadline=0.5), 0.0) is None


def test_they_are_refused_in_words_once_their_queue_is_too_long_for_the_deadline() -> None:
    batcher = batcher_apart("bad", workers=1)
    batcher.apart.known["bad"].size = 1
    admission, let_in = admission_of(batcher), 0
    while (
        refused := admission.refusal(request := ask(tenant="bad", expires=2.0, deadline=4.0), 0.0)
    ) is None:
        offer(batcher, request)
        let_in += 1
    assert (type(refused), refused.message) == (Overloaded, REFUSAL)
    assert refused.retry_after is not None
    assert refused.retry_after > 0.0
    assert 1 < let_in <= 2.0 / SECONDS


def test_they_may_fill_a_small_part_of_the_queue() -> None:
    batcher = batcher_apart("bad", workers=1)
    offer(batcher, *(ask(tenant="bad") for _ in range(5)))
    more = ask(tenant="bad", expires=900.0, deadline=900.0)
    assert admission_of(batcher, max_queue=200).refusal(more, 0.0) is None
    assert admission_of(batcher, max_queue=100).refusal(more, 0.0) is not None
    assert admission_of(batcher, max_queue_bytes=360).refusal(more, 0.0) is None
    assert admission_of(batcher, max_queue_bytes=340).refusal(more, 0.0) is not None


def test_the_other_limits_hold_for_them_too() -> None:
    batcher = batcher_apart("bad", rules=BatchingRules(max_cost=5.0, max_lanes=1))
    admission = admission_of(batcher)
    assert isinstance(admission.refusal(ask(tenant="bad", cost=6.0), 0.0), Unacceptable)
    offer(batcher, ask(tenant="bad"))
    assert admission.refusal(ask(tenant="bad"), 0.0) is None
    assert isinstance(admission.refusal(ask(tenant="bad", parameters=b"{}"), 0.0), Overloaded)


def test_lanes_of_one_culprit_differ_as_those_of_everybody_do() -> None:
    rules = BatchingRules(group_lengths=True)
    lanes = ApartLanes(rules, apart_of().depth, ServiceCurve(8))
    keys = {
        lanes.key_of(request)
        for request in (
            ask(tenant="bad"),
            ask(tenant="bad", parameters=b"{}"),
            ask(tenant="bad", length=100),
            ask(tenant="worse"),
        )
    }
    assert len(keys) == 4


def test_retries_leave_less_room_at_the_door() -> None:
    """Halving takes time of the workers that new requests do not have."""
    batcher = batcher_apart(workers=1)
    admission = admission_of(batcher)
    offer(batcher, *(ask() for _ in range(400)))
    more = ask(expires=2.0, deadline=4.0)
    assert admission.refusal(more, 0.0) is None
    batcher.parts.used_up.add(0.0, 0.9)
    batcher.changes += 1
    assert isinstance(admission.refusal(more, 0.0), Overloaded)
