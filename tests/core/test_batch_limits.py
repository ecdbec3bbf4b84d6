"""How long a batch may run, and what becomes of the others when one input hangs."""

from collections import Counter

import pytest
from core_kit import TIMED_OUT, ask, batcher_with, finish, offer, outputs, teach, worker

from penstock.core.batch_limits import LEARNED, BatchLimits
from penstock.core.batcher import Batcher
from penstock.core.estimator import ServiceCurve
from penstock.core.queued import Sealed
from penstock.core.rules import BatchingRules
from penstock.types import Outcome, WorkerId

HANGS = b'"hangs"'
DEFAULT_QUEUE, DEFAULT_REQUEST = 2.0, 4.0
RESTART = 0.5  # seconds until a function that was stopped is there again


def learned(seconds: float, times: int = LEARNED) -> ServiceCurve:
    curve = ServiceCurve(64)
    for _ in range(times):
        curve.observe(64, seconds)
    return curve


@pytest.mark.parametrize(
    ("seconds", "size", "hurry", "limit"),
    [
        (0.01, 64, False, 1.0),
        (0.4, 64, False, 2.0),
        (0.9, 64, False, 3.0),
        (0.01, 8, True, 0.25),
        (0.2, 8, True, 0.6),
        (0.01, 1, False, 1.0),
        (2.0, 8, True, 3.0),
    ],
)
def test_the_limit_follows_what_batches_usually_take(
    seconds: float, size: int, hurry: bool, limit: float
) -> None:
    assert BatchLimits(3.0).limit(learned(seconds), size, hurry=hurry) == pytest.approx(limit)


def test_until_something_is_learned_a_batch_may_run_as_long_as_any() -> None:
    assert BatchLimits(3.0).limit(learned(0.01, LEARNED - 1), 64, hurry=False) == 3.0


def test_the_limit_of_a_size_never_seen_allows_for_time_that_grows_in_proportion() -> None:
    curve = ServiceCurve(64)
    for _ in range(LEARNED):
        curve.observe(4, 0.03)
    assert BatchLimits(3.0).limit(curve, 64, hurry=False) == pytest.approx(5 * 16 * 0.03)
    assert BatchLimits(3.0).limit(curve, 64, hurry=True) == pytest.approx(0.25)


def test_the_parts_of_a_batch_that_hung_are_cut_short_by_whatever_has_been_learned() -> None:
    assert BatchLimits(3.0).limit(learned(0.1, 1), 8, hurry=True) == pytest.approx(0.3)
    assert BatchLimits(3.0).limit(ServiceCurve(64), 8, hurry=True) == 3.0
    assert ServiceCurve(64).at_most(8) == 0.0


def test_the_limit_is_never_above_processing_however_short_that_is() -> None:
    assert BatchLimits(0.1).limit(learned(0.01), 64, hurry=False) == 0.1


def test_batches_that_run_out_of_time_double_the_limit_and_those_that_succeed_halve_it_again() -> None:
    patience, curve = BatchLimits(3.0), learned(0.2)
    limits = []
    for _ in range(4):
        limits.append(patience.limit(curve, 64, hurry=False))
        patience.ran_out()
    assert limits == pytest.approx([1.0, 1.0, 2.0, 3.0])
    limits = []
    for _ in range(5):
        patience.succeeded()
        limits.append(patience.limit(curve, 64, hurry=False))
    assert limits == pytest.approx([3.0, 2.0, 1.0, 1.0, 1.0])


def play(batcher: Batcher, seconds: float) -> Counter[Outcome]:
    """Run until nothing is left, each batch for as long as its size takes or, if an input hangs, for as long as it
    may; then its worker is started anew. Gives how the innocent ended."""
    outcomes: Counter[Outcome] = Counter()
    running: dict[WorkerId, tuple[float, Sealed]] = {}
    back: dict[WorkerId, float] = {}
    now = 0.0
    while True:
        effects = batcher.step(now)
        outcomes.update(
            reply.outcome
            for reply in effects.replies
            if reply.request.input != HANGS and now <= reply.request.deadline
        )
        for name, batch in effects.dispatches:
            running[name] = now + (batch.limit if hangs(batch) else seconds), batch
        times = [done for done, _ in running.values()] + list(back.values())
        times += [] if effects.wake is None else [effects.wake]
        if not times:
            return outcomes
        now = min(times)
        for name in [name for name, (done, _) in running.items() if done <= now]:
            _, batch = running.pop(name)
            if hangs(batch):
                finish(batcher, name, TIMED_OUT, now)
                batcher.worker_gone(name, now, now + RESTART)
                back[name] = now + RESTART
            else:
                finish(batcher, name, outputs(batch), now)
        for name in [name for name, then in back.items() if then <= now]:
            del back[name]
            batcher.worker_ready(name)


def hangs(batch: Sealed) -> bool:
    return any(request.input == HANGS for request in batch.requests)


@pytest.mark.parametrize("place", [0, 5, 31, 40, 63])
@pytest.mark.parametrize(
    ("workers", "seconds"), [(1, 0.02), (2, 0.02), (2, 0.1), (2, 0.2), (3, 0.2), (8, 0.2)]
)
def test_one_input_that_hangs_takes_nobody_with_it_at_the_defaults(
    workers: int, seconds: float, place: int
) -> None:
    batcher = batcher_with(workers, BatchingRules(policy="greedy"))
    teach(batcher, seconds, size=64)
    texts = [HANGS if number == place else b'"good"' for number in range(64)]
    offer(batcher, *(ask(expires=DEFAULT_QUEUE, deadline=DEFAULT_REQUEST, text=text) for text in texts))
    assert play(batcher, seconds) == Counter({Outcome.SUCCESS: 63})


def test_when_everything_has_become_ten_times_slower_a_few_batches_are_cut_and_the_others_succeed() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy"))
    teach(batcher, 0.2, size=64)
    offer(batcher, *(ask(deadline=1000.0) for _ in range(640)))
    now, cut = 0.0, 0
    while batcher.waiting:
        effects = batcher.step(now)
        if not effects.dispatches:
            assert effects.wake is not None
            now = effects.wake
            continue
        ((name, batch),) = effects.dispatches
        now += min(2.0, batch.limit)
        if batch.limit < 2.0:
            cut += 1
            finish(batcher, name, TIMED_OUT, now)
        else:
            finish(batcher, name, outputs(batch), now)
    assert 0 < cut <= 6
    assert batcher.curve(64) > 1.5


def test_a_first_early_time_out_leaves_the_breaker_closed_and_a_second_in_a_row_opens_it() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", max_batch=1))
    teach(batcher, 0.01)
    offer(batcher, ask(), ask())
    batcher.step(0.0)
    finish(batcher, worker(0), TIMED_OUT, 1.0)
    assert batcher.fleet.healthy == 1
    batcher.step(1.0)
    finish(batcher, worker(0), TIMED_OUT, 2.0)
    assert batcher.fleet.healthy == 0
