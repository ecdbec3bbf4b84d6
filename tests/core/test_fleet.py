"""Who is idle, who is trusted."""

from dataclasses import replace

import pytest
from core_kit import REFUSED, TIMED_OUT, ask, batcher_with, finish, offer, outputs, sent, worker

from penstock.core.batcher import Batcher
from penstock.core.fleet import LONGEST_COOLDOWN, Fleet
from penstock.core.queued import Sealed
from penstock.core.rules import BatchingRules
from penstock.types import Failure, Reason, Seconds

RULES = BatchingRules(policy="greedy", max_batch=4, breaker_failures=3, breaker_cooldown=1.0)


def a_batch() -> Sealed:
    return Sealed(1, "model", b"", [], Reason.FULL, 0.0)


def a_tenth(size: int) -> Seconds:
    return 0.1


def fail(batcher: Batcher, now: float, failure: Failure) -> None:
    """One fresh request, alone on the only worker, that fails."""
    offer(batcher, ask(now, deadline=0.02))  # no time for a retry: each failure is its own
    ((name, _),) = batcher.step(now).dispatches
    finish(batcher, name, failure, now + 0.01)


def test_the_worker_that_has_rested_longest_is_picked() -> None:
    fleet = Fleet(5, 1.0)
    for number in range(3):
        fleet.ready(worker(number))
    first = fleet.pick()
    assert first is fleet.workers[worker(0)]
    fleet.assign(first, a_batch(), 0.0)
    fleet.release(first.id, 1.0)
    fleet.succeeded(first, 1.0)
    assert fleet.pick() is fleet.workers[worker(1)]
    assert fleet.pick(avoid=worker(1)) is fleet.workers[worker(2)]


def test_ready_said_twice_is_ready_once() -> None:
    fleet = Fleet(1, 1.0)
    fleet.ready(worker(0))
    fleet.ready(worker(0))
    assert (fleet.idle, fleet.healthy) == (1, 1)
    one = fleet.workers[worker(0)]
    fleet.assign(one, a_batch(), 0.0)
    fleet.release(one.id, 0.1)
    fleet.failed(one, 0.1, at_once=True)
    assert (fleet.idle, fleet.healthy) == (0, 0)
    fleet.wake(2.0)
    fleet.ready(worker(0))  # on probation, and already idle
    assert (fleet.idle, fleet.healthy) == (1, 1)


def test_failures_in_a_row_open_the_breaker_and_a_success_between_them_does_not() -> None:
    batcher = batcher_with(1, RULES)
    for n in range(2):
        fail(batcher, n * 0.1, REFUSED)
    offer(batcher, ask(0.3))
    ((name, batch),) = batcher.step(0.3).dispatches
    finish(batcher, name, outputs(batch), 0.31)
    for n in range(2):
        fail(batcher, 0.4 + n * 0.1, REFUSED)
    assert batcher.fleet.healthy == 1
    fail(batcher, 0.6, REFUSED)
    assert batcher.fleet.healthy == 0


def test_an_open_worker_takes_nothing_then_one_request_and_that_decides() -> None:
    batcher = batcher_with(1, RULES)
    for n in range(3):
        fail(batcher, n * 0.1, REFUSED)
    opened = 0.2 + 0.01
    offer(batcher, *(ask(0.5) for _ in range(3)))
    effects = batcher.step(0.5)
    assert sent(effects) == []
    assert effects.wake == pytest.approx(opened + 1.0)
    ((name, probe),) = batcher.step(opened + 1.0).dispatches
    assert probe.size == 1
    finish(batcher, name, outputs(probe), 1.3)
    assert sent(batcher.step(1.3)) == [2]


def test_a_failed_probe_doubles_the_cool_down_up_to_the_longest() -> None:
    fleet = Fleet(1, 1.0)
    fleet.ready(worker(0))
    one, now, rests = fleet.workers[worker(0)], 0.0, []
    for _ in range(5):
        fleet.assign(one, a_batch(), now)
        fleet.release(one.id, now)
        fleet.failed(one, now, at_once=False)
        rests.append(fleet.wake(now) - now)
        now = one.open_until
        fleet.wake(now)
    assert rests == pytest.approx([1.0, 2.0, 4.0, LONGEST_COOLDOWN, LONGEST_COOLDOWN])


