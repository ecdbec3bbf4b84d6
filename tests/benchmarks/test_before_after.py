import os
import sys
from pathlib import Path

import pytest
from benchmarks.before_after import (
    THIS,
    Comparison,
    Turn,
    arguments,
    checkout,
    dealt,
    figure,
    main,
    program,
    quartiles,
)
from benchmarks.cores import pinned
from benchmarks.wrk import Load

from penstock.errors import UserMistake


def test_a_checkout_is_served_by_its_own_environment(tmp_path: Path) -> None:
    own = tmp_path / ".venv" / "bin" / "penstock"
    own.parent.mkdir(parents=True)
    own.touch()
    assert program(tmp_path) == ([str(own)], {})


def test_a_checkout_without_one_is_served_by_this_python_with_its_source(tmp_path: Path) -> None:
    command, variables = program(tmp_path)
    assert command == [sys.executable, "-m", "penstock"]
    assert variables == {"PYTHONPATH": f"{tmp_path}/src"}


def test_what_is_no_checkout_is_refused(tmp_path: Path) -> None:
    assert checkout(THIS) == THIS
    with pytest.raises(UserMistake, match="is no checkout of Penstock"):
        checkout(tmp_path)


def test_all_kinds_of_heads_are_measured_unless_some_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert arguments(["there"]).heads == "same,realistic,keys"
    assert main([str(THIS), "--heads", "other"]) == 2
    assert "unknown kind of heads 'other': choose from same, realistic, keys" in capsys.readouterr().err


def test_a_pair_of_turns_counts_as_one_value_whatever_the_machine_did_meanwhile() -> None:
    pairs = [
        (Turn(100.0, 30.0), Turn(110.0, 27.0)), (Turn(50.0, 60.0, 1), Turn(55.0, 54.0)),
        (Turn(200.0, 30.0), Turn(180.0, 33.0, 2)),
    ]  # fmt: skip
    comparison = Comparison(Path("there"), "realistic", pairs)
    assert quartiles(comparison.parts) == pytest.approx((1.0, 1.1, 1.1))
    assert comparison.row() == [
        "realistic heads", "there", "100", "110", "1.100", "1.000–1.100", "30.0", "33.0", "0.900", "0.900–1.000",
        "3", "3",
    ]  # fmt: skip


def test_a_single_pair_has_itself_for_quartiles() -> None:
    assert quartiles([0.9]) == (0.9, 0.9, 0.9)


def test_a_slower_checkout_falls_short() -> None:
    pairs = [(Turn(100.0, 30.0), Turn(96.0, 30.0))] * 2
    result = figure([Comparison(Path("there"), "same", pairs)], Load(), None)
    assert [check.holds for check in result.checks] == [False]
    assert "identical heads" in result.body()


def test_cores_move_on_from_round_to_round_and_the_generator_has_its_own() -> None:
    assert dealt([0, 1, 2, 3], 0) == ({0}, {1, 2})
    assert dealt([0, 1, 2, 3], 3) == ({3}, {0, 1})
    assert dealt([0, 1], 0) is None


def test_processes_that_are_started_meanwhile_keep_to_their_cores() -> None:
    before = os.sched_getaffinity(0)
    one = {min(before)}
    with pinned(one):
        assert os.sched_getaffinity(0) == one
    assert os.sched_getaffinity(0) == before


def test_a_machine_without_wrk_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main([str(THIS), "--out", str(tmp_path)]) == 2
    assert "wrk is not installed" in capsys.readouterr().err
