"""What a batcher learns of a warm-up: which sizes take how long, and what a new size costs."""

from itertools import pairwise

from core_kit import ask, batcher_with, finish, offer, outputs, worker
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.batch_limits import LEARNED
from penstock.core.ladder import ladder
from penstock.core.rules import BatchingRules
from penstock.types import Rung, WarmUp

W = worker(0)
RUNGS = tuple(Rung(size, 0.08, (0.004 + 0.001 * size,) * 2) for size in (1, 2, 4, 8))


def test_the_times_of_a_warm_up_are_known_before_the_first_batch() -> None:
    batcher = batcher_with(1)
    batcher.worker_warmed(W, WarmUp(RUNGS), 0.0)
    assert (batcher.curve(1), batcher.curve(8)) == (0.005, 0.012)
    assert 0.06 < batcher.curve.shape.seconds < 0.08  # what a new size costs is known apart


def test_once_real_batches_were_seen_made_up_inputs_teach_nothing() -> None:
    batcher = batcher_with(1)
    offer(batcher, ask())
    batcher.step(0.0)
    finish(batcher, W, outputs(batcher.fleet.workers[W].batch), 0.5)  # type: ignore[arg-type]
    batcher.worker_warmed(W, WarmUp(RUNGS), 1.0)
    assert (batcher.curve(1), batcher.curve(8)) == (0.5, 0.5)
    assert 0.06 < batcher.curve.shape.seconds < 0.08


def test_a_real_input_teaches_of_sizes_that_no_real_batch_has_had() -> None:
    batcher = batcher_with(1)
    offer(batcher, ask())
    batcher.step(0.0)
    finish(batcher, W, outputs(batcher.fleet.workers[W].batch), 0.5)  # type: ignore[arg-type]
    batcher.worker_warmed(W, WarmUp((Rung(1, 0.1, (0.1,)), Rung(8, 0.9, (0.7,))), real=True), 1.0)
    assert (batcher.curve(1), batcher.curve(8)) == (0.5, 0.7)


def test_a_warm_up_cuts_no_real_batch_short() -> None:
    batcher = batcher_with(1, BatchingRules(processing=30.0))
    batcher.worker_warmed(W, WarmUp(RUNGS), 0.0)
    assert batcher.curve.samples >= LEARNED
    offer(batcher, ask())
    ((_, batch),) = batcher.step(0.0).dispatches
    assert batch.limit == 30.0


def test_a_size_that_did_not_fit_bounds_the_batches_of_its_worker() -> None:
    batcher = batcher_with(2, BatchingRules(max_batch=64))
    batcher.worker_warmed(W, WarmUp((), too_large=32, length=100), 0.0)
    assert batcher.parts.safe_sizes.smallest() == {W: 16}
    assert batcher.parts.safe_sizes.of(W, 0) == 16


def test_with_lengths_grouped_it_bounds_batches_of_that_length() -> None:
    batcher = batcher_with(1, BatchingRules(max_batch=64, group_lengths=True))
    batcher.worker_warmed(W, WarmUp((), too_large=32, length=100), 0.0)
    sizes = batcher.parts.safe_sizes
    assert (sizes.of(W, (100).bit_length()), sizes.of(W, 1)) == (16, 64)


def test_the_ladder_is_the_powers_of_two_and_the_largest_or_what_is_allowed() -> None:
    assert ladder((), 64) == [1, 2, 4, 8, 16, 32, 64]
    assert ladder((), 100) == [1, 2, 4, 8, 16, 32, 64, 100]
    assert ladder((), 1) == [1]
    assert ladder((4, 16, 64), 64) == [4, 16, 64]


@given(st.integers(1, 65536))
def test_a_ladder_has_no_gap_larger_than_double(largest: int) -> None:
    rungs = ladder((), largest)
    assert (rungs[0], rungs[-1]) == (1, largest)
    assert all(low < high <= 2 * low for low, high in pairwise(rungs))
