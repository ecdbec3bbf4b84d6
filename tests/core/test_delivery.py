"""Retries and poison."""

from collections import Counter
from collections.abc import Iterator
from math import ceil, log2

import pytest
from core_kit import AWAY, REFUSED, TIMED_OUT, ask, batcher_with, finish, offer, outputs, sent, worker
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.aftermath import WORKER_LOST
from penstock.core.batcher import Batcher
from penstock.core.delivery import PARTS, RetryRules
from penstock.core.queued import Queued, Sealed
from penstock.core.rules import BatchingRules
from penstock.types import Failure, Outcome, WorkerId

ATTEMPTS = 3
POISON = b'"poison"'


def play(batcher: Batcher, seconds: float = 0.1) -> tuple[Counter[Outcome], list[int]]:
    """Run until nothing is left; a batch with poison in it fails. Gives the outcomes, and the sizes that failed."""
    outcomes: Counter[Outcome] = Counter()
    failed: list[int] = []
    running: dict[WorkerId, tuple[float, Sealed]] = {}
    now = 0.0
    while True:
        effects = batcher.step(now)
        outcomes.update(reply.outcome for reply in effects.replies)
        running |= {name: (now + seconds, batch) for name, batch in effects.dispatches}
        times = [done for done, _ in running.values()] + ([] if effects.wake is None else [effects.wake])
        if not times:
            return outcomes, failed
        now = min(times)
        for name in [name for name, (done, _) in running.items() if done <= now]:
            _, batch = running.pop(name)
            poisoned = any(request.input == POISON for request in batch.requests)
            failed += [batch.size] if poisoned else []
            finish(batcher, name, REFUSED if poisoned else outputs(batch), now)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [*range(1, 10), 16, 31, 32, 33, 63, 64])
def test_one_bad_request_fails_alone_and_all_others_are_served(size: int, workers: int) -> None:
    for place in {0, size // 2, size - 1}:
        batcher = batcher_with(workers, BatchingRules(policy="greedy", max_batch=64))
        offer(batcher, *(ask(text=POISON if n == place else b'"good"') for n in range(size)))
        outcomes, failed = play(batcher)
        assert outcomes[Outcome.SUCCESS] == size - 1
        assert outcomes[Outcome.FAILED] == 1
        assert len(failed) <= max(ATTEMPTS, ceil(log2(size)) + 1)
        assert failed[-1] == 1


@settings(deadline=None, derandomize=True, max_examples=60)
@given(bad=st.sets(st.integers(0, 63), max_size=6), workers=st.integers(1, 4))
def test_several_bad_requests_fail_and_no_innocent_does(bad: set[int], workers: int) -> None:
    batcher = batcher_with(workers, BatchingRules(policy="greedy", max_batch=64))
    offer(batcher, *(ask(text=POISON if n in bad else b'"good"') for n in range(64)))
    outcomes, _ = play(batcher)
    assert outcomes == Counter({Outcome.SUCCESS: 64 - len(bad), Outcome.FAILED: len(bad)})


def test_a_retry_goes_to_another_worker_where_there_is_one() -> None:
    batcher = batcher_with(2, BatchingRules(policy="greedy"))
    offer(batcher, ask(), ask())
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, REFUSED, 0.1)
    ((other, _),) = batcher.step(0.1).dispatches  # the second half waits for that worker too
    assert other != name
    assert batcher.waiting == 1


def test_a_retry_that_waits_for_another_worker_does_not_hold_up_those_that_do_not() -> None:
    batcher = batcher_with(2, BatchingRules(policy="greedy", max_batch=2))
    offer(batcher, *(ask() for _ in range(4)))
    (first, _), (second, _) = batcher.step(0.0).dispatches
    finish(batcher, first, REFUSED, 0.1)  # two halves that avoid the first
    offer(batcher, ask(0.1, parameters=b"long"))
    batcher.step(0.1)  # the fresh one goes to the first
    finish(batcher, second, REFUSED, 0.2)  # and two that avoid the second, which is idle
    assert [(name, batch.avoid) for name, batch in batcher.step(0.2).dispatches] == [(second, first)]
    finish(batcher, first, AWAY, 0.3)
    assert [(name, batch.avoid) for name, batch in batcher.step(0.3).dispatches] == [(first, second)]


