"""Axes, series and the alarm: the small parts under the generator and its report."""

import asyncio
import time
from array import array
from itertools import pairwise

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from penstock.bench.alarm import Alarm
from penstock.bench.chart import FULL, NARROW, Axis, Chart, linear, logarithmic
from penstock.bench.load import Run
from penstock.bench.outcomes import Outcomes
from penstock.bench.plan import Plan
from penstock.bench.series import histogram, percentiles, timeline
from penstock.load.arrivals import uniform
from penstock.load.report import at_share

positive = st.floats(1e-3, 1e6)


@given(positive)
def test_a_linear_axis_holds_its_values_and_few_ticks(high: float) -> None:
    axis = linear(high, "x")
    assert axis.high >= high * 0.999
    assert 3 <= len(axis.ticks) <= 12


@given(positive, st.floats(1, 1e4))
def test_a_log_axis_holds_its_values_and_few_ticks(low: float, ratio: float) -> None:
    axis = logarithmic(low, low * ratio, "x")
    assert 0 <= axis.share(low) < axis.share(low * ratio * 1.001) <= 1
    assert 2 <= len(axis.ticks) <= 8


@given(positive, st.floats(1, 1e4))
def test_ticks_are_round_and_written_in_full(low: float, ratio: float) -> None:
    for axis in (logarithmic(low, low * ratio, "x"), linear(low * ratio, "x")):
        assert len(axis.ticks) >= 2
        steps = {later - sooner for (sooner, _), (later, _) in pairwise(axis.ticks)}
        assert all(
            f"{step:.3e}"[:5] in ("1.000", "2.000", "5.000", "3.000", "4.000", "9.000") for step in steps
        )
        for value, text in axis.ticks:
            assert float(text.replace(",", "")) == pytest.approx(value)


def test_ticks_that_would_touch_are_left_out() -> None:
    axis = Axis(0.0, 1.0, tuple((share / 20, f"{share},000,000") for share in range(21)))
    drawn = {
        size: Chart(axis, linear(1, "y"), size, "t").render().count(",000,000<") for size in (FULL, NARROW)
    }
    assert drawn[FULL] > drawn[NARROW] >= 2


@given(st.lists(positive, min_size=1))
def test_a_histogram_counts_every_value_once(values: list[float]) -> None:
    edges, counts = histogram(sorted(values))
    assert sum(counts) == len(values)
    assert len(edges) == len(counts) + 1
    assert edges == sorted(edges)


@given(st.lists(positive, min_size=1))
def test_the_percentile_curve_rises_to_the_largest_value(values: list[float]) -> None:
    heights = [value for _, value in percentiles(sorted(values))]
    assert heights == sorted(heights)
    assert heights[0] == min(values)


def test_a_percentile_is_the_smallest_value_that_so_many_are_not_above() -> None:
    assert at_share([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert [at_share([float(n) for n in range(1, 11)], tenth / 10) for tenth in range(1, 11)] == list(
        range(1, 11)
    )
    assert at_share([1.0], 0.0) == 1.0


def test_the_timeline_counts_each_request_once_at_its_own_time() -> None:
    outcomes = Outcomes(uniform(100, 3.07))
    for index, due in enumerate(outcomes.times):
        outcomes.went(index, due)
        outcomes.answered(index, due + 0.001, 503 if index % 10 == 0 else 200, b"")
    summary = outcomes.summary(1.0, 3.07, timeout=None, window=None, source="")
    plan = Plan(outcomes.times, array("L"), (), 1.0, 3.07)
    line = timeline(Run(plan, outcomes, 1.0, 3.07, summary))
    assert len(line.at) == 21
    assert line.offered == pytest.approx([100] * 21, rel=0.15)
    assert line.rejected == pytest.approx([10] * 21, abs=5)
    assert line.p50 == pytest.approx([1.0] * 21)


@pytest.mark.parametrize("delay", [0.0015, -1.0])
def test_the_alarm_rings_once_its_moment_has_come(delay: float) -> None:
    async def body() -> float:
        rang: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        def ring() -> None:
            alarm.close()  # unheard, it would ring on
            rang.set_result(time.monotonic())

        alarm = Alarm(asyncio.get_running_loop(), ring)
        moment = time.monotonic() + delay
        alarm.set(moment)
        late = await rang - moment
        alarm.close()
        alarm.close()
        return late

    assert uvloop.run(body()) >= -1e-6  # seconds as floats keep no single nanosecond
