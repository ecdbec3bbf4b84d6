import argparse
import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.all import FIGURES, arguments, passed_on, promises, wanted
from benchmarks.figure import Check, Figure, Say, conduct, keep, number
from benchmarks.generator import Measured, middle
from benchmarks.machine import describe
from benchmarks.pacing import ROWS, Result, floor

from benchmarks import added_latency, overload, pacing
from penstock.errors import UserMistake

GOOD = Measured(mean=109.0, p50=108.0, p95=117.0, p99=118.0, goodput=1000.0, sent=100, ok=99, errors=1)
NOTHING = Measured(mean=None, p50=None, p95=None, p99=None, goodput=0.0)


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_promise_holds_on_its_own_side_of_the_limit() -> None:
    assert Check("latency", 5.0, 5.0).holds
    assert not Check("latency", 5.1, 5.0).holds
    assert Check("goodput", 5.1, 5.0, at_least=True).holds
    assert not Check("goodput", 4.9, 5.0, at_least=True).holds


def test_what_has_no_figure_falls_short() -> None:
    assert Check("latency", None, 5.0).row()[1:] == ["– ms", "≤ 5.00 ms", "short"]


def test_the_page_and_the_json_carry_machine_command_and_verdicts(tmp_path: Path) -> None:
    figure = Figure("Title", "How.", ["| a |\n"], [Check("it", 2.0, 1.0)], ["A note."], {"rounds": [1, 2]})
    keep(tmp_path / "new", "it", figure, describe(), "python -m it")
    page = (tmp_path / "new" / "it.md").read_text(encoding="utf-8")
    kept = json.loads((tmp_path / "new" / "it.json").read_text(encoding="utf-8"))
    for words in ("# Title", "How.", "python -m it", "cores", "| a |", "short", "A note."):
        assert words in page
    assert kept["command"] == "python -m it"
    assert kept["machine"]["cores"] >= 1
    assert kept["rounds"] == [1, 2]
    assert promises(tmp_path / "new", ["it", "never run"]) == figure.checks


@pytest.mark.parametrize(("measured", "code"), [(1.0, 0), (3.0, 1)])
def test_the_exit_code_tells_whether_all_promises_held(tmp_path: Path, measured: float, code: int) -> None:
    def measure(_given: argparse.Namespace, _say: Say) -> Figure:
        return Figure("t", "m", checks=[Check("it", measured, 2.0)])

    assert conduct("it", argparse.Namespace(out=tmp_path), measure, []) == code


@pytest.mark.parametrize("trouble", [UserMistake("no such thing"), RuntimeError("it fell over")])
def test_what_cannot_be_measured_is_told_in_one_line_and_leaves_nothing(
    tmp_path: Path, trouble: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(_given: argparse.Namespace, _say: Say) -> Figure:
        raise trouble

    assert conduct("it", argparse.Namespace(out=tmp_path), measure, []) == 2
    assert str(trouble) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_middle_of_rounds_is_the_median_with_the_counts_added_up() -> None:
    rounds = [replace(GOOD, p99=p99) for p99 in (120.0, 900.0, 118.0)]
    assert (middle(rounds).p99, middle(rounds).sent) == (120.0, 300)


def test_a_round_without_answers_leaves_no_median() -> None:
    assert middle([GOOD, NOTHING, GOOD]).p99 is None


def test_numbers_keep_what_matters_of_them() -> None:
    assert [number(value) for value in (None, 0.123, 123.45, 12345.6)] == ["–", "0.12", "123.5", "12,346"]


def test_added_latency_is_the_difference_to_the_bare_echo() -> None:
    echo = replace(GOOD, p50=107.5, p99=110.0)
    checks = added_latency.figure([GOOD], [echo], 1.0).checks
    assert [(check.measured, check.holds) for check in checks] == [(0.5, True), (8.0, False)]


def test_pacing_is_held_against_the_floor_and_only_for_the_default_policy() -> None:
    results = [Result(ROWS[0], policy, GOOD, GOOD) for policy in ("paced", "window")]
    checks = pacing.figure(results, [], 60.0, 1).checks
    assert [round(check.limit, 1) for check in checks] == [111.6, 121.6, 128.2]
    assert all(check.holds for check in checks)


def test_every_promised_row_is_checked_and_the_others_are_reported() -> None:
    counts = {row.name: len(pacing.promises(Result(row, "paced", GOOD, GOOD))) for row in ROWS}
    assert counts == {"middle": 3, "light": 1, "heavy": 1, "c": 0, "code": 0, "conv": 0}


def test_at_light_load_the_floor_is_one_service_time_and_a_trace_has_none() -> None:
    by_name = {row.name: floor(row) for row in ROWS}
    assert by_name["light"] == (100.0, 100.0, 100.0)
    assert by_name["code"] == ()


def test_a_trace_that_is_not_there_is_left_out_with_a_line_saying_so(tmp_path: Path) -> None:
    said: list[str] = []
    given = pacing.arguments(["--rows", "code,conv", "--traces", str(tmp_path)])
    figure = pacing.measure(given, said.append)
    assert [line.partition(",")[0] for line in said] == ["Left out: A", "Left out: A"]
    assert figure.notes == said
    assert figure.checks == []


def test_an_unknown_row_or_figure_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UserMistake, match=r"unknown row 'medium': choose from middle, light"):
        pacing.wanted("medium")
    with pytest.raises(UserMistake, match=r"unknown figure 'speed': choose from overhead, added_latency"):
        wanted("speed")


def test_all_passes_on_what_each_figure_takes(tmp_path: Path) -> None:
    given = arguments(["--seconds", "2.5", "--traces", "t", "--out", str(tmp_path)])
    flags = {name: passed_on(name, given) for name in FIGURES}
    assert flags["overhead"][-4:] == ["--out", str(tmp_path / "overhead"), "--seconds", "2"]
    assert flags["pacing"] == ["--out", str(tmp_path), "--seconds", "2.5", "--traces", "t"]
    assert flags["waiting"] == ["--out", str(tmp_path)]


def test_best_tier_first_serves_the_best_in_full_and_wastes_nothing() -> None:
    for discipline in overload.PROMISED:
        outcome = overload.play(discipline, seconds=20.0)
        assert outcome.goodput == pytest.approx(0.996, abs=0.02)
        assert outcome.served == pytest.approx((1.0, 0.96, 0.02), abs=0.03)


def test_shedding_nothing_in_an_overload_serves_nobody_in_time() -> None:
    assert overload.play(overload.DISCIPLINES[0], seconds=20.0).goodput < 0.05
