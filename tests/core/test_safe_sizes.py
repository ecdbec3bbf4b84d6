"""The largest batch that fits into a worker's memory: found, kept to, tried again, and forgotten."""

from core_kit import ask, batcher_with, finish, offer, outputs, sent, teach, worker
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.batcher import Batcher
from penstock.core.queued import Queued
from penstock.core.rules import BatchingRules
from penstock.core.safe_sizes import FIRST_WAIT, LONGEST_WAIT, STEP, SafeSizes
from penstock.core.sizes import Sizes, powers_to
from penstock.errors import BackendOutOfMemory
from penstock.types import Failure, GivenUp, Outcome, Reply, WorkerId

NO_ROOM = Failure(BackendOutOfMemory.code, "predict raised OutOfMemoryError", splittable=True)
W, OTHER = worker(0), worker(1)
GREEDY = BatchingRules(policy="greedy", max_batch=64)


# ---- the rules alone ---------------------------------------------------------------------------------------


def test_half_of_what_did_not_fit_is_the_limit_of_that_worker_and_shape_alone() -> None:
    sizes = SafeSizes(64)
    sizes.did_not_fit(W, 3, 64, 0.0)
    assert sizes.known
    assert (sizes.of(W, 3), sizes.of(W, 4), sizes.of(OTHER, 3)) == (32, 64, 64)
    assert (sizes.at_most(W, 3, 1.0), sizes.at_most(W, 4, 1.0)) == (32, 64)
    sizes.did_not_fit(W, 3, 32, 1.0)
    sizes.did_not_fit(W, 4, 50, 1.0)
    assert sizes.smallest() == {W: 16}


def test_a_larger_batch_is_tried_after_a_while_and_then_step_by_step() -> None:
    sizes = SafeSizes(64)
    sizes.did_not_fit(W, 0, 64, 0.0)
    assert sizes.at_most(W, 0, FIRST_WAIT - 0.001) == 32
    assert sizes.at_most(W, 0, FIRST_WAIT) == 40
    sizes.fitted(W, 0, 40, FIRST_WAIT)
    assert sizes.at_most(W, 0, FIRST_WAIT + STEP - 0.001) == 40
    assert sizes.at_most(W, 0, FIRST_WAIT + STEP) == 50
    sizes.fitted(W, 0, 64, FIRST_WAIT + STEP)
    assert not sizes.known


def test_a_trial_that_does_not_fit_leaves_the_limit_and_the_next_one_comes_later() -> None:
    sizes, now, waits = SafeSizes(64), 0.0, []
    sizes.did_not_fit(W, 0, 32, now)
    for _ in range(6):
        began = now
        while sizes.at_most(W, 0, now) == 16:
            now += 1.0
        waits.append(now - began)
        sizes.did_not_fit(W, 0, 20, now)
        assert sizes.of(W, 0) == 16
    assert waits == [FIRST_WAIT, 60.0, 120.0, 240.0, LONGEST_WAIT, LONGEST_WAIT]


def test_where_sizes_are_given_the_next_of_them_is_tried() -> None:
    sizes = SafeSizes(64, powers_to(64))
    sizes.did_not_fit(W, 0, 16, 0.0)
    assert [sizes.at_most(W, 0, when) for when in (0.0, FIRST_WAIT)] == [8, 16]


def test_what_is_padded_needs_the_memory_of_the_size_that_is_run() -> None:
    sizes = SafeSizes(64, powers_to(64))
    sizes.did_not_fit(W, 0, 33, 0.0)
    assert sizes.of(W, 0) == 32
    smallest = SafeSizes(64, Sizes((8, 64)))
    smallest.did_not_fit(W, 0, 5, 0.0)
    assert smallest.of(W, 0) == 8


