"""`penstock sim` as people call it."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.sim import sim
from penstock.errors import UserMistake
from penstock.service_model import parse_service
from penstock.sim.floor import floor

app = typer.Typer()
app.command()(sim)
CASE_A = ["--service", "100ms", "--workers", "6", "--max-batch", "32"]
SHORT = ["--duration", "4s", "--warmup", "1s"]
# A shell starts what it runs in the background with Ctrl-C ignored: these tests may have been started so.
PROGRAM = """
import signal, sys
from penstock.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def simulated(*options: str) -> Any:
    result = CliRunner().invoke(app, [*CASE_A, *SHORT, *options, "--json", "-"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def mistake(*options: str) -> str:
    result = CliRunner().invoke(app, list(options))
    assert isinstance(result.exception, UserMistake), result.output
    assert "\n" not in result.exception.message
    return result.exception.message


def a_trace(folder: Path) -> Path:
    path = folder / "trace.csv"
    rows = (f"2023-11-16 18:{second // 60:02}:{second % 60:02}.5000000,{second},1" for second in range(600))
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    return path


def test_what_new_sizes_cost_is_shown_and_gone_once_each_was_run_in_a_warm_up(tmp_path: Path) -> None:
    dear = ["--service", "15ms,new_shape=80ms", "--workers", "1", "--rate", "1000", "--warmup", "0s"]
    cold = simulated(*dear)["latency_ms"]["p99"]
    warm = simulated(*dear, "--batch-sizes", "powers", "--warmed")["latency_ms"]["p99"]
    settings = tmp_path / "penstock.toml"
    settings.write_text('[models.it]\ntarget = "sim:1ms"\nbatch_sizes = "powers"\nwarmup = ["a text"]\n')
    assert cold > 60.0
    assert warm < 31.0
    assert simulated(*dear, "--config", str(settings))["latency_ms"]["p99"] == warm


def test_like_lengths_of_a_trace_share_batches(tmp_path: Path) -> None:
    rows = (
        f"2023-11-16 18:{second // 60:02}:{second % 60:02}.5000000,{9 if second % 2 else 4000},1"
        for second in range(600)
    )
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    padding = ["--service", "5ms,length=1us", "--workers", "1", "--rate", "400", "--warmup", "0s"]
    played = [*padding, "--trace", str(trace)]
    mixed, grouped = simulated(*played), simulated(*played, "--group-lengths")
    bounded = simulated(*played, "--max-cost", "8000", "--batch-cost", "padded")
    assert grouped["latency_ms"]["p95"] < mixed["latency_ms"]["p95"]
    assert bounded["batch"]["mean_size"] <= 2.0 < mixed["batch"]["mean_size"]


def test_one_policy_gives_the_fields_of_bench_and_the_floor_beside() -> None:
    found = simulated("--rate", "1000")
    agreed = {"offered_rps", "sent", "ok", "rejected", "errors", "latency_ms", "batch", "busy"}
    assert agreed <= set(found)
    assert found["ok"] == found["sent"] > 3500
    assert found["floor_ms"]["mean"] == pytest.approx(108.333, abs=0.001)
    assert found["latency_ms"]["mean"] == pytest.approx(found["floor_ms"]["mean"], rel=0.02)


def test_several_policies_meet_the_same_arrivals() -> None:
    found = simulated("--policy", "paced,window,greedy")
    assert list(found) == ["paced", "window", "greedy"]
    assert len({policy["sent"] for policy in found.values()}) == 1
    means = [found[policy]["latency_ms"]["mean"] for policy in ("paced", "window", "greedy")]
    assert means == sorted(means)


def test_several_policies_are_shown_in_one_table_with_the_floor_below() -> None:
    result = CliRunner().invoke(app, [*CASE_A, *SHORT, "--policy", "paced, window"])
    rows = [line.split()[0] for line in result.stdout.splitlines()]
    assert rows == ["ms", "paced", "window", "floor"]


def test_batches_of_sizes_that_are_not_allowed_are_padded_and_the_share_is_told() -> None:
    padded = simulated("--rate", "300", "--batch-sizes", "powers")
    assert 0.1 < padded["batch"]["padded_share"] < 0.5
    assert padded["ok"] == padded["sent"]
    assert simulated("--rate", "300")["batch"]["padded_share"] == 0.0
    shown = CliRunner().invoke(app, [*CASE_A, *SHORT, "--rate", "300", "--batch-sizes", "4,8,32"])
    assert "% padding" in shown.stdout
    several = ["--policy", "paced,greedy", "--batch-sizes", "32"]
    assert "padded" in CliRunner().invoke(app, [*CASE_A, *SHORT, *several]).stdout


def test_one_policy_is_shown_in_full() -> None:
    result = CliRunner().invoke(app, [*CASE_A, *SHORT, "--tiers", "enterprise=1,free=3"])
    for part in ("latency", "batches", "floor", "served in time", "enterprise"):
        assert part in result.stdout


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    first, again, other = (
        simulated("--seed", seed, "--service", "a=100ms,jitter=5%") for seed in ("1", "1", "2")
    )
    assert first == again != other


def test_the_warm_up_is_left_out() -> None:
    with_it, without = (
        simulated("--arrivals", "uniform"),
        simulated("--arrivals", "uniform", "--warmup", "0s"),
    )
    assert with_it["sent"] == without["sent"] == 4000
    assert with_it["busy"] <= 1.0


def test_strict_tiers_under_overload_give_the_best_tier_everything() -> None:
    found = simulated(
        "--rate", "3840", "--timeout-ms", "200", "--tiers", "enterprise=0.2,paid=0.3,free=0.5",
        "--tiers-order", "strict", "--service", "a=100ms,jitter=10%",
    )  # fmt: skip
    share = {tier: figures["share"] for tier, figures in found["tiers"].items()}
    assert share["enterprise"] == pytest.approx(1.0, abs=0.01)
    assert share["paid"] == pytest.approx(0.96, abs=0.03)
    assert share["free"] == pytest.approx(0.02, abs=0.03)
    assert found["floor_ms"] is None  # above capacity there is none
    assert found["sent"] == found["ok"] + sum(found["errors"].values())


def test_without_admission_nothing_is_refused_at_the_door() -> None:
    overload = ("--rate", "3840", "--timeout-ms", "200")
    assert simulated(*overload)["rejected"] > 0
    assert simulated(*overload, "--no-admission")["rejected"] == 0


def test_faults_of_the_service_show_up_as_errors() -> None:
    found = simulated("--service", "a=100ms,fail=30%", "--rate", "200")
    assert found["errors"]["BACKEND_FAILED"] > 0


def test_a_trace_is_replayed_and_its_tokens_are_the_cost(tmp_path: Path) -> None:
    trace = ("--trace", str(a_trace(tmp_path)), "--rate", "200", "--warmup", "0s")
    assert simulated(*trace)["sent"] == 600
    found = simulated(*trace, "--max-cost", "500")
    assert found["errors"]["UNACCEPTABLE"] == 99  # those of more than 500 tokens
    assert found["batch"]["reasons"]["cost"] > 0
    assert found["floor_ms"] is None  # a trace is not steady


def test_a_servers_configuration_can_be_simulated(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[models.m]\ntarget = "sim:50ms"\nworkers = 4\nmax_batch = 32\npolicy = "greedy"\n')
    result = CliRunner().invoke(app, ["--config", str(path), *SHORT, "--json", "-"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["latency_ms"]["mean"] == pytest.approx(61, rel=0.05)


def test_the_figures_go_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    result = CliRunner().invoke(app, [*CASE_A, *SHORT, "--json", str(out)])
    assert json.loads(out.read_text())["sent"] > 0
    assert "latency" in result.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "--service 100ms"),
        (["--service", "fast"], "a time such as 100ms"),
        (["--service", "1s", "--policy", "paced,best"], "--policy"),
        (["--service", "1s", "--workers", "0"], "--workers"),
        (["--service", "1s", "--duration", "soon"], "--duration"),
        (["--service", "1s", "--arrivals", "sometimes"], "--arrivals"),
        (["--service", "1s", "--arrivals", "trace"], "--trace FILE"),
        (["--service", "1s", "--arrivals", "uniform", "--trace", "t.csv"], "--arrivals uniform"),
        (["--service", "1s", "--trace", "nowhere.csv"], "nowhere.csv"),
        (["--service", "1s", "--rate", "-1"], "rate"),
        (["--service", "1s", "--duration", "1ms", "--rate", "1"], "after the warm-up"),
        (["--service", "1s", "--tiers", "gold=1"], "gold"),
        (["--service", "1s", "--tiers-order", "mixed"], "--tiers-order"),
        (["--service", "1s", "--json", "nowhere/out.json"], "no folder"),
        (["--service", "1s", "--json", "/"], "cannot write /"),
        (["--service", "1s", "--cells", "--json", "/"], "cannot write /"),
        (["--service", "10ms", "--workers", "2", "--zones", "2", *SHORT, "--json", "/"], "cannot write /"),
        (["--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_a_mistake_is_told_in_one_line(options: list[str], says: str) -> None:
    assert says in mistake(*options)


def test_a_config_of_several_models_asks_which_one(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[models.a]\ntarget = "sim:1s"\n[models.b]\ntarget = "app:f"\n')
    assert "--model" in mistake("--config", str(path))
    assert "--service" in mistake("--config", str(path), "--model", "b")


def test_on_a_terminal_a_long_run_shows_its_progress_and_ctrl_c_ends_it_cleanly() -> None:
    screen, terminal = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, "sim", *CASE_A, "--duration", "20m"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal) as child:
        os.close(terminal)
        seen = b""
        while b"requests" not in seen:
            seen += os.read(screen, 4096)
        os.kill(child.pid, signal.SIGINT)
        seen += _rest(screen)  # to its end: a full terminal would hold up the child
        out, _ = child.communicate()
    assert child.returncode == 130
    assert (out, b"Traceback" in seen) == (b"", False)


def _rest(screen: int) -> bytes:
    rest = b""
    try:
        while part := os.read(screen, 4096):
            rest += part
    except OSError:  # a terminal whose other end is closed
        pass
    os.close(screen)
    return rest


@pytest.mark.parametrize(
    ("service", "workers", "max_batch", "rate", "mean", "p95"),
    [
        ("100ms", 6, 32, 10, 100.0, 100.0),
        ("100ms", 6, 32, 1000, 108.333, 115.833),
        ("50ms", 4, 32, 1000, 56.25, 61.875),
        ("200ms", 32, 64, 10_000, 203.125, 205.9375),
        ("a=50ms,b=0.5ms", 6, 100, 3000, 72.222, 77.222),
        ("a=20ms,knee=16", 2, 64, 1000, 25.0, 29.5),
        ("a=20ms,knee=16", 2, 64, 1599, 25.0, 29.5),
    ],
)
def test_the_floor_is_that_of_the_theory(
    service: str, workers: int, max_batch: int, rate: float, mean: float, p95: float
) -> None:
    found = floor(parse_service(service), workers, max_batch, rate)
    assert found is not None
    assert (found.mean, found.p95) == pytest.approx((mean, p95), abs=0.001)


def test_at_capacity_there_is_no_floor() -> None:
    assert floor(parse_service("100ms"), 6, 32, 1920) is None


def test_zones_are_compared_and_what_crossed_is_told() -> None:
    found = simulated("--rate", "1200", "--zones", "3")
    assert set(found) == {"deadline", "pool", "never"}
    assert found["deadline"]["crossed_share"] == found["never"]["crossed_share"] == 0.0
    assert found["pool"]["crossed_share"] > 0.5
    lost = simulated("--rate", "1100", "--zones", "a=1,b=1,c=1", "--lose", "c@1s", "--spill", "deadline")
    assert lost["accepted_failed"] == 0
    assert lost["inherited"] > 0
    shown = CliRunner().invoke(
        app, [*CASE_A, *SHORT, "--zones", "2", "--lose", "a@1s", "--spill", "deadline"]
    )
    assert " back" in shown.output


def test_what_is_wrong_with_zones_is_said_in_one_line() -> None:
    assert "divided evenly among 4" in mistake(*CASE_A, *SHORT, "--zones", "4")
    assert "2 to 26 zones" in mistake(*CASE_A, *SHORT, "--zones", "1")
    assert "a=0.6,b=0.4" in mistake(*CASE_A, *SHORT, "--zones", "a=1")
    assert "a=0.6,b=0.4" in mistake(*CASE_A, *SHORT, "--zones", "a=x,b=1")
    assert "deadline, pool, never" in mistake(*CASE_A, *SHORT, "--zones", "2", "--spill", "often")
    assert "a@30s" in mistake(*CASE_A, *SHORT, "--zones", "2", "--lose", "c@1s")
    assert "one --policy" in mistake(*CASE_A, *SHORT, "--zones", "2", "--policy", "paced,greedy")


def test_cells_are_counted_for_each_decade() -> None:
    options = ["--service", "100ms", "--max-batch", "32", "--rate", "200000", "--cells"]
    result = CliRunner().invoke(app, [*options, "--json", "-"])
    rows = json.loads(result.stdout)
    assert [row["rate"] for row in rows] == [1e3, 1e4, 1e5, 2e5]
    assert [row["cells"] for row in rows] == [1, 1, 2, 4]
    assert [row["limit"] for row in rows] == ["", "", "requests", "requests"]
    assert all(100.0 <= row["cell_p99_ms"] < 150.0 for row in rows)
