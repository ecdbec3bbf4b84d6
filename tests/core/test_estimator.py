"""What is learned on line."""

from collections.abc import Iterable
from itertools import pairwise
from math import exp
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.buffer import Depth
from penstock.core.estimator import REFIT, STALE, ServiceCurve
from penstock.core.lane import FORGOTTEN, Lane
from penstock.core.meters import ArrivalMeter, RateMeter
from penstock.core.rules import BatchingRules


def learned(
    limit: int, seconds: dict[int, float], *, noise: float = 0.0, batches: int = 1500
) -> ServiceCurve:
    curve, rng = ServiceCurve(limit), Random(7)
    sizes = list(seconds)
    for n in range(batches):
        size = sizes[n % len(sizes)]
        curve.observe(size, seconds[size] * max(0.1, rng.gauss(1.0, noise)))
    return curve


def test_a_curve_that_has_seen_nothing_says_zero() -> None:
    curve = ServiceCurve(64)
    assert (curve(1), curve(64), curve.samples, curve.best_size) == (0.0, 0.0, 0, 64)


def test_it_tells_which_sizes_it_has_seen_and_what_they_take() -> None:
    assert ServiceCurve(64).points == []
    curve = learned(64, {1: 0.01, 8: 0.02})
    assert [size for size, _ in curve.points] == pytest.approx([1, 8])
    assert [seconds for _, seconds in curve.points] == pytest.approx([0.01, 0.02])


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(st.tuples(st.integers(1, 128), st.floats(0.0, 3.0)), min_size=1, max_size=60))
def test_the_curve_is_monotone_and_positive_whatever_was_seen(seen: list[tuple[int, float]]) -> None:
    curve = ServiceCurve(128)
    for size, seconds in seen:
        curve.observe(size, seconds)
    times = [curve(size) for size in range(1, 129)]
    assert times[0] > 0.0
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(times))
    assert 1 <= curve.best_size <= 128
    assert curve.single == pytest.approx(times[0])
    assert curve.full == pytest.approx(times[-1])


def test_it_lies_between_what_it_has_seen() -> None:
    curve = learned(64, {4: 0.1, 32: 0.3})
    assert curve(2) == pytest.approx(0.1)
    assert curve(18) == pytest.approx(0.2)
    assert curve(64) == pytest.approx(0.3 + 0.2 / 28 * 32)


def test_a_constant_with_noise_is_flat_and_its_best_batch_is_the_largest() -> None:
    curve = learned(32, dict.fromkeys((1, 3, 9, 17, 25, 32), 0.1), noise=0.03)
    assert curve.flat
    assert curve.best_size == 32
    assert curve(16) == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize("knee", [16, 32, 64, 100])
def test_the_knee_is_found_through_the_noise(knee: int) -> None:
    times = {size: 0.004 * max(1.0, size / knee) for size in range(1, 257)}
    curve = learned(256, times, noise=0.02, batches=4000)
    assert not curve.flat
    assert curve(knee) == pytest.approx(0.004, rel=0.12)
    assert 0.7 * knee <= curve.best_size <= 1.5 * knee


@pytest.mark.parametrize("size", [1, 8, 32])
def test_a_tenfold_slowdown_is_believed_within_fifteen_batches(size: int) -> None:
    curve = learned(32, {1: 0.1, 8: 0.1, 32: 0.1})
    for _ in range(15):
        curve.observe(size, 1.0)
    assert curve(size) > 0.5
    assert curve(32) > 0.5
    for _ in range(15):
        curve.observe(size, 1.0)
    assert curve(size) > 0.85


def test_sizes_nobody_has_used_for_long_are_forgotten() -> None:
    curve = learned(32, {1: 0.1, 32: 2.0})
    for _ in range(STALE + REFIT):
        curve.observe(1, 0.1)
    assert curve(32) == pytest.approx(0.1)


def test_the_spread_is_the_noise() -> None:
    assert learned(32, {8: 0.1, 32: 0.1}, noise=0.1).spread == pytest.approx(0.1, rel=0.35)
    assert learned(32, {8: 0.1, 32: 0.1}).spread < 1e-6


