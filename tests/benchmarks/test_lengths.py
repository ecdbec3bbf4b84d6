"""What the figure of lengths says of traffic that is made up."""

import pytest
from benchmarks.lengths import LOADS, MADE_UP, SETTINGS, Played, at_p99, figure, made_up, play

TRAFFIC = made_up(3_000)


def test_like_lengths_in_one_batch_leave_little_to_pad() -> None:
    plain, grouped, bounded = (play(TRAFFIC, setting, LOADS[-1] * TRAFFIC.full) for setting in SETTINGS)
    assert plain.computed > 2.0
    assert grouped.computed < 1.25
    assert bounded.computed < 1.25
    assert grouped.p99 < plain.p99


def test_the_rate_at_equal_latency_is_the_highest_that_keeps_it() -> None:
    plain, grouped = (at_p99(TRAFFIC, setting, 50.0, rounds=4) for setting in ("as they come", "grouped"))
    assert plain.p99 <= 50.0
    assert grouped.p99 <= 50.0
    assert grouped.rate > 1.5 * plain.rate
    assert grouped.computed < plain.computed


def test_the_promise_is_of_the_highest_load() -> None:
    rows = [
        Played(MADE_UP, setting, rate, computed, 4.0, 9.0, 18.0, 30.0)
        for setting in SETTINGS
        for rate, computed in ((100.0, 9.0), (200.0, 1.1))
    ]
    checks = figure(rows, []).checks
    assert [check.measured for check in checks] == pytest.approx([1.1, 1.0])
    assert all(check.holds for check in checks)