def test_what_is_no_larger_than_the_limit_changes_nothing_when_it_fits() -> None:
    sizes = SafeSizes(64)
    sizes.fitted(W, 0, 64, 0.0)
    sizes.restore(W, 0, 64)
    assert not sizes.known
    sizes.did_not_fit(W, 0, 64, 0.0)
    sizes.fitted(W, 0, 32, 1.0)
    sizes.restore(W, 0, 16)
    assert sizes.of(W, 0) == 32


def test_a_worker_that_is_gone_for_good_is_forgotten() -> None:
    sizes = SafeSizes(64)
    sizes.did_not_fit(W, 0, 64, 0.0)
    sizes.did_not_fit(OTHER, 0, 32, 0.0)
    sizes.forget(W)
    assert sizes.smallest() == {OTHER: 16}
    assert (sizes.widest([W, OTHER]), sizes.widest([OTHER]), sizes.widest([])) == (64, 16, 64)


@given(st.integers(1, 300), st.integers(1, 300), st.lists(st.floats(0.0, 400.0), max_size=60))
def test_the_limit_comes_to_what_fits_and_no_batch_is_given_twice_its_size_again_soon(
    largest: int, fits: int, pauses: list[float]
) -> None:
    """A worker into whose memory `fits` inputs go, kept busy with batches as large as it may have."""
    sizes, now, misses = SafeSizes(largest), 0.0, 0
    for pause in [0.0] * 10 + pauses:
        now += pause
        size = sizes.at_most(W, 0, now)
        assert 1 <= size <= largest
        if size > fits:
            sizes.did_not_fit(W, 0, size, now)
            misses += 1
        else:
            sizes.fitted(W, 0, size, now)
    assert sizes.of(W, 0) <= max(fits, 1)
    assert (
        misses <= 10 + now / FIRST_WAIT
    )  # a larger batch is tried once in a while, and that is all it costs


# ---- in a batcher ------------------------------------------------------------------------------------------


Sent = list[tuple[str, int]]  # the sizes that each worker was sent


def run_until_quiet(
    batcher: Batcher, fits: dict[WorkerId, int], now: float, giant: bytes = b""
) -> tuple[Sent, list[Reply]]:
    """Run all that is sent, on workers with so much memory; a batch with `giant` in it never fits."""
    seen: Sent = []
    replies: list[Reply] = []
    for _ in range(500):
        effects = batcher.step(now)
        replies += effects.replies
        if not effects.dispatches and not batcher.waiting:
            return seen, replies
        if not effects.dispatches:
            now = max(now, effects.wake or now) + 0.001
        for name, batch in effects.dispatches:
            seen.append((name, batch.size))
            now += 0.001
            too_large = batch.size > fits[name] or any(each.input == giant for each in batch.requests)
            finish(batcher, name, NO_ROOM if too_large else outputs(batch), now)
    raise AssertionError("it goes on for ever")


def asks(number: int, now: float = 0.0, length: int = 0) -> list[Queued]:
    return [ask(now, text=b'"%d"' % place, length=length) for place in range(number)]


def outcomes(replies: list[Reply]) -> list[Outcome]:
    return [reply.outcome for reply in replies]


def test_a_batch_that_does_not_fit_is_halved_at_once_and_later_ones_are_no_larger() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, *asks(64))
    seen, replies = run_until_quiet(batcher, {W: 16}, 0.0)
    assert seen == [(W, 64), (W, 32), *[(W, 16)] * 4]
    assert outcomes(replies) == [Outcome.SUCCESS] * 64
    assert batcher.parts.safe_sizes.smallest() == {W: 16}
    offer(batcher, *asks(100))
    assert max(size for _, size in run_until_quiet(batcher, {W: 16}, 1.0)[0]) == 16


def test_to_run_out_of_memory_is_nobodys_attempt_and_opens_no_breaker() -> None:
    batcher = batcher_with(1, GREEDY)
    requests = asks(64)
    offer(batcher, *requests)
    now = 0.0
    while sent(effects := batcher.step(now)) and effects.dispatches[0][1].size > 1:
        now += 0.001
        finish(batcher, W, NO_ROOM, now)
    assert {request.executions for request in requests} == {0}
    assert not batcher.fleet.workers[W].failures
    assert batcher.fleet.healthy == 1
    assert not batcher.apart.known


