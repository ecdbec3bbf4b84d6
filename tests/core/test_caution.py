"""What may end its worker does not take the last one that is well, and has its turn all the same."""

from math import inf

import pytest
from core_kit import CRASHED, REFUSED, TIMED_OUT, ask, batcher_with, finish, offer, outputs, teach, worker

from penstock.core.batcher import Batcher
from penstock.core.caution import HOLD, UNSURE, splits
from penstock.core.queued import Sealed
from penstock.core.rules import BatchingRules
from penstock.types import Failure, Outcome, Reason, Seconds, WorkerId

GREEDY = BatchingRules(policy="greedy", max_batch=8)
SHARED = BatchingRules(policy="greedy", max_batch=8, shared=True)
SECONDS, SOON, LATER = 0.01, 0.2, 60.0
ENDS = b'"ends its worker"'
FIRST, SECOND = worker(0), worker(1)


def taught(workers: int, rules: BatchingRules = GREEDY) -> Batcher:
    batcher = batcher_with(workers, rules)
    teach(batcher, SECONDS)
    return batcher


def lose(
    batcher: Batcher, name: WorkerId, now: Seconds, back: Seconds | None, how: Failure = CRASHED
) -> None:
    """Its word on the batch in hand, and then that it is gone."""
    finish(batcher, name, how, now)
    batcher.worker_gone(name, now, back)


def one_of_two_is_lost(
    back: Seconds | None = SOON, how: Failure = CRASHED, deadline: Seconds = 4.0
) -> Batcher:
    """At 0.0, with a request alone in hand."""
    batcher = taught(2)
    offer(batcher, ask(deadline=deadline, tenant="bad"))
    assert [name for name, _ in batcher.step(0.0).dispatches] == [FIRST]
    lose(batcher, FIRST, 0.0, back, how)
    return batcher


def sent_at(batcher: Batcher, now: Seconds) -> list[tuple[WorkerId, str]]:
    return [(name, batch.requests[0].tenant) for name, batch in batcher.step(now).dispatches]


def woken_until_sent(batcher: Batcher) -> Seconds:
    """When a batch goes, if nothing happens but that the batcher is woken when it wants."""
    now = 0.0
    while not (effects := batcher.step(now)).dispatches:
        assert effects.wake is not None
        now = effects.wake
    return now


# ---- a request that was in hand when a worker was lost ---------------------------------------------------


@pytest.mark.parametrize("how", [CRASHED, TIMED_OUT])
def test_it_waits_until_the_lost_worker_is_back_and_the_other_serves_the_others(how: Failure) -> None:
    batcher = one_of_two_is_lost(how=how)
    assert sent_at(batcher, 0.1) == []
    offer(batcher, ask(0.1, tenant="good"))
    assert sent_at(batcher, 0.1) == [(SECOND, "good")]
    batcher.worker_ready(FIRST)
    finish(batcher, SECOND, outputs(batcher.fleet.workers[SECOND].batch or pytest.fail("it has none")), 0.2)
    assert sent_at(batcher, 0.2) == [(SECOND, "bad")]


def test_with_one_worker_alone_it_goes_when_that_is_back() -> None:
    batcher = taught(1)
    offer(batcher, ask())
    batcher.step(0.0)
    lose(batcher, FIRST, 0.0, SOON)
    assert sent_at(batcher, 0.1) == []
    batcher.worker_ready(FIRST)
    assert len(sent_at(batcher, SOON)) == 1


def test_with_a_third_worker_it_goes_without_waiting() -> None:
    batcher = taught(3)
    offer(batcher, ask(tenant="bad"))
    batcher.step(0.0)
    lose(batcher, FIRST, 0.0, SOON)
    assert sent_at(batcher, 0.1) == [(SECOND, "bad")]


def test_it_does_not_wait_for_a_worker_that_is_not_expected_in_time() -> None:
    assert sent_at(one_of_two_is_lost(back=LATER), 0.1) == [(SECOND, "bad")]


def test_it_does_not_wait_for_a_worker_that_loads() -> None:
    batcher = one_of_two_is_lost()
    batcher.worker_loading(FIRST, 0.0, None)
    assert sent_at(batcher, 0.1) == [(SECOND, "bad")]


