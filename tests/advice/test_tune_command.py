"""`penstock tune` as people call it."""

import json
import socket
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.apply import InForce, Row, refuse_what_cannot_be_applied
from penstock.cli.tune import tune
from penstock.errors import UserMistake
from penstock.load.arrivals import bursty

app = typer.Typer()
app.command()(tune)
BURSTY = ["--curve", "a=50ms,b=1ms x 8", "--workers", "2", "--rate", "150", "--jobs", "1"]
MODEL = '[models.m]\ntarget = "sim:a=50ms,b=1ms"\nworkers = 3\nmax_batch = 16\npolicy = "greedy"\n'


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at is the same in a simulation of a few hundred requests."""
    monkeypatch.setattr("penstock.cli.tuned.FEWEST", 200)
    monkeypatch.setattr("penstock.cli.tuned.SHORTEST", 1.0)
    monkeypatch.setattr("penstock.cli.tuned.SHORTEST_BURSTY", 2.0)
    monkeypatch.setattr("penstock.cli.tuned.MOST", 400)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tuned(*options: str) -> Any:
    result = CliRunner().invoke(app, [*options, "--jobs", "1", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def mistake(*options: str) -> str:
    result = CliRunner().invoke(app, list(options))
    assert isinstance(result.exception, UserMistake), result.output
    return result.exception.message


def recorded(file: Path, columns: str = "", rest: str = "") -> None:
    rows = [f"2026-01-01 00:00:{time:010.7f},10{rest}" for time in bursty(200.0, 2.0, 3.0, 1.0, Random(1))]
    file.write_text("\n".join([f"TIMESTAMP,ContextTokens{columns}", *rows]) + "\n")


def test_it_shows_what_is_in_force_what_is_advised_the_front_and_a_fragment(folder: Path) -> None:
    (folder / "penstock.toml").write_text(MODEL)
    recorded(folder / "arrivals.csv")
    result = CliRunner().invoke(app, ["--trace", "arrivals.csv", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    for part in (
        "in force", "advised", "the front", "GPU s/1,000", "p99:", "less", "settings were tried",
        "as recorded in arrivals.csv", "3 GPUs", "1 in 51 ms", "16 in 66 ms", "[models.m]", '# was "greedy"',
    ):  # fmt: skip
        assert part in result.stdout, part


def test_json_has_the_same_and_the_fragment_is_toml(folder: Path) -> None:
    (folder / "penstock.toml").write_text(MODEL)
    recorded(folder / "arrivals.csv")
    found = tuned("--trace", "arrivals.csv")
    assert found["in_force"]["policy"] == "greedy"
    assert found["advised"]["latency_ms"]["p99"] < found["in_force"]["latency_ms"]["p99"]
    assert 0.0 < found["gain"] < 1.0
    fragment = tomllib.loads(found["fragment"])["models"]["m"]
    assert fragment["policy"] == found["advised"]["policy"] != "greedy"
    assert found["tried"] < found["of"]
    gpus = [played["gpu_seconds"] for played in found["front"]]
    assert gpus == sorted(gpus, reverse=True)


def test_a_load_without_a_configuration_is_tuned_from_the_defaults(folder: Path) -> None:
    found = tuned(*BURSTY, "--bursts", "2", "--objective", "mean")
    assert (found["in_force"]["policy"], found["in_force"]["max_batch"]) == ("paced", 8)
    assert "with bursts of 2 times that" in found["assumed"][0]
    assert not found["changes"] or "[models.NAME]" in found["fragment"]


def test_gpu_seconds_are_saved_while_the_bound_is_kept(folder: Path) -> None:
    found = tuned(*BURSTY, "--objective", "gpu-seconds", "--within", "300ms")
    assert found["keeps"]
    assert found["advised"]["latency_ms"]["p99"] <= 300.0
    assert found["advised"]["gpu_seconds"] < found["in_force"]["gpu_seconds"]
    result = CliRunner().invoke(app, [*BURSTY, "--objective", "gpu-seconds", "--within", "60ms"])
    assert "No setting keeps 60.0 ms for 99 % of the requests" in result.stdout
    assert "`penstock plan` says how many GPUs would" in result.stdout


def test_what_is_as_good_as_it_gets_is_left_alone(folder: Path) -> None:
    """One GPU that takes one request at a time: there is nothing to choose."""
    options = ["--curve", "10ms x 1", "--rate", "20", "--jobs", "1"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    assert "Nothing to change: no other setting is surely more than 1 % better." in result.stdout
    assert "[models." not in result.stdout


def test_the_parts_of_the_tiers_are_those_of_the_trace_or_of_the_option(folder: Path) -> None:
    recorded(folder / "tiers.csv", ",Tier", ",free")
    with (folder / "tiers.csv").open("a") as file:
        file.write("2026-01-01 00:00:02.5,10,paid\n" * 200)
    options = ["--curve", "50ms x 4", "--workers", "2", "--trace", "tiers.csv"]
    found = tuned(*options, "--tier", "paid")
    assert any("tiers: free " in line and "that of paid" in line for line in found["assumed"])
    assert found["advised"]["order"] in ("strict", "weighted")
    assert "--tiers gold=0.5,…" in mistake(*options, "--tier", "gold")
    recorded(folder / "tiers.csv", ",Tier", ",gold")
    with (folder / "tiers.csv").open("a") as file:
        file.write("2026-01-01 00:00:02.5,10,paid\n")
    assert "the tier 'gold'" in mistake(*options)


def test_mistakes_name_the_option(folder: Path) -> None:
    assert "--objective is p99, p95, mean, gpu-seconds, not 'p42'" in mistake("--objective", "p42")
    assert "add that" in mistake(*BURSTY, "--within", "1s")
    assert "nothing says what to tune" in mistake("--rate", "10")
    assert "--trace FILE, or --rate" in mistake("--curve", "10ms x 4")
    recorded(folder / "arrivals.csv")
    assert "leave out --bursts" in mistake(*BURSTY, "--trace", "arrivals.csv", "--bursts", "2")
    (folder / "penstock.toml").write_text(MODEL + '[models.n]\ntarget = "http://a/b"\n')
    assert "choose one of the models with --model: m, n" in mistake("--rate", "10")
    assert "how long a batch of n takes" in mistake("--rate", "10", "--model", "n")
    asked = mistake("--from", "http://127.0.0.1:9", "--rate", "10")
    assert "say where it is with --from URL" in asked


def test_what_could_not_be_applied_is_refused_before_anything_is_tried(tmp_path: Path) -> None:
    policy, file = ("models", "m", "policy"), tmp_path / "penstock.toml"
    own = InForce([Row("models.m.policy", '"paced"', "default")], 1, socket.gethostname())
    with pytest.raises(UserMistake, match="name it with --config"):
        refuse_what_cannot_be_applied(own, [policy], file)
    file.write_text("")
    refuse_what_cannot_be_applied(own, [policy], file)
    option = InForce([Row("models.m.policy", '"paced"', "--policy")], 1, socket.gethostname())
    with pytest.raises(UserMistake, match=r"models\.m\.policy is set by --policy, which wins over the file"):
        refuse_what_cannot_be_applied(option, [policy], file)
    elsewhere = InForce([], 1, "another-machine")
    with pytest.raises(UserMistake, match="the server is on another-machine"):
        refuse_what_cannot_be_applied(elsewhere, [policy], file)
