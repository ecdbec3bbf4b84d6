"""Which sizes a batch may have, and what goes where the number that waits is none of them."""

from math import inf

import pytest
from core_kit import REFUSED, ask, batcher_with, finish, offer, outputs, worker
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.batcher import Batcher
from penstock.core.estimator import ServiceCurve
from penstock.core.policy import POLICIES
from penstock.core.queued import Sealed
from penstock.core.rules import BatchingRules
from penstock.core.sizes import ANY, Sizes, powers_to
from penstock.types import Reason, Result

POWERS = powers_to(64)
KNEE_AT_32 = {1: 0.010, 2: 0.010, 4: 0.010, 8: 0.010, 16: 0.010, 32: 0.010, 64: 0.020}
LEVEL = dict.fromkeys(POWERS.allowed, 0.010)

some_sizes = st.sets(st.integers(1, 300), min_size=1, max_size=12).map(
    lambda them: Sizes(tuple(sorted(them)))
)
steps = st.lists(st.floats(0.0, 0.1), min_size=12, max_size=12)


def test_powers_end_with_the_largest_batch_whatever_it_is() -> None:
    assert powers_to(1).allowed == (1,)
    assert powers_to(2).allowed == (1, 2)
    assert powers_to(64).allowed == (1, 2, 4, 8, 16, 32, 64)
    assert powers_to(100).allowed == (1, 2, 4, 8, 16, 32, 64, 100)


@given(st.integers(1, 1000))
def test_where_any_size_is_allowed_nothing_is_padded_and_nothing_kept(waiting: int) -> None:
    assert ANY.padded(waiting) == waiting
    assert ANY.to_send(waiting, lambda size: size**3, inf) == waiting


@given(some_sizes, st.integers(1, 400))
def test_a_batch_is_padded_to_the_next_allowed_size(sizes: Sizes, size: int) -> None:
    padded, fitting = sizes.padded(size), sizes.fitting(size)
    assert padded == min([each for each in sizes.allowed if each >= size], default=size)
    assert fitting == max([each for each in sizes.allowed if each <= size], default=0)
    assert fitting <= size <= padded


@given(some_sizes, st.floats(0.0, 400.0))
def test_what_there_is_room_for_is_an_allowed_size(sizes: Sizes, room: float) -> None:
    largest = sizes.largest_in(room)
    assert largest in sizes.allowed
    assert largest <= room or largest == sizes.allowed[0]


@settings(max_examples=300)
@given(some_sizes, steps, st.integers(1, 300), st.floats(-1.0, 2.0))
def test_what_goes_is_all_or_what_fits(
    sizes: Sizes, rises: list[float], waiting: int, patience: float
) -> None:
    """And padding never takes more of a worker's time than what fits and, after it, the rest; nor do all wait
    longer for it together than the rest would wait for a batch of its own."""

    def seconds(size: int) -> float:
        return 0.01 + sum(rises[: 1 + sum(each < size for each in sizes.allowed)])

    sent = sizes.to_send(waiting, seconds, patience)
    fitting = sizes.fitting(waiting)
    assert sent in (waiting, fitting)
    assert sent > 0
    if sent < waiting:
        assert seconds(fitting) <= patience
    elif 0 < fitting < waiting and seconds(fitting) <= patience:
        rest = waiting - fitting
        assert seconds(waiting) <= seconds(fitting) + seconds(rest) + 1e-9
        assert waiting * seconds(waiting) <= waiting * seconds(fitting) + rest * seconds(rest) + 1e-9


def padded_time(times: dict[int, float]) -> ServiceCurve:
    curve = ServiceCurve(64, POWERS)
    for size, seconds in times.items():
        for _ in range(8):
            curve.observe(size, seconds)
    return curve


@pytest.mark.parametrize("waiting", range(1, 65))
def test_a_batch_takes_as_long_as_the_size_that_it_is_padded_to(waiting: int) -> None:
    curve = padded_time(KNEE_AT_32)
    expected = pytest.approx(KNEE_AT_32[int(POWERS.padded(waiting))])
    assert curve(waiting) == expected
    assert curve.hopeful(waiting) == expected
    assert curve.at_most(waiting) == expected


def test_what_no_batch_has_shown_is_taken_to_grow_with_the_padded_size() -> None:
    curve = padded_time({32: 0.010})
    assert curve.at_most(33) == pytest.approx(0.020)