@pytest.mark.parametrize(
    ("back", "deadline", "longest"), [(None, 10.0, HOLD), (None, 0.4, 0.2), (0.1, 4.0, 2.0)]
)
def test_it_waits_for_half_of_its_time_at_most_and_for_a_second_if_nobody_knows(
    back: Seconds | None, deadline: Seconds, longest: Seconds
) -> None:
    batcher = one_of_two_is_lost(back=back, deadline=deadline)
    (retry,) = batcher.delivery._retries.values()
    waited = woken_until_sent(batcher) - retry.start
    assert 0.5 * longest < waited <= longest


def test_halves_go_one_at_a_time_so_that_one_worker_stays_well() -> None:
    batcher = taught(2)
    offer(batcher, *(ask(tenant="ab"[number % 2]) for number in range(8)))
    batcher.step(0.0)
    lose(batcher, FIRST, 0.0, SOON)
    batcher.worker_ready(FIRST)
    assert sent_at(batcher, 0.1) == [(SECOND, "a")]
    assert sent_at(batcher, 0.11) == []
    (half,) = [each.batch for each in batcher.fleet.workers.values() if each.batch is not None]
    finish(batcher, SECOND, outputs(half), 0.12)
    assert sent_at(batcher, 0.12) == [(SECOND, "b")]


def test_what_a_process_had_in_hand_that_left_the_fleet_is_not_feared() -> None:
    batcher = taught(3)
    offer(batcher, ask(tenant="good"))
    batcher.step(0.0)
    batcher.worker_gone(worker(2), 0.0)
    batcher.worker_removed(FIRST, 0.0)
    assert sent_at(batcher, 0.1) == [(SECOND, "good")]


@pytest.mark.parametrize(
    ("size", "suspect", "times"), [(1, False, 0), (32, False, 5), (1, True, 0), (8, True, 1), (9, True, 2)]
)
def test_how_often_a_batch_may_be_split(size: int, suspect: bool, times: int) -> None:
    batch = Sealed(1, "model", b"", [ask() for _ in range(size)], Reason.DUE, 0.0, suspect=suspect)
    assert splits(batch) == times


@pytest.mark.parametrize("place", [0, 5, 31, 40, 63])
@pytest.mark.parametrize(
    ("workers", "seconds", "restart"),
    [
        (2, 0.02, 0.2),
        (2, 0.02, 1.0),
        (2, 0.1, 0.5),
        (2, 0.1, 1.0),
        (2, 0.2, 0.2),
        (2, 0.2, 0.5),
        (3, 0.2, 1.0),
    ],
)
def test_who_shared_a_batch_with_what_ends_workers_is_answered_at_the_defaults(
    workers: int, seconds: Seconds, restart: Seconds, place: int
) -> None:
    batcher = batcher_with(workers, BatchingRules(policy="greedy"))
    teach(batcher, seconds, size=64)
    texts = [ENDS if number == place else b'"good"' for number in range(64)]
    offer(batcher, *(ask(expires=2.0, deadline=4.0, text=text) for text in texts))
    served, _ = play(batcher, seconds, restart)
    assert served == 63


def test_a_worker_is_there_for_the_others_all_the_time_that_an_input_is_searched_which_ends_workers() -> None:
    batcher = batcher_with(2, BatchingRules(policy="greedy"))
    teach(batcher, 0.02, size=64)
    offer(batcher, *(ask(deadline=4.0, text=ENDS if number == 40 else b'"good"') for number in range(64)))
    assert play(batcher, 0.02, SOON) == (63, 1)


def play(batcher: Batcher, seconds: Seconds, restart: Seconds) -> tuple[int, int]:
    """Run until nothing is left; one input ends its worker each time. How many were served in time, and how many
    workers there were at the worst."""
    running: dict[WorkerId, tuple[Seconds, Sealed]] = {}
    back: dict[WorkerId, Seconds] = {}
    now, served, fewest = 0.0, 0, len(batcher.fleet.workers)
    while True:
        effects = batcher.step(now)
        served += sum(
            reply.outcome is Outcome.SUCCESS and now <= reply.request.deadline for reply in effects.replies
        )
        running |= {name: (now + seconds, batch) for name, batch in effects.dispatches}
        fewest = min(fewest, batcher.fleet.healthy)
        ends = [done for done, _ in running.values()]
        now = min([*ends, *back.values(), inf if effects.wake is None else effects.wake])
        if now == inf:
            return served, fewest
        for name in [name for name, (done, _) in running.items() if done <= now]:
            _, batch = running.pop(name)
            if any(request.input == ENDS for request in batch.requests):
                back[name] = now + restart
                lose(batcher, name, now, back[name])
            else:
                finish(batcher, name, outputs(batch), now)
        for name in [name for name, then in back.items() if then <= now]:
            del back[name]
            batcher.worker_ready(name)


