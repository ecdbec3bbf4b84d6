"""Workers that several batchers share: credits, shares, and what may be expected."""

from dataclasses import replace

import pytest
from core_kit import AWAY, REFUSED, TIMED_OUT, ask, finish, offer, outputs, sent, teach, worker

from penstock.core.ahead import ASKED
from penstock.core.batcher import Batcher
from penstock.core.forecast import forecast
from penstock.core.parts import DOUBT
from penstock.core.refusal import AdmissionRules, refusal
from penstock.core.rules import BatchingRules
from penstock.core.sealing import INSIST
from penstock.types import Outcome, Result, Rung, WarmUp

SHARED = BatchingRules(policy="greedy", max_batch=4, shared=True, breaker_failures=3, breaker_cooldown=1.0)


def batcher_that_knows(workers: int, rules: BatchingRules = SHARED) -> Batcher:
    batcher = Batcher(rules)
    for number in range(workers):
        batcher.worker_known(worker(number))
    return batcher


def test_a_worker_that_is_known_is_healthy_and_takes_nothing_before_its_credit_is_held() -> None:
    batcher = batcher_that_knows(2)
    assert (batcher.fleet.healthy, batcher.fleet.idle) == (2, 0)
    assert not batcher.wants_worker(0.0)
    offer(batcher, ask())
    assert sent(batcher.step(0.0)) == []
    assert batcher.wants_worker(0.0)
    batcher.worker_ready(worker(1))
    assert not batcher.wants_worker(0.0)
    assert [name for name, _ in batcher.step(0.0).dispatches] == [worker(1)]


def test_a_worker_of_which_nothing_is_heard_is_not_counted_on_and_may_yet_finish_what_it_has() -> None:
    batcher = batcher_that_knows(2)
    batcher.worker_ready(worker(0))
    offer(batcher, ask())
    ((name, batch),) = batcher.step(0.0).dispatches
    batcher.worker_doubted(name)
    batcher.worker_doubted(worker(1))
    assert (batcher.fleet.healthy, batcher.fleet.busy) == (0, 1)
    assert forecast(batcher, 0, 0.0) is not None, "it may be done at any moment"
    finish(batcher, name, outputs(batch), 0.1)
    assert [reply.outcome for reply in batcher.step(0.1).replies] == [Outcome.SUCCESS]
    assert forecast(batcher, 0, 0.1) is None
    batcher.worker_known(name)
    assert batcher.fleet.healthy == 1


def test_what_a_worker_of_which_nothing_was_heard_had_in_hand_is_another_s_once_it_is_gone() -> None:
    batcher = batcher_that_knows(2)
    batcher.worker_ready(worker(0))
    offer(batcher, ask())
    batcher.step(0.0)
    batcher.worker_doubted(worker(0))
    batcher.worker_removed(worker(0), 1.0)
    batcher.worker_ready(worker(1))
    assert [name for name, _ in batcher.step(2.0).dispatches] == [worker(1)]


def test_a_worker_that_has_finished_is_away_until_its_credit_is_taken_anew() -> None:
    batcher = batcher_that_knows(1)
    for now in (0.0, 1.0):
        batcher.worker_ready(worker(0))
        offer(batcher, ask(now))
        ((name, batch),) = batcher.step(now).dispatches
        finish(batcher, name, outputs(batch), now + 0.1)
        assert (batcher.fleet.healthy, batcher.fleet.idle, batcher.fleet.busy) == (1, 0, 0)


def test_a_credit_that_overtakes_the_word_of_the_last_batch_is_not_lost() -> None:
    batcher = batcher_that_knows(1)
    batcher.worker_ready(worker(0))
    offer(batcher, ask())
    ((name, batch),) = batcher.step(0.0).dispatches
    batcher.worker_ready(name)
    offer(batcher, ask(0.1))
    assert sent(batcher.step(0.1)) == [], "as far as is known here it is busy"
    finish(batcher, name, outputs(batch), 0.1)
    assert sent(batcher.step(0.1)) == [1]


def test_the_word_on_another_batch_than_the_one_in_hand_is_ignored() -> None:
    batcher = batcher_that_knows(1)
    batcher.worker_ready(worker(0))
    offer(batcher, ask())
    ((name, batch),) = batcher.step(0.0).dispatches
    batcher.finished(name, batch.id + 1, REFUSED, 0.1)
    assert batcher.fleet.busy == 1
    batcher.finished(name, batch.id, outputs(batch), 0.1)
    assert [reply.outcome for reply in batcher.step(0.1).replies] == [Outcome.SUCCESS]


@pytest.mark.parametrize("delivered", [1, 2, 3])
def test_what_the_worker_has_delivered_itself_is_counted_and_not_sent_again(delivered: int) -> None:
    batcher = batcher_that_knows(1)
    batcher.worker_ready(worker(0))
    offer(batcher, ask(), ask())
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, Result(delivered=delivered), 0.1)
    replies = batcher.step(0.1).replies
    expected = [(Outcome.SUCCESS, b"")] * 2 if delivered == 2 else []
    assert [(reply.outcome, reply.output) for reply in replies] == expected
    assert batcher.waiting == (0 if delivered == 2 else 2)


