"""What the first run of a size takes is learned apart from what its later runs take."""

from random import Random

import pytest

from penstock.core.batcher import Batcher
from penstock.core.estimator import ServiceCurve
from penstock.core.rules import BatchingRules
from penstock.types import Rung, WarmUp, WorkerId

SHAPE = 0.08  # what a new shape costs
STEPS = {1: 0.005, 2: 0.005, 4: 0.005, 8: 0.005, 16: 0.005, 32: 0.01, 64: 0.02, 128: 0.04, 256: 0.08}


def padded(size: int) -> float:
    return STEPS[1 << (size - 1).bit_length()]


def run(curve: ServiceCurve, met: set[int], size: int, seconds: float) -> None:
    curve.observe(size, seconds + (0.0 if size in met else SHAPE), first=size not in met)
    met.add(size)


def test_dear_first_runs_do_not_move_the_curve() -> None:
    curve, met, rng = ServiceCurve(256), set[int](), Random(3)
    for _ in range(400):
        size = min(256, 1 + int(rng.expovariate(1 / 40)))
        run(curve, met, size, padded(size) * rng.gauss(1.0, 0.02))
    assert curve.shape.seconds == pytest.approx(SHAPE, rel=0.05)
    assert curve.spread < 0.06
    for size in (1, 8, 16, 32, 64):
        assert curve(size) == pytest.approx(padded(size), rel=0.08)


def test_a_size_that_was_only_run_once_is_believed_to_take_what_it_took_less_the_cost_of_its_shape() -> None:
    curve = ServiceCurve(64)
    curve.observe(32, 0.09, first=True)
    assert curve(32) == pytest.approx(0.09)  # nothing better is known yet
    curve.observe(4, 0.085, first=True)
    curve.observe(4, 0.005)
    assert curve.shape.seconds == pytest.approx(0.08)
    assert curve(32) == pytest.approx(0.01)


def test_a_size_between_others_that_was_only_run_once_is_not_believed_to_be_the_fastest() -> None:
    """What new shapes cost differs by more than a batch takes."""
    curve = ServiceCurve(64)
    for size, first in ((1, 0.07), (16, 0.085), (64, 0.12)):
        curve.observe(size, first, first=True)
        for _ in range(4):
            curve.observe(size, padded(size))
    curve.observe(32, 0.0801, first=True)
    curve.observe(20, 0.12, first=True)
    assert curve.shape.uneven
    assert curve(32) == pytest.approx(0.01, rel=0.01)  # on the line between 16 and 64
    assert curve(20) < 0.01
    assert curve.best_of(40) == 40


def test_where_new_shapes_cost_nothing_first_runs_teach_as_much_as_others() -> None:
    curve = ServiceCurve(64)
    for size in (1, 1, 2, 2, 4, 4):
        curve.observe(size, 0.1, first=True)
        curve.observe(size, 0.1)
    assert not curve.shape.dear
    for size in (8, 16, 32, 64):
        curve.observe(size, 0.01 * size, first=True)
    assert curve(64) == pytest.approx(0.64)
    assert curve(16) == pytest.approx(0.16)


@pytest.mark.parametrize("size", [1, 32, 64])
def test_one_batch_that_took_a_second_hardly_moves_the_curve(size: int) -> None:
    curve, rng = ServiceCurve(64), Random(5)
    for _ in range(300):
        known = rng.choice((1, 2, 4, 8, 16, 32, 64))
        curve.observe(known, padded(known) * rng.gauss(1.0, 0.02))
    before = [curve(n) for n in range(1, 65)]
    curve.observe(size, 1.0)
    for _ in range(4):
        curve.observe(8, padded(8))  # the curve is drawn anew after a few batches
    assert [curve(n) for n in range(1, 65)] == pytest.approx(before, rel=0.05)


def test_a_size_never_seen_that_took_a_second_is_not_believed_to_take_longer_than_larger_ones() -> None:
    curve = ServiceCurve(64)
    for _ in range(20):
        for known in (1, 16, 64):
            curve.observe(known, padded(known))
    curve.observe(20, 1.0)
    for _ in range(4):
        curve.observe(1, padded(1))
    assert curve(64) == pytest.approx(padded(64), rel=0.05)
    assert curve(20) <= curve(64)


def test_a_size_whose_first_batches_were_slow_by_accident_is_believed_again_at_the_next() -> None:
    curve = ServiceCurve(64)
    curve.observe(8, 1.0)
    curve.observe(8, 0.01)
    curve.observe(8, 0.01)
    assert curve(8) == pytest.approx(0.01)


def test_each_worker_meets_each_size_once_and_again_when_it_is_a_new_process() -> None:
    batcher = Batcher(BatchingRules(max_batch=64))
    one, other = WorkerId("a/0"), WorkerId("a/1")
    for worker in (one, other):
        batcher.worker_warmed(worker, WarmUp((Rung(16, 0.085, (0.005,)),)), 0.0)
    assert batcher.curve.shape.seconds == pytest.approx(0.08)
    assert batcher.curve(16) == pytest.approx(0.005)
    batcher.worker_ready(one)
    batcher.worker_gone(one, 1.0)
    batcher.worker_warmed(one, WarmUp((Rung(16, 0.085, (0.005,)),)), 1.0)
    assert batcher.curve(16) == pytest.approx(0.005)