def test_the_best_batch_is_an_allowed_one() -> None:
    """Sizes that are close together are learned together, and their mean need not be allowed."""
    curve = ServiceCurve(112, Sizes((97, 112)))
    for size in (97, 112, 112, 97) * 8:
        curve.observe(size, size / 1000)
    assert curve.best_size in (97, 112)


def knowing(times: dict[int, float], workers: int = 1, policy: str = "greedy", **rules: float) -> Batcher:
    batcher = batcher_with(
        workers,
        BatchingRules(policy=policy, sizes=POWERS, **rules),  # type: ignore[arg-type]
    )
    for size, seconds in times.items():
        for _ in range(8):
            batcher.curve.observe(size, seconds)
    batcher.parts.last_finish = 0.0
    return batcher


def sizes_sent(batcher: Batcher, now: float = 0.0) -> list[int]:
    return [batch.size for _, batch in batcher.step(now).dispatches]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_fits_goes_where_the_padded_batch_takes_longer(policy: str) -> None:
    batcher = knowing(KNEE_AT_32, policy=policy)
    offer(batcher, *(ask() for _ in range(33)))
    assert sizes_sent(batcher, 0.2) == [32]  # by then every policy sends
    assert batcher.waiting == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_all_go_padded_where_that_costs_nothing(policy: str) -> None:
    batcher = knowing(LEVEL, policy=policy)
    offer(batcher, *(ask() for _ in range(33)))
    assert sizes_sent(batcher, 0.2) == [33]


def test_an_idle_worker_takes_what_does_not_fit_at_once() -> None:
    batcher = knowing(KNEE_AT_32, workers=2)
    offer(batcher, *(ask() for _ in range(33)))
    assert sizes_sent(batcher) == [32, 1]


def test_all_go_padded_where_the_rest_would_be_too_late_for_its_worker() -> None:
    batcher = knowing(KNEE_AT_32)
    offer(batcher, *(ask(deadline=0.025) for _ in range(33)))
    assert sizes_sent(batcher) == [33]


def test_padding_counts_against_the_most_cost_of_a_batch() -> None:
    batcher = knowing(LEVEL, max_cost=100.0)
    offer(batcher, *(ask(cost=4.0) for _ in range(20)))
    assert sizes_sent(batcher) == [16]  # 20 would be run as 32, which cost 128


def test_a_batch_is_no_larger_than_one_worker_that_is_on_probation_may_have() -> None:
    batcher = knowing(LEVEL, breaker_failures=1)
    held = batcher.fleet.workers[worker(0)]
    held.cooldown = 1.0
    offer(batcher, *(ask() for _ in range(3)))
    assert sizes_sent(batcher, 10.0) == [1]


def test_what_is_learned_is_the_time_of_the_size_that_was_run() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", sizes=POWERS))
    offer(batcher, *(ask() for _ in range(20)))
    [(name, batch)] = batcher.step(0.0).dispatches
    made = Result([b"1"] * 20, executed=32, padding=12)
    batcher.finished(name, batch.id, made, 0.5)
    assert batcher.curve(32) == batcher.curve(20) == pytest.approx(0.5)
    assert batcher.curve.largest == 32
    [ended] = batcher.step(0.5).ended
    assert (ended.execution.batch_size, ended.execution.padding) == (20, 12)
    assert batcher.padded_share == pytest.approx(12 / 32)


def test_the_share_of_padding_follows_what_is_run_now() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", sizes=POWERS))
    assert batcher.padded_share == 0.0

    def run(padding: int) -> None:
        offer(batcher, ask())
        [(name, batch)] = batcher.step(0.0).dispatches
        made = outputs(batch)
        made.executed, made.padding = 1 + padding, padding
        finish(batcher, name, made, 0.0)
        batcher.step(0.0)

    run(padding=3)
    assert batcher.padded_share == pytest.approx(0.75)
    for _ in range(5000):
        run(padding=0)
    assert batcher.padded_share < 0.01


def test_retries_go_in_whatever_size_is_left_of_them() -> None:
    batcher = knowing(LEVEL)
    offer(batcher, *(ask() for _ in range(5)))
    [(name, batch)] = batcher.step(0.0).dispatches
    finish(batcher, name, REFUSED, 0.1)
    seen: list[Sealed] = []
    now = 0.1
    while batcher.waiting or batcher.fleet.busy:
        effects = batcher.step(now)
        for one, retry in effects.dispatches:
            seen.append(retry)
            batcher.finished(one, retry.id, outputs(retry), now)
        now += 0.1
    assert sorted(retry.size for retry in seen) == [2, 3]
    assert all(retry.reason is batch.reason is Reason.IDLE for retry in seen)