def test_a_credit_that_was_given_back_is_used_no_more() -> None:
    batcher = batcher_that_knows(1)
    batcher.worker_ready(worker(0))
    assert batcher.spare(0.0) == [worker(0)]
    batcher.worker_lent(worker(0))
    batcher.worker_lent(worker(7))  # of one that is gone by now
    assert (batcher.spare(0.0), batcher.fleet.healthy) == ([], 1)
    offer(batcher, ask())
    assert sent(batcher.step(0.0)) == []
    assert batcher.wants_worker(0.0)


def test_a_credit_is_spare_only_while_nothing_waits_for_it() -> None:
    batcher = batcher_that_knows(1, BatchingRules(policy="window", shared=True))
    batcher.worker_ready(worker(0))
    offer(batcher, ask())
    batcher.step(0.0)
    assert batcher.spare(0.0) == []


def test_a_worker_whose_breaker_is_open_is_sent_nothing_and_not_kept() -> None:
    batcher = batcher_that_knows(2)
    batcher.worker_ready(worker(0))
    offer(batcher, ask())
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, TIMED_OUT, 0.1)
    batcher.step(0.1)
    assert batcher.fleet.healthy == 1
    batcher.worker_ready(name)  # it was taken before it was known to fail
    assert sent(batcher.step(0.2)) == []
    assert batcher.wants_worker(0.2)
    assert batcher.spare(0.2) == [name]
    batcher.worker_lent(name)
    assert batcher.spare(0.2) == []


def test_after_its_cool_down_a_shared_worker_is_healthy_and_takes_one_request() -> None:
    batcher = batcher_that_knows(1)
    batcher.worker_ready(worker(0))
    offer(batcher, *(ask() for _ in range(4)))
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, TIMED_OUT, 0.1)
    wake = batcher.step(0.1).wake
    assert wake is not None
    while wake < 1.1:
        wake = batcher.step(wake).wake
        assert wake is not None
    batcher.step(1.1)
    assert batcher.fleet.healthy == 1
    batcher.worker_ready(name)
    assert sent(batcher.step(1.2)) == [1]


def test_a_retry_asks_for_another_worker_and_takes_the_same_when_none_comes() -> None:
    batcher = batcher_that_knows(2)
    batcher.worker_ready(worker(0))
    offer(batcher, ask(), ask())
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, REFUSED, 0.1)
    batcher.worker_ready(name)
    effects = batcher.step(0.1)
    assert sent(effects) == []
    assert batcher.wants_worker(0.1)
    assert batcher.spare(0.1) == []
    assert effects.wake is not None
    assert effects.wake == pytest.approx(0.1 + INSIST)
    assert sent(batcher.step(effects.wake)) == [1]


def test_a_retry_that_may_not_go_yet_wants_no_worker() -> None:
    batcher = batcher_that_knows(1)
    batcher.worker_ready(worker(0))
    offer(batcher, ask())
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, AWAY, 0.1)
    wake = batcher.step(0.1).wake
    assert not batcher.wants_worker(0.1)
    assert wake is not None
    batcher.step(wake)
    assert batcher.wants_worker(wake)


def test_a_batcher_counts_on_its_share_of_the_workers() -> None:
    batcher = batcher_that_knows(6)
    teach(batcher, 0.1, size=4)
    whole = forecast(batcher, 0, 0.0)
    batcher.share = 0.5
    half = forecast(batcher, 0, 0.0)
    assert batcher.share == 0.5
    batcher.share = 0.0
    least = forecast(batcher, 0, 0.0)
    assert whole is not None
    assert half is not None
    assert least is not None
    assert whole.drain_rate == pytest.approx(240.0)
    assert half.drain_rate == pytest.approx(120.0)
    assert least.drain_rate == pytest.approx(0.4)


def test_a_worker_can_be_expected_at_once_while_fewer_than_its_share_are_busy() -> None:
    batcher = batcher_that_knows(4)
    batcher.share = 0.5
    teach(batcher, 0.1, size=4)
    starts = []
    for number in range(3):
        expected = forecast(batcher, 0, 0.01)
        assert expected is not None
        starts.append(expected.start)
        batcher.worker_ready(worker(number))
        offer(batcher, *(ask() for _ in range(4)))
        assert sent(batcher.step(0.0)) == [4]
    assert starts == pytest.approx([0.01, 0.01, 0.1])


def test_without_a_healthy_worker_nobody_is_let_in() -> None:
    batcher = batcher_that_knows(1)
    assert refusal(batcher, AdmissionRules(), ask(), 0.0) is None
    batcher.worker_gone(worker(0), 0.0)
    assert refusal(batcher, AdmissionRules(), ask(), 0.0) is not None