def test_a_cool_down_set_longer_than_the_longest_is_kept() -> None:
    fleet = Fleet(1, 30.0)
    fleet.ready(worker(0))
    fleet.failed(fleet.workers[worker(0)], 0.0, at_once=False)
    assert fleet.workers[worker(0)].open_until == 30.0


def test_a_time_out_opens_the_breaker_at_once() -> None:
    batcher = batcher_with(1, RULES)
    fail(batcher, 0.0, TIMED_OUT)
    assert batcher.fleet.healthy == 0


def test_a_retried_batch_sends_only_one_of_its_requests_to_a_worker_on_probation() -> None:
    batcher = batcher_with(1, replace(RULES, max_batch=16))
    offer(batcher, *(ask() for _ in range(16)))
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, TIMED_OUT, 0.1)
    wake = batcher.step(0.1).wake
    assert wake == pytest.approx(1.1)
    ((_, probe),) = batcher.step(1.1).dispatches
    assert (probe.size, probe.retry) == (1, True)
    assert batcher.waiting == 15
    finish(batcher, name, outputs(probe), 1.2)
    effects = batcher.step(1.2)
    assert len(effects.replies) == 1
    assert sent(effects) == [1]  # the other of its part, then another part
    finish(batcher, name, outputs(effects.dispatches[0][1]), 1.3)
    assert sent(batcher.step(1.3)) == [2]


def test_trusted_workers_go_before_those_on_probation() -> None:
    fleet = Fleet(1, 1.0)
    for number in (0, 1):
        fleet.ready(worker(number))
    shaky = fleet.workers[worker(0)]
    fleet.assign(shaky, a_batch(), 0.0)
    fleet.release(shaky.id, 0.1)
    fleet.failed(shaky, 0.1, at_once=False)
    assert fleet.wake(0.5) == pytest.approx(1.1)
    fleet.wake(5.0)
    assert fleet.idle == 2
    assert fleet.pick() is fleet.workers[worker(1)]
    assert fleet.pick(avoid=worker(1)) is shaky
    fleet.gone(worker(1), None)
    assert fleet.pick() is shaky


def test_a_worker_that_comes_back_with_an_open_breaker_rests_first() -> None:
    fleet = Fleet(1, 1.0)
    fleet.ready(worker(0))
    fleet.failed(fleet.workers[worker(0)], 0.0, at_once=False)
    fleet.gone(worker(0), 0.5)
    assert fleet.next_free(a_tenth, 0.0) == 0.5
    fleet.ready(worker(0))
    assert (fleet.idle, fleet.healthy) == (0, 0)
    assert fleet.next_free(a_tenth, 0.2) == 1.0


def test_the_next_worker_is_free_when_the_first_busy_one_should_be_done() -> None:
    fleet = Fleet(5, 1.0)
    assert fleet.next_free(a_tenth, 0.0) is None
    for number in (0, 1):
        fleet.ready(worker(number))
        one = fleet.workers[worker(number)]
        assert fleet.next_free(a_tenth, 0.0) == 0.0
        fleet.assign(one, a_batch(), number * 0.01)
    assert fleet.next_free(a_tenth, 0.05) == pytest.approx(0.1)
    assert fleet.next_free(a_tenth, 0.3) == pytest.approx(0.3)  # overdue: any moment
    fleet.gone(worker(0), None)
    assert fleet.next_free(a_tenth, 0.05) == pytest.approx(0.11)


def test_busy_time_counts_the_batch_in_hand() -> None:
    fleet = Fleet(5, 1.0)
    fleet.ready(worker(0))
    one = fleet.workers[worker(0)]
    fleet.assign(one, a_batch(), 1.0)
    assert one.busy_for(1.5) == 0.5
    fleet.release(one.id, 3.0)
    assert one.busy_for(9.0) == 2.0


def test_a_worker_s_speed_is_learned_against_the_curve() -> None:
    fleet = Fleet(5, 1.0)
    fleet.ready(worker(0))
    one = fleet.workers[worker(0)]
    for _ in range(30):
        fleet.succeeded(one, 2.0)
    assert one.speed == pytest.approx(2.0, rel=0.01)
