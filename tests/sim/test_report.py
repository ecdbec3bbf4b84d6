"""The summary that `sim` and `bench` share."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock.load.report import Batches, Spread, Summary, spread, summarize, tables


def summary(**changed: Any) -> Summary:
    given: dict[str, Any] = {
        "duration": 10.0,
        "latencies": [0.1, 0.2, 0.3],
        "rejected_latencies": [0.001],
        "errors": {"SERVICE_OVERLOADED": 1, "CONNECT": 2},
        "batch": Batches(2, 1.5, {"full": 1, "due": 1}),
        "busy": 0.25,
    }
    return summarize(**{**given, **changed})


def test_percentiles_of_the_first_thousand_are_their_ranks() -> None:
    values = [number / 1000 for number in range(1, 1001)]
    Random(1).shuffle(values)
    assert spread(values) == Spread(500.5, 500, 900, 950, 990, 999, 1000)


@given(st.lists(st.floats(0, 1e3), min_size=1))
def test_percentiles_rise_and_are_values_that_occurred(values: list[float]) -> None:
    found = spread(values)
    rising = [found.p50, found.p90, found.p95, found.p99, found.p999, found.max]
    assert rising == sorted(rising, key=lambda value: value or 0.0)
    assert all(value in {round(v * 1000, 4) for v in values} for value in rising)


def test_the_spread_of_nothing_is_unknown() -> None:
    assert spread([]) == Spread(None, None, None, None, None, None, None)


def test_everything_sent_is_ok_or_an_error() -> None:
    found = summary()
    assert (found.sent, found.ok, found.rejected) == (6, 3, 1)
    assert found.sent == found.ok + sum(found.errors.values())


def test_late_answers_are_no_goodput() -> None:
    found = summary(late=1)
    assert (found.offered_rps, found.goodput_rps) == (0.6, 0.2)


def test_the_json_has_the_agreed_fields() -> None:
    fields = json.loads(summary().as_json())
    agreed = {"offered_rps", "sent", "ok", "rejected", "errors", "latency_ms", "batch", "busy"}
    assert agreed <= set(fields)
    assert list(fields["latency_ms"]) == ["mean", "p50", "p90", "p95", "p99", "p999", "max"]
    assert fields["batch"] == {
        "count": 2,
        "mean_size": 1.5,
        "reasons": {"full": 1, "due": 1},
        "padded_share": None,
    }
    assert fields["errors"] == {"CONNECT": 2, "SERVICE_OVERLOADED": 1}


def test_latencies_may_come_from_a_generator() -> None:
    assert summary(latencies=(value for value in [0.1, 0.2, 0.3])) == summary()


@pytest.mark.parametrize(
    ("late", "warned"), [([0.001] * 99 + [0.5], False), ([0.001] * 90 + [0.5] * 10, True)]
)
def test_a_generator_late_by_more_than_ten_milliseconds_is_warned_of(late: list[float], warned: bool) -> None:
    assert bool(summary(generator_lateness=late).warning) is warned


def test_the_tables_show_what_the_json_says() -> None:
    console = Console(width=100)
    with console.capture() as shown:
        console.print(tables(summary(generator_lateness=[0.02], source="a trace")))
    text = shown.get()
    for part in ("200.0", "CONNECT 2", "full 1", "25.0% busy", "generator lateness", "a trace", "warning"):
        assert part in text


def test_a_run_without_answers_has_tables_too() -> None:
    console = Console(width=100)
    with console.capture() as shown:
        console.print(
            tables(summary(latencies=[], rejected_latencies=[], errors={}, batch=Batches(), busy=None))
        )
    assert "offered" in shown.get()
