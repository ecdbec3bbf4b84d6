"""The windows through which the autoscaler looks at the past, and the starts it measures."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.scaling.starts import Starts
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
    starts = Starts(30.0)
    assert (starts.seconds, starts.measured, starts.next_in(0.0)) == (30.0, False, None)
    starts.look(2, 0.0)
    starts.asked(2, 0.0)
    assert starts.next_in(10.0) == 20.0
    starts.look(3, 12.0)
    assert (starts.seconds, starts.measured, starts.next_in(12.0)) == (12.0, True, 0.0)
    starts.look(5, 20.0)  # one of them was not asked for
    assert (starts.seconds, starts.next_in(20.0)) == (16.0, None)


def test_a_worker_that_dies_and_comes_back_is_no_start() -> None:
    starts = Starts(30.0)
    for now, ready in ((0.0, 2), (1.0, 1), (2.0, 2)):
        starts.look(ready, now)
    assert not starts.measured


def test_the_latest_starts_are_called_off_first() -> None:
    starts = Starts(30.0)
    starts.asked(1, 0.0)
    starts.asked(2, 20.0)
    starts.asked(-2, 21.0)
    assert starts.next_in(25.0) == 5.0
    starts.asked(-5, 25.0)
    assert starts.next_in(25.0) is None