def test_one_hiccup_hardly_widens_the_spread() -> None:
    curve = learned(32, {32: 0.1}, noise=0.02)
    before = curve.spread
    curve.observe(32, 2.0)
    assert curve.spread < 1.3 * before


def test_a_lane_is_judged_by_its_own_curve_only_while_it_is_fresh() -> None:
    model = ServiceCurve(8)
    lane = Lane((b"", 0), BatchingRules(), Depth(3), model)
    assert lane.curve is model
    for _ in range(4):
        model.observe(4, 1.0)
        lane.learn(4, 1.0, first=False, alone=False)
    assert lane.curve is not model
    for _ in range(FORGOTTEN + 1):
        model.observe(4, 0.1)
    assert lane.curve is model


def test_the_rate_is_counted_over_three_service_times_if_that_is_longer() -> None:
    lane = Lane((b"", 0), BatchingRules(), Depth(3), ServiceCurve(8))
    lane.learn(1, 0.01, first=False, alone=False)
    assert lane.meter.window == 0.25
    for _ in range(4):
        lane.learn(1, 0.5, first=False, alone=False)
    assert lane.meter.window > 0.7


def test_a_meter_finds_the_rate_and_forgets_it() -> None:
    meter, rng, now = RateMeter(0.25), Random(3), 0.0
    readings = []
    for _ in range(20_000):
        now += rng.expovariate(1000.0)
        meter.add(now)
        readings.append(meter.rate(now))
    assert sum(readings[1000:]) / len(readings[1000:]) == pytest.approx(1000.0, rel=0.03)
    assert meter.rate(now + 0.25) == pytest.approx(meter.rate(now) * 0.3679, rel=1e-3)
    assert meter.rate(now + 1e6) == 0.0


def test_one_that_comes_late_counts_as_now_and_does_not_swell_the_rate() -> None:
    meter = RateMeter(0.25)
    for step in range(100):
        meter.add(10.0 + step / 100)
    before = meter.rate(11.0)
    meter.add(7.0)  # three seconds under way
    assert before < meter.rate(11.0) <= before + 4.0


def seen_by(gaps: Iterable[float]) -> tuple[ArrivalMeter, float]:
    meter, now = ArrivalMeter(0.25), 50.0
    for gap in gaps:
        now += gap
        meter.add(now)
    return meter, now


def test_arrivals_at_a_steady_rate_see_that_rate() -> None:
    rng = Random(3)
    meter, now = seen_by(rng.expovariate(1000.0) for _ in range(5000))
    assert meter.peak == pytest.approx(1000.0, rel=0.1)
    assert meter.rate(now) == pytest.approx(1000.0, rel=0.3)
    meter, _ = seen_by(rng.expovariate(5.0) for _ in range(5000))
    assert meter.peak == pytest.approx(5.0, rel=0.5)


def test_arrivals_in_bursts_see_the_rate_of_the_burst() -> None:
    rng = Random(3)
    clumps = (rng.expovariate(2000.0) if n % 100 else 1.0 for n in range(5000))
    assert seen_by(clumps)[0].peak > 1000.0


def test_arrivals_that_are_surely_more_than_the_rate_are_seen_within_twenty() -> None:
    rng = Random(3)
    meter, now = seen_by(rng.expovariate(300.0) for _ in range(3000))
    calm = meter.rate(now)
    assert meter.rising(now, calm) == pytest.approx(calm, rel=0.35)
    for _ in range(20):
        now += 1 / 1200
        meter.add(now)
    assert meter.rate(now) < 1.3 * calm
    assert meter.rising(now, meter.rate(now)) > 1.4 * calm
    assert meter.rising(now + 1.0, meter.rate(now + 1.0)) == meter.rate(now + 1.0)


def test_two_that_come_together_first_of_all_are_a_flood_until_time_has_shown_otherwise() -> None:
    meter, now = seen_by([0.0, 0.001])
    assert meter.rate(now) > 300.0
    assert meter.rate(now + 0.1) < 30.0
    assert meter.rate(now + 0.99) == pytest.approx(forgotten(2, 0.25, 0.99), rel=0.05)
    assert ArrivalMeter().rate(1.0) == 0.0


