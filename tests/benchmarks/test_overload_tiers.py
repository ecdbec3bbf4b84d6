"""What the figure of overload by tiers makes of what its clients saw."""

from random import Random

import pytest
from benchmarks.floors import Service
from benchmarks.overload_tiers import Part, part, seconds_to_normal
from benchmarks.tiered_load import Phase, Seen, TieredTraffic, requests, schedule

from penstock.bench.options import parse_server

TEN = Service(a=0.1, workers=1, max_batch=1)  # requests a second


def seen(*rows: tuple[float, int, int, float]) -> Seen:
    """Each: when it was due, its tier, its status, and the seconds of its last attempt."""
    due, tier, status, seconds = (list(column) for column in zip(*rows, strict=True))
    done = [at + took for at, took in zip(due, seconds, strict=True)]
    return Seen(due, tier, due, done, status, [2] * len(rows), [])


def test_goodput_counts_answers_in_time_and_late_ones_are_told_apart() -> None:
    found = part(
        seen((0.0, 0, 200, 0.1), (0.1, 0, 200, 1.5), (0.2, 1, 503, 0.1), (0.3, 2, 0, 0.0), (9.0, 0, 200, 0.1)),
        TEN, 0.0, 1.0,
    )  # fmt: skip
    assert (found.goodput, found.served, found.late) == (10.0, (50.0, 0.0, 0.0), 50.0)
    assert (found.attempts, found.unanswered) == (2.0, 1)
    assert found.p95_ms == pytest.approx(1500.0)


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        ([], 0.0),
        ([(10.5, 0, 503, 0.1)], 1.0),
        ([(12.5, 2, 200, 0.4)], 3.0),
        ([(10.5, 0, 503, 0.1), (11.5, 0, 0, 0.0)], 2.0),
    ],
)
def test_it_is_normal_again_when_everybody_is_served_about_as_fast_as_before(
    after: list[tuple[float, int, int, float]], seconds: float
) -> None:
    calm = [(10.25 + second, 1, 200, 0.12) for second in range(5)]
    before = Part(100.0, (100.0, 100.0, 100.0), 0.0, 1.0, 120.0, 0)
    assert seconds_to_normal(seen(*sorted(calm + after)), TEN, before, 10.0, 15.0) == seconds


def test_each_phase_follows_the_one_before_and_each_client_shows_its_key() -> None:
    traffic = TieredTraffic(
        "http://127.0.0.1:8000", [Phase(100.0, 1.0), Phase(1000.0, 1.0)], [1.0, 1.0], [["k1"], ["k2"]], 500
    )
    times = schedule(traffic, Random(1))
    assert list(times) == sorted(times)
    assert sum(at < 1.0 for at in times) == pytest.approx(100, abs=50)
    assert sum(at >= 1.0 for at in times) == pytest.approx(1000, abs=150)
    (first,), (second,) = requests(traffic, parse_server(traffic.url))
    assert b"Authorization: Bearer k1\r\n" in first
    assert b"Authorization: Bearer k2\r\n" in second
    assert b'"timeout_ms":500' in second