# ---- a tenant that is set apart for that -----------------------------------------------------------------


def feared_beside(rules: BatchingRules = GREEDY, *, feared: bool = True, workers: int = 2) -> Batcher:
    """With a tenant set apart, for ending workers or for less."""
    batcher = taught(workers, rules)
    fear(batcher, feared=feared)
    return batcher


def fear(batcher: Batcher, *, feared: bool = True, now: Seconds = 0.0) -> None:
    for _ in range(2):
        batcher.apart._convict("bad", now, feared=feared)
    for tenant in ("good", "other"):  # nobody is set apart while nobody else asks
        batcher.apart.holds(ask(tenant=tenant), now)


def test_its_first_try_does_not_take_the_last_worker_either_and_it_is_answered_in_time() -> None:
    batcher = feared_beside()
    batcher.worker_gone(FIRST, 0.0, LATER)
    request = ask(tenant="bad", expires=2.0, deadline=4.0)
    offer(batcher, request)
    effects = batcher.step(0.0)
    assert effects.dispatches == []
    assert effects.wake is not None
    assert [reply.request for reply in batcher.step(effects.wake).replies] == [request]


def test_it_goes_while_another_is_well_and_only_one_of_its_batches_at_a_time() -> None:
    batcher = feared_beside()
    batcher.apart.known["bad"].size = 1
    offer(batcher, ask(tenant="bad"), ask(tenant="bad"))
    assert [tenant for _, tenant in sent_at(batcher, 0.0)] == ["bad"]
    assert sent_at(batcher, 1.0) == []
    offer(batcher, ask(1.0, tenant="good"))
    assert [tenant for _, tenant in sent_at(batcher, 1.0)] == ["good"]


@pytest.mark.parametrize(("feared", "workers"), [(False, 2), (True, 1)])
def test_one_that_only_spoils_batches_or_has_the_only_worker_does_not_wait(
    feared: bool, workers: int
) -> None:
    batcher = feared_beside(feared=feared, workers=workers)
    if workers > 1:
        batcher.worker_gone(FIRST, 0.0, LATER)
    offer(batcher, ask(tenant="bad"))
    assert [tenant for _, tenant in sent_at(batcher, 0.0)] == ["bad"]


def test_the_only_worker_of_a_zone_is_the_only_one_whatever_other_zones_have() -> None:
    batcher = feared_beside(workers=1)
    batcher.worker_takes(SECOND, one_at_a_time=True, abroad=True)
    batcher.worker_ready(SECOND)
    offer(batcher, ask(tenant="bad"))
    assert sent_at(batcher, 0.0) == [(FIRST, "bad")]


def test_one_that_is_not_feared_does_not_wait_for_one_that_is() -> None:
    batcher = feared_beside()
    for _ in range(2):
        batcher.apart._convict("spoiler", 0.0)
    batcher.worker_gone(FIRST, 0.0, LATER)
    offer(batcher, ask(tenant="bad"), ask(tenant="spoiler"))
    assert sent_at(batcher, 0.0) == [(SECOND, "spoiler")]


def test_what_it_has_tried_before_waits_until_its_deadline_rather_than_take_the_last_worker() -> None:
    batcher = feared_beside()
    request = ask(tenant="bad", deadline=4.0)
    offer(batcher, request)
    ((name, _),) = batcher.step(0.0).dispatches
    lose(batcher, name, 0.0, LATER)
    now = 0.0
    while not (effects := batcher.step(now)).replies:
        assert effects.dispatches == []
        assert effects.wake is not None
        now = effects.wake
    assert [(reply.request, reply.failure) for reply in effects.replies] == [(request, CRASHED)]
    assert now > 2 * HOLD