def forgotten(count: float, window: float, age: float) -> float:
    return count * exp(-age / window) / window


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_staircase_is_learned_as_one(noise: float) -> None:
    padded = {size: 0.01 * max(1.0, (1 << (size - 1).bit_length()) / 16) for size in range(1, 129)}
    curve = learned(128, padded, noise=noise, batches=6000)
    for size in (8, 13, 16, 32, 64, 128):
        assert curve(size) == pytest.approx(padded[size], rel=0.12)
    assert curve(19) > 1.6 * curve(16)
    assert [curve.best_of(waiting) for waiting in (9, 16, 18, 21)] == [9, 16, 16, 16]


def test_all_go_together_where_throughput_grows_with_each() -> None:
    curve = learned(32, {size: 0.05 + 0.001 * size for size in range(1, 33)}, noise=0.05)
    assert [curve.best_of(waiting) for waiting in (1, 7, 20, 32)] == [1, 7, 20, 32]


def test_a_size_far_from_any_seen_is_hoped_to_be_no_slower_than_the_next_smaller() -> None:
    curve = learned(128, {1: 0.02, 64: 0.08})
    assert curve.hopeful(20) == pytest.approx(0.02)
    assert curve(20) > 0.035
    assert curve.hopeful(60) == curve(60)
    assert curve.hopeful(128) == pytest.approx(0.08)
    assert curve.best_of(1) == 1


def test_all_go_from_a_queue_that_is_behind_if_that_looks_better_beyond_luck_or_may_be_so() -> None:
    curve = learned(128, {1: 0.02, 16: 0.02, 64: 0.08, 128: 0.15}, noise=0.02)
    assert curve.most_of(1, far_behind=False) == 1
    assert curve.most_of(64, far_behind=False) == 16
    assert curve.most_of(128, far_behind=False) == 128  # 6 % better
    level = learned(128, {1: 0.02, 16: 0.02}, noise=0.02)
    for size, seconds in ((128, 0.162), (1, 0.02), (1, 0.02), (1, 0.02)):
        level.observe(size, seconds)
    assert level.most_of(128, far_behind=False) == 16
    assert level.most_of(128, far_behind=True) == 128  # run but once
    assert learned(32, {1: 0.1, 32: 0.1}).most_of(20, far_behind=True) == 20


def test_a_meter_that_is_widened_keeps_its_rate() -> None:
    meter = RateMeter(0.25)
    for n in range(1000):
        meter.add(n / 100)
    before = meter.rate(9.99)
    meter.widen(0.6)
    assert meter.rate(9.99) == pytest.approx(before)


def test_two_samples_that_differ_by_noise_say_nothing_of_sizes_never_seen() -> None:
    curve = ServiceCurve(64)
    curve.observe(3, 0.20)
    curve.observe(4, 0.23)
    assert curve(64) == curve(4)
    assert curve.largest == 4


@pytest.mark.parametrize("seen", [1, 3])
def test_a_size_that_has_met_a_standstill_is_not_made_slower_by_the_next_one(seen: int) -> None:
    """A machine that stands still makes batches of 30 look as if they took 0.5 s; later it stands still again."""
    curve = learned(64, {1: 0.006, 8: 0.006}, batches=40)
    for _ in range(seen):
        curve.observe(30, 0.5)
    for _ in range(10):
        curve.observe(1, 0.006)
    for seconds in (0.9, 0.7, 0.8):
        curve.observe(1, seconds)
    assert max(curve(size) for size in (1, 8, 30)) <= 1.0


def test_sizes_first_run_on_a_gpu_that_has_become_slow_are_believed_as_they_are() -> None:
    curve = learned(64, {1: 0.006, 8: 0.006}, batches=40)
    curve.observe(1, 0.5)
    curve.observe(30, 0.6)
    for _ in range(6):
        curve.observe(1, 0.5)
    assert curve(30) == pytest.approx(0.6, rel=0.1)


def test_sizes_that_are_known_move_along_with_one_that_is_off() -> None:
    curve = learned(64, {1: 0.01, 8: 0.02, 64: 0.08}, batches=90)
    for _ in range(10):
        curve.observe(1, 0.04)
    assert curve(64) == pytest.approx(0.32, rel=0.2)
