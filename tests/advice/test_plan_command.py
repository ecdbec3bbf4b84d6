"""`penstock plan` as people call it."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.plan import plan
from penstock.errors import UserMistake

app = typer.Typer()
app.command()(plan)
FIRST = ["--curve", "100ms x 32", "--rate", "1000", "--objective", "200ms"]


def planned(*options: str) -> Any:
    result = CliRunner().invoke(app, [*options, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def mistake(*options: str) -> str:
    result = CliRunner().invoke(app, list(options))
    assert isinstance(result.exception, UserMistake), result.output
    return result.exception.message


def test_it_says_how_many_of_everything_and_what_it_assumes() -> None:
    result = CliRunner().invoke(app, [*FIRST, "--gpu-price", "3.6", "--spare", "1"])
    assert result.exit_code == 0, result.output
    for part in (
        "GPUs", "4 for the load and 1 that may fail", "gateways", "batchers", "Redis", "network",
        "5.00  for a million requests", "4 GPUs: p99", "3 GPUs cannot carry the load",
        "assumed  1,000 requests a second arriving independently", "99 % of them answered within 200ms",
        "1 in 100 ms, 32 in 100 ms (as given)", "2,048 bytes in", "`penstock serve` does it alone",
    ):  # fmt: skip
        assert part in result.stdout, part


def test_json_has_the_same_and_every_assumption() -> None:
    found = planned(*FIRST, "--async-share", "0.5", "--input-size", "1MB")
    assert (found["gpus"], found["gateways"], found["capacity_rps"]) == (4, 2, 1280.0)
    assert found["simulated"]["latency_ms"] < 200.0
    assert found["simulated"]["latency_ms"] == pytest.approx(found["estimated_latency_ms"], rel=0.05)
    assert found["assumed"]["input_bytes"] == 1_000_000
    assert found["memory"] > 2e9


def test_a_trace_brings_its_rate_and_its_bursts(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"2026-01-01 00:00:{second:02}.{part:02}0000,10" for second in range(30) for part in range(10)]
    rows += [f"2026-01-01 00:00:20.{part:03}000,10" for part in range(100, 200)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens", *rows]))
    found = planned("--curve", "100ms x 32", "--trace", str(trace), "--objective", "300ms")
    assert found["assumed"]["rate"] == pytest.approx(400 / 29, rel=0.05)
    assert found["assumed"]["bursts"] == pytest.approx(110 / 14, rel=0.1)
    assert found["gpus"] >= 2


def test_mistakes_name_the_option() -> None:
    assert "--objective is missing" in mistake("--curve", "100ms x 32", "--rate", "10")
    assert "--rate is missing" in mistake("--curve", "100ms x 32", "--objective", "1s")
    assert "--curve '100ms x 32', or --from" in mistake("--rate", "10", "--objective", "1s")
    assert "--curve '100ms x 32', or --from" in mistake(*FIRST, "--from", "http://127.0.0.1:9")
    assert "--quantile" in mistake(*FIRST, "--quantile", "99")
    assert "--trace has its own bursts" in mistake(*FIRST, "--trace", "x.csv", "--bursts", "3")
    assert "--input-size takes" in mistake(*FIRST, "--input-size", "much")
    asked = mistake("--from", "http://127.0.0.1:9", "--rate", "10", "--objective", "1s")
    assert "say where it is with --from URL" in asked