def test_one_input_that_does_not_fit_fails_alone_and_the_others_keep_their_large_batches() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, *asks(15), ask(text=b'"giant"'))
    _, replies = run_until_quiet(batcher, {W: 64}, 0.0, giant=b'"giant"')
    (lost,) = [reply for reply in replies if isinstance(reply, GivenUp)]
    assert lost.failure is not None
    assert lost.failure.code == BackendOutOfMemory.code
    assert lost.failure.message == (
        "there is not enough memory for this input, even alone: predict raised OutOfMemoryError"
    )
    assert outcomes(replies).count(Outcome.SUCCESS) == 15
    assert not batcher.parts.safe_sizes.known
    assert batcher.fleet.healthy == 1


def test_a_worker_with_more_memory_has_larger_batches() -> None:
    batcher = batcher_with(2, GREEDY)
    offer(batcher, *asks(128))
    run_until_quiet(batcher, {W: 8, OTHER: 64}, 0.0)
    offer(batcher, *asks(72))
    assert sorted(run_until_quiet(batcher, {W: 8, OTHER: 64}, 1.0)[0]) == [(W, 8), (OTHER, 64)]


def test_what_another_worker_failed_is_cut_to_what_fits() -> None:
    batcher = batcher_with(2, GREEDY)
    batcher.parts.safe_sizes.did_not_fit(W, 0, 16, 0.0)
    batcher.worker_gone(W, 0.0)
    offer(batcher, *asks(64))
    ((name, batch),) = batcher.step(0.0).dispatches
    assert (name, batch.size) == (OTHER, 64)
    batcher.worker_ready(W)
    batcher.worker_gone(OTHER, 0.1)
    effects = batcher.step(0.2)
    assert sent(effects) == [8]
    assert effects.wake == 0.2  # what is left is looked at again at once: another worker may be idle


def test_capacity_and_pace_go_by_what_fits() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, *asks(64))
    run_until_quiet(batcher, {W: 16}, 0.0)
    assert (batcher.curve.limit, batcher.curve.best_size) == (16, 16)
    batcher.worker_removed(W, 1.0)
    assert batcher.curve.limit == 64


def test_nothing_learned_yet_is_no_reason_to_count_on_large_batches() -> None:
    batcher = batcher_with(1, GREEDY)
    batcher.parts.safe_sizes.did_not_fit(W, 0, 64, 0.0)
    batcher.parts.fit_curve()
    assert (batcher.curve.best_size, batcher.curve.samples) == (32, 0)
    teach(batcher, 0.1)
    assert batcher.curve.best_size == 32


def test_each_class_of_lengths_has_a_limit_of_its_own() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", max_batch=64, group_lengths=True))
    offer(batcher, *asks(64, length=1000))
    run_until_quiet(batcher, {W: 16}, 0.0)
    offer(batcher, *asks(64, length=10))
    assert run_until_quiet(batcher, {W: 64}, 1.0)[0] == [(W, 64)]
    assert batcher.curve.limit == 64
    assert batcher.parts.safe_sizes.smallest() == {W: 16}


@given(
    st.integers(1, 20),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.sampled_from(["greedy", "paced"]),
)
def test_everybody_is_answered_whatever_fits(fits: int, bursts: list[int], policy: str) -> None:
    batcher, got = batcher_with(2, BatchingRules(policy=policy, max_batch=32)), list[Reply]()
    for place, burst in enumerate(bursts):
        offer(batcher, *asks(burst, float(place)))
        got += run_until_quiet(batcher, {W: fits, OTHER: 32}, float(place))[1]
    assert outcomes(got) == [Outcome.SUCCESS] * sum(bursts)
