"""What the figure of the ledger promises, and what it counts."""

from dataclasses import replace

from benchmarks.all import arguments, passed_on
from benchmarks.generator import Measured, Traffic
from benchmarks.ledger import Count, Turn, accepted, figure
from benchmarks.wrk import Load, Measurement

STEADY = Measured(mean=9.0, p50=8.0, p95=17.0, p99=18.0, goodput=9_990.0, sent=600_000, ok=600_000)
GOOD = Count(accepted=100, rows=100, different=100)


def turn(rate: float, count: Count | None = None) -> Turn:
    return Turn(Measurement(int(rate * 4), 4.0, 0, 0), {"penstock serve": 1.0}, count)


def held(kept: Turn, count: Count, steady: Measured = STEADY) -> list[bool]:
    plain = replace(STEADY, goodput=10_000.0)
    made = figure([kept], [turn(20_000)], Load(512, 1, 4), Traffic(10_000.0, 60), steady, plain, count)
    return [check.holds for check in made.checks]


def test_throughput_rows_and_rate_are_held_to_what_was_promised() -> None:
    assert held(turn(19_100, GOOD), GOOD) == [True] * 4
    assert held(turn(19_100, GOOD), GOOD, replace(STEADY, goodput=9_600.0)) == [True, True, True, False]
    assert held(turn(19_100, GOOD), GOOD, replace(STEADY, goodput=9_400.0)) == [False, True, True, False]


def test_a_missing_or_doubled_row_of_any_turn_falls_short() -> None:
    assert held(turn(20_000, Count(100, 99, 99)), GOOD) == [True, False, True, True]
    assert held(turn(20_000, GOOD), Count(100, 101, 100)) == [True, True, False, True]


def test_every_request_that_ended_counts_however_it_did() -> None:
    lines = (
        "# TYPE penstock_requests counter",
        'penstock_requests_total{model="a",outcome="SUCCESS"} 40.0',
        'penstock_requests_total{model="a",outcome="CLIENT_LEFT"} 2.0',
    )
    assert accepted("\n".join(lines) + "\n") == 42


def test_a_short_run_of_all_figures_shortens_the_recording_too() -> None:
    flags = passed_on("ledger", arguments(["--seconds", "2.4"]))
    assert flags[2:] == ["--seconds", "2", "--recorded", "2"]
