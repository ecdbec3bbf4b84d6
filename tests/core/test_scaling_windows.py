"""The windows through which the autoscaler looks at the past, and the starts it measures."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.scaling.starts import REMEMBERED, TOO_LONG, Starts
from penstock.core.scaling.windows import FEW, Held, Peak, Scatter, Window


def test_a_rate_is_what_came_since_the_first_look_until_the_window_is_full() -> None:
    window = Window(10.0)
    assert window.rate(0.0) == 0.0
    window.add(1000, 0.0)  # nobody knows how long these took to come
    assert window.rate(0.0) == 0.0
    for second in range(1, 31):
        window.add(5, float(second))
        assert window.rate(float(second)) == 5.0
        assert window.span(float(second)) == min(second, 10.0)


def test_one_look_after_a_long_pause_still_tells_the_rate() -> None:
    window = Window(10.0)
    window.add(0, 0.0)
    window.add(4, 1.0)
    window.add(200, 101.0)
    assert window.rate(101.0) == 2.0


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 9)), max_size=60))
def test_the_peak_is_the_largest_of_the_window(steps: list[tuple[float, int]]) -> None:
    peak, now, seen = Peak(10.0), 0.0, []
    for gap, number in steps:
        now += gap
        seen.append((now, number))
        assert peak.add(number, now) == max(each for when, each in seen if when >= now - 10.0)


def scattered(counts: list[float]) -> float:
    """The factor after one such count in each second."""
    scatter = Scatter(1.0)
    scatter.add(1000, 0.0)  # nobody knows how long these took to come
    for second, count in enumerate(counts):
        scatter.add(count, second + 1.0)
    return scatter.factor


def test_arrivals_of_independent_clients_scatter_by_the_factor_1() -> None:
    rng = Random(1)
    assert scattered([sum(rng.random() < 0.1 for _ in range(1000)) for _ in range(40)]) < 1.3


def test_even_arrivals_a_slow_rise_and_none_at_all_are_no_scatter() -> None:
    assert scattered([100.0] * 40) == scattered([100.0 + second for second in range(40)]) == 1.0
    assert scattered([0.0] * 40) == 1.0


def test_arrivals_in_bursts_scatter_more_once_there_were_a_few_counts() -> None:
    bursts = [0.0, 400.0] * 20
    assert scattered(bursts) == pytest.approx(20.0)  # 200 apart from a mean of 200, and √200 would be chance
    assert scattered(bursts[: FEW - 1]) == 1.0
    assert scattered(bursts[:FEW]) > 1.0


def test_a_condition_holds_since_it_began_and_from_anew_after_a_break() -> None:
    held = Held()
    assert [held.look(now, holds=now != 3.0) for now in (1.0, 2.0, 3.0, 4.0, 6.0)] == [
        0.0,
        1.0,
        -1.0,
        0.0,
        2.0,
    ]


def test_a_start_takes_as_long_as_the_last_ones_did() -> None:
    starts = Starts(30.0, 2)
    assert (starts.seconds, starts.measured, starts.next_in(0.0)) == (30.0, False, None)
    starts.look(2, 0.0)
    starts.asked(2, 0.0)
    assert starts.next_in(10.0) == 20.0
    starts.look(3, 12.0)
    assert (starts.seconds, starts.measured, starts.next_in(12.0)) == (12.0, True, 0.0)
    starts.look(5, 20.0)  # one of them was not asked for
    assert (starts.seconds, starts.next_in(20.0)) == (16.0, None)


def test_a_worker_that_dies_and_comes_back_is_no_start() -> None:
    starts = Starts(30.0, 2)
    for now, ready in ((0.0, 2), (1.0, 1), (2.0, 2)):
        starts.look(ready, now)
    assert not starts.measured


def test_nor_is_it_one_while_another_worker_starts() -> None:
    """A pod was pending for two hours, and a worker beside it was started anew meanwhile."""
    starts = Starts(30.0, 2)
    starts.look(2, 0.0)
    starts.asked(1, 0.0)
    for now, ready in ((7200.0, 1), (7260.0, 2)):
        starts.look(ready, now)
    assert not starts.measured
    assert starts.next_in(7260.0) == 0.0  # it is late, and not called off


def test_nor_if_it_was_away_already_when_another_was_asked_for() -> None:
    starts = Starts(30.0, 2)
    starts.look(2, 0.0)
    starts.look(1, 10.0)
    starts.asked(1, 20.0)
    starts.look(2, 25.0)
    assert not starts.measured
    starts.look(3, 60.0)
    assert starts.seconds == 40.0


def test_workers_that_were_there_before_the_first_look_are_no_starts() -> None:
    starts = Starts(30.0, 3)
    starts.asked(2, 0.0)
    starts.look(3, 1.0)
    assert not starts.measured
    starts.look(5, 21.0)
    assert starts.seconds == 21.0


def test_a_start_is_measured_though_more_workers_were_there_once() -> None:
    starts = Starts(30.0, 8)
    starts.look(8, 0.0)
    starts.asked(-6, 10.0)
    starts.look(2, 12.0)
    starts.asked(1, 15.0)
    starts.look(3, 35.0)
    assert starts.seconds == 20.0


def test_what_took_far_longer_than_a_start_may_is_not_measured() -> None:
    starts = Starts(30.0, 1)
    starts.look(1, 0.0)
    starts.asked(2, 0.0)
    starts.look(2, 30.0 * TOO_LONG)
    assert starts.seconds == 30.0 * TOO_LONG  # what was believed may have been far off
    starts = starts_of(20.0)
    starts.asked(1, 100.0)
    starts.look(REMEMBERED + 1, 100.0 + 31.0 * TOO_LONG)
    assert starts.seconds == 20.0
    assert starts.next_in(10_000.0) is None


def starts_of(seconds: float) -> Starts:
    """After as many starts as are remembered, each of which took so long."""
    starts = Starts(30.0)
    starts.asked(REMEMBERED, 0.0)
    starts.look(REMEMBERED, seconds)
    return starts


def test_a_model_that_has_enough_workers_for_another_model_s_sake_waits_for_none() -> None:
    starts = Starts(30.0, 1)
    starts.look(8, 0.0)
    starts.asked(2, 0.0)
    starts.look(8, 1.0)
    assert (starts.measured, starts.next_in(1.0)) == (False, None)


def test_the_latest_starts_are_called_off_first() -> None:
    starts = Starts(30.0)
    starts.asked(1, 0.0)
    starts.asked(2, 20.0)
    starts.asked(-2, 21.0)
    assert starts.next_in(25.0) == 5.0
    starts.asked(-5, 25.0)
    assert starts.next_in(25.0) is None