def test_with_one_worker_the_retry_goes_there_again() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy"))
    offer(batcher, ask(), ask())
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, REFUSED, 0.1)
    assert sent(batcher.step(0.1)) == [1]


def test_when_nobody_is_to_blame_the_whole_batch_is_tried_again_after_a_back_off_that_grows() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy"))
    offer(batcher, *(ask() for _ in range(5)))
    now, waits = 0.0, []
    for attempt in range(ATTEMPTS):
        ((name, batch),) = batcher.step(now).dispatches
        assert batch.size == 5
        assert batch.retry is (attempt > 0)
        finish(batcher, name, AWAY, now)
        effects = batcher.step(now)
        if effects.wake is not None:
            waits.append(effects.wake - now)
            now = effects.wake
    assert [reply.failure for reply in effects.replies] == [AWAY] * 5
    assert 0.025 <= waits[0] < 0.05 <= waits[1] < 0.1


def test_a_retry_that_could_not_end_in_time_is_not_made() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy"))
    batcher.curve.observe(1, 0.1)
    batcher.parts.last_finish = 0.0
    offer(batcher, ask(expires=0.5, deadline=0.25))
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, AWAY, 0.2)
    assert [reply.outcome for reply in batcher.step(0.2).replies] == [Outcome.FAILED]


def test_a_retry_whose_time_runs_out_while_it_waits_is_answered_with_what_it_was_retried_for() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy"))
    offer(batcher, ask(expires=5.0, deadline=5.0))
    ((name, _),) = batcher.step(0.0).dispatches
    batcher.worker_gone(name, 0.1)
    wake, replies = batcher.step(0.1).wake, []
    while wake is not None:
        effects = batcher.step(wake)
        replies += effects.replies
        wake = effects.wake
    assert [reply.failure.code for reply in replies if reply.failure] == ["BACKEND_CRASHED"]
    assert batcher.waiting == 0


def test_what_the_failure_quotes_is_told_only_to_one_that_was_alone() -> None:
    secret = Failure("BACKEND_FAILED", "refused", details="the third input says: secret")
    batcher = batcher_with(1, BatchingRules(policy="greedy", retries=RetryRules(attempts=1)))
    for size in (2, 1):
        offer(batcher, *(ask() for _ in range(size)))
        ((name, _),) = batcher.step(0.0).dispatches
        finish(batcher, name, secret, 0.1)
        replies = batcher.step(0.1).replies
        assert {reply.failure.details for reply in replies if reply.failure} == {
            secret.details if size == 1 else ""
        }


def test_without_budget_what_the_backend_refuses_is_answered_instead_of_retried() -> None:
    rules = RetryRules(budget_ratio=0.0, budget_per_second=0.0)
    batcher = batcher_with(
        1, BatchingRules(policy="greedy", max_batch=1, retries=rules, breaker_failures=10**6)
    )
    batcher.delivery.budget._tokens = 3.0
    failed, retries, now = 0, 0, 0.0
    for _ in range(30):
        offer(batcher, ask(now))
    while batcher.waiting:
        effects = batcher.step(now)
        failed += len(effects.replies)
        for name, batch in effects.dispatches:
            retries += batch.retry
            finish(batcher, name, REFUSED, now)
        if not effects.dispatches:
            assert effects.wake is not None
            now = effects.wake
    failed += len(batcher.step(now).replies)
    assert failed == 30
    assert retries == 3


@pytest.mark.parametrize("failure", [AWAY, WORKER_LOST, TIMED_OUT])
def test_nobody_whose_worker_was_lost_fails_for_want_of_budget(failure: Failure) -> None:
    rules = RetryRules(budget_ratio=0.0, budget_per_second=0.0)
    batcher = batcher_with(2, BatchingRules(policy="greedy", retries=rules))
    batcher.delivery.budget._tokens = 0.0
    offer(batcher, *(ask() for _ in range(64)))
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, failure, 0.1)
    assert not batcher.step(0.1).replies
    assert batcher.waiting + sum(w.batch.size for w in batcher.fleet.workers.values() if w.batch) == 64