def test_what_waits_of_it_from_before_it_was_set_apart_does_not_take_the_last_worker_either() -> None:
    batcher = one_of_two_is_lost(back=None, deadline=10.0)
    fear(batcher)
    assert sent_at(batcher, 2 * HOLD) == []
    batcher.worker_ready(FIRST)
    assert sent_at(batcher, 2 * HOLD) == [(SECOND, "bad")]


def test_what_hangs_of_those_who_are_set_apart_opens_no_breaker_and_gives_nobody_more_time() -> None:
    batcher = feared_beside(workers=1)
    for now in (0.0, 10.0, 20.0, 30.0):
        fear(batcher, now=now)
        offer(batcher, ask(now, tenant="bad", deadline=1.0))
        assert len(batcher.step(now).dispatches) == 1
        finish(batcher, FIRST, TIMED_OUT, now + 1.0)
        batcher.step(now + 1.0)
    assert (batcher.fleet.healthy, batcher.parts.batch_limits.in_a_row) == (1, 0)


def test_who_shared_a_batch_with_it_goes_at_once() -> None:
    batcher = taught(2)
    offer(batcher, ask(tenant="bad"), ask(tenant="good"))
    ((name, _),) = batcher.step(0.0).dispatches
    fear(batcher)
    lose(batcher, name, 0.0, SOON)
    assert [tenant for _, tenant in sent_at(batcher, 0.0)] == ["good"]


def test_it_is_feared_once_workers_were_lost_with_what_it_alone_had_sent_and_not_for_ever() -> None:
    apart = taught(2).apart
    for how in (REFUSED, CRASHED):
        for now in (0.0, 1.0):
            batch = Sealed(
                1, "model", b"", [ask(tenant=how.code)], Reason.DUE, now, retry=True, risky=how is CRASHED
            )
            apart.spoilt(batch, now)
    assert not apart.is_feared(REFUSED.code, 1.0)
    assert apart.is_feared(CRASHED.code, 1.0)
    assert apart.is_feared(CRASHED.code, 10.0)
    assert not apart.is_feared(CRASHED.code, 20.0)


# ---- workers that are shared -----------------------------------------------------------------------------


def one_of_two_shared_is_lost(*, credit_first: bool = False) -> Batcher:
    """Its slot has told that its process died; nobody has told when it is back."""
    batcher = taught(1, SHARED)
    batcher.worker_known(SECOND)
    offer(batcher, ask(tenant="bad", deadline=4.0))
    batcher.step(0.0)
    if credit_first:
        batcher.worker_ready(FIRST)
    finish(batcher, FIRST, CRASHED, 0.0)
    return batcher


def test_of_a_shared_fleet_it_takes_no_credit_until_the_lost_worker_has_had_time_to_come_back() -> None:
    batcher = one_of_two_shared_is_lost()
    assert batcher.step(0.1).wake == UNSURE
    assert not batcher.wants_worker(0.1)
    batcher.worker_ready(SECOND)
    assert batcher.step(0.1).dispatches == []
    assert batcher.spare(0.1) == [SECOND]
    assert batcher.wants_worker(UNSURE)
    assert sent_at(batcher, UNSURE) == [(SECOND, "bad")]


def test_a_shared_worker_whose_credit_comes_is_back() -> None:
    batcher = one_of_two_shared_is_lost()
    batcher.worker_ready(SECOND)
    assert sent_at(batcher, 0.1) == []
    batcher.worker_ready(FIRST)
    assert sent_at(batcher, 0.1) == [(SECOND, "bad")]


def test_a_credit_that_overtakes_the_word_of_a_loss_tells_that_the_worker_is_back() -> None:
    batcher = one_of_two_shared_is_lost(credit_first=True)
    assert batcher.wants_worker(0.1)


def test_a_feared_tenant_asks_for_no_shared_worker_while_only_one_is_sure() -> None:
    batcher = feared_beside(SHARED, workers=1)
    batcher.worker_known(SECOND)
    offer(batcher, ask(tenant="bad"))
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, CRASHED, 0.0)
    batcher.apart.free_at = 0.0
    offer(batcher, ask(tenant="bad"))
    assert batcher.step(0.1).wake == UNSURE
    assert not batcher.wants_worker(0.1)
    assert batcher.wants_worker(UNSURE)