def test_one_slow_batch_does_not_shut_everybody_out_of_a_shared_fleet() -> None:
    """Nothing waits then, so no credit is held: that must not keep what was learned from being doubted."""
    batcher = batcher_that_knows(2)
    batcher.worker_ready(worker(0))
    offer(batcher, ask(deadline=9.0))
    ((name, batch),) = batcher.step(0.0).dispatches
    finish(batcher, name, outputs(batch), 2.0)
    batcher.step(2.0)
    assert refusal(batcher, AdmissionRules(), ask(2.1, deadline=1.0), 2.1) is not None
    later = 2.0 + DOUBT + 0.01
    request = ask(later, deadline=1.0)
    assert refusal(batcher, AdmissionRules(), request, later) is None
    offer(batcher, request)
    assert batcher.step(later).replies == []
    batcher.worker_ready(worker(1))
    assert sent(batcher.step(later)) == [1]


def test_a_worker_that_was_lost_has_taken_its_credit_along() -> None:
    batcher = batcher_that_knows(1)
    batcher.worker_ready(worker(0))
    batcher.worker_gone(worker(0), 0.0)
    batcher.worker_known(worker(0))
    assert (batcher.fleet.healthy, batcher.fleet.idle) == (1, 0)


def full_and_waiting(batcher: Batcher, workers: int) -> None:
    """So many workers run full batches of ours since 0, and another full one waits for each."""
    for number in range(workers):
        rung = Rung(4, 0.1, (0.1,) * 10)
        batcher.worker_warmed(worker(number), WarmUp((rung,), real=True), 0.0)
        batcher.worker_ready(worker(number))
    offer(batcher, *(ask() for _ in range(8 * workers)))
    assert sent(batcher.step(0.0)) == [4] * workers


def test_a_worker_of_ours_is_handed_a_full_batch_ahead_and_needs_no_credit_for_it() -> None:
    batcher = batcher_that_knows(1, replace(SHARED, ahead=True))
    full_and_waiting(batcher, 1)
    ((name, batch),) = batcher.step(0.09).ahead
    assert (name, batch.size) == (worker(0), 4)
    finish(batcher, name, Result(delivered=4), 0.1)
    assert [each.id for _, each in batcher.step(0.1).dispatches] == [batch.id]
    finish(batcher, name, Result(delivered=4), 0.2)
    batcher.step(0.2)
    assert batcher.fleet.idle == 0


def test_a_credit_that_is_heard_before_the_ends_of_both_batches_is_good() -> None:
    """Credits and ends come by different ways. Without its credit, the worker would be idle for a second."""
    batcher = batcher_that_knows(1, replace(SHARED, ahead=True))
    full_and_waiting(batcher, 1)
    ((name, _),) = batcher.step(0.09).ahead
    batcher.worker_ready(worker(0))  # it has run both
    finish(batcher, name, Result(delivered=4), 0.1)
    batcher.step(0.1)
    finish(batcher, name, Result(delivered=4), 0.1)
    batcher.step(0.1)
    assert batcher.fleet.idle == 1


def test_what_is_handed_ahead_leaves_the_others_their_share_of_the_workers() -> None:
    batcher = batcher_that_knows(2, replace(SHARED, ahead=True))
    full_and_waiting(batcher, 2)
    batcher.share = 0.25
    assert len(batcher.step(0.09).ahead) == 0
    batcher.share = 0.5
    assert len(batcher.step(0.09).ahead) == 1, "the other worker is the other batcher's, if that wants it"
    batcher.share = 1.0
    assert len(batcher.step(0.09).ahead) == 1


def test_nothing_goes_ahead_while_a_worker_can_be_expected_to_be_idle_at_once() -> None:
    batcher = batcher_that_knows(3, replace(SHARED, ahead=True))
    full_and_waiting(batcher, 2)
    assert batcher.step(0.09).ahead == [], "one of the two batches is the third worker's"
    offer(batcher, *(ask(0.09) for _ in range(4)))
    assert (len(batcher.step(0.09).ahead), batcher.waiting) == (2, 4)


def test_before_anything_goes_ahead_an_idle_worker_has_had_the_time_to_come() -> None:
    batcher = batcher_that_knows(2, replace(SHARED, ahead=True))
    full_and_waiting(batcher, 1)
    batcher.share = 0.5
    finish(batcher, worker(0), Result(delivered=4), 0.1)
    batcher.worker_ready(worker(0))
    assert sent(batcher.step(0.1)) == [4]
    offer(batcher, *(ask(0.19) for _ in range(4)))
    effects = batcher.step(0.19)
    assert effects.ahead == []
    assert effects.wake == pytest.approx(0.19 + ASKED)
    assert batcher.wants_worker(0.19)
    batcher.worker_ready(worker(1))
    assert [name for name, _ in batcher.step(0.191).dispatches] == [worker(1)]


def test_a_worker_that_takes_one_batch_at_a_time_is_handed_none_ahead() -> None:
    batcher = batcher_that_knows(1, replace(SHARED, ahead=True))
    batcher.worker_takes(worker(0), one_at_a_time=True)
    full_and_waiting(batcher, 1)
    assert batcher.step(0.09).ahead == []
    batcher.worker_takes(worker(0), one_at_a_time=False)
    assert len(batcher.step(0.09).ahead) == 1