def test_the_limit_of_the_queue_is_over_for_a_request_that_has_been_on_a_worker() -> None:
    """At the defaults the queue's limit is 2 s and the deadline 4 s."""
    batcher = batcher_with(2, BatchingRules(policy="greedy"))
    offer(batcher, ask(expires=2.0, deadline=4.0))
    ((name, _),) = batcher.step(0.0).dispatches
    batcher.worker_gone(name, 2.2)
    effects = batcher.step(2.2)
    wake = effects.wake
    assert not effects.replies
    assert wake is not None
    ((other, batch),) = [*effects.dispatches, *batcher.step(wake).dispatches]
    assert other != name
    finish(batcher, other, outputs(batch), 2.4)
    assert [reply.outcome for reply in batcher.step(2.4).replies] == [Outcome.SUCCESS]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 63, 64])
def test_a_batch_that_hung_is_tried_again_in_eight_parts(size: int) -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", max_batch=64))
    requests = [ask() for _ in range(size)]
    offer(batcher, *requests)
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, TIMED_OUT, 1.0)
    parts = [retry.batch.requests for retry in batcher.delivery._retries.values()]
    assert len(parts) == min(size, PARTS)
    assert [request for part in parts for request in part] == requests
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all(retry.batch.suspect for retry in batcher.delivery._retries.values())


def test_a_request_found_by_splitting_has_no_further_attempts() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", max_batch=8))
    offer(batcher, ask(text=POISON), *(ask(text=b"%d" % n) for n in range(7)))
    _, failed = play(batcher)
    assert failed == [8, 4, 2, 1]


def test_who_leaves_is_found_in_whichever_retry_it_waits() -> None:
    batcher = batcher_with(2, BatchingRules(policy="greedy", max_batch=1))
    one, two = ask(), ask()
    offer(batcher, one, two)
    for name, _ in batcher.step(0.0).dispatches:
        finish(batcher, name, AWAY, 0.1)
    assert batcher.waiting == 2
    assert batcher.withdraw(two)
    assert batcher.withdraw(one)
    assert not batcher.withdraw(one)
    assert batcher.waiting == 0


def test_a_retry_that_is_empty_by_the_time_it_may_go_is_forgotten() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy"))
    leaves, stays = ask(), ask()
    for request in (leaves, stays):
        offer(batcher, request)
        ((name, _),) = batcher.step(0.0).dispatches
        finish(batcher, name, AWAY, 0.0)
    assert name == worker(0)
    batcher.withdraw(leaves)
    batcher.step(0.0)
    assert len(batcher.delivery._retries) == 1


def test_what_waits_to_be_retried_is_not_looked_at_one_by_one_before_its_time() -> None:
    """A failed fleet has thousands waiting, and each step would go through them all."""

    class Watched(list[Queued]):
        looks = 0

        def __iter__(self) -> Iterator[Queued]:
            Watched.looks += 1
            return super().__iter__()

    batcher = batcher_with(1, BatchingRules(policy="greedy"))
    requests = [ask(deadline=deadline) for deadline in (5.0, 1.0, 9.0)]
    offer(batcher, *requests)
    ((name, batch),) = batcher.step(0.0).dispatches
    finish(batcher, name, AWAY, 0.1)
    batcher.worker_gone(name, 0.1)
    (retry,) = batcher.delivery._retries.values()
    retry.batch.requests = Watched(retry.batch.requests)
    for _ in range(10):
        effects = batcher.step(0.9)
    assert Watched.looks == 0
    assert effects.wake == pytest.approx(1.0, abs=0.01)
    effects = batcher.step(1.01)
    assert [reply.request for reply in effects.replies] == [requests[1]]
    assert effects.wake == pytest.approx(5.0, abs=0.01)
    batcher.withdraw(requests[0])
    assert batcher.step(1.02).wake == pytest.approx(9.0, abs=0.01)
    assert batch.size == 3
