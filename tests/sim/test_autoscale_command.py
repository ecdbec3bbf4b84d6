"""`penstock sim --autoscale`: what workers that come and go cost, beside a fixed number."""

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.sim import sim
from penstock.config.sections import RULES
from penstock.core.scaling import scaler
from penstock.errors import UserMistake
from penstock.load.traffic import DAY, SWING, Traffic, make_schedule

app = typer.Typer()
app.command()(sim)
SMALL = ["--service", "1s", "--max-batch", "4", "--timeout", "10s", "--rate", "8", "--duration", "5m"]
SCALED = [*SMALL, "--autoscale", "1..4"]


def simulated(*options: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*SCALED, *options, "--json", "-"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_both_rules_and_the_largest_number_meet_the_same_arrivals() -> None:
    found = simulated()
    assert list(found) == ["predicted", "classic", "fixed 4"]
    assert len({each["sent"] for each in found.values()}) == 1
    most = found["fixed 4"]
    assert most["workers"]["mean"] == pytest.approx(4.0)
    assert most["workers"]["hours"] == pytest.approx(4 * 300 / 3600, rel=0.01)
    assert most["missed"] == {"requests": 0, "share": 0.0}
    assert found["predicted"]["workers"]["hours"] < most["workers"]["hours"]
    assert found["predicted"]["missed"]["requests"] < found["classic"]["missed"]["requests"]


def test_one_of_the_rules_may_be_chosen_and_a_table_is_for_people() -> None:
    assert list(simulated("--rules", "predicted")) == ["predicted", "fixed 4"]
    shown = CliRunner().invoke(app, SCALED).stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["workers", "predicted", "classic", "fixed"]


def test_a_longer_start_and_a_shorter_objective_cost_misses() -> None:
    usual, slow = (simulated("--rules", "predicted", *more)["predicted"] for more in ((), ("--start", "2m")))
    assert slow["missed"]["requests"] > usual["missed"]["requests"]
    strict = simulated("--rules", "predicted", "--objective", "500ms")["predicted"]
    assert strict["missed"]["requests"] == strict["sent"]


def test_a_day_begins_with_its_night() -> None:
    times = make_schedule(Traffic(1.0, DAY, warmup=0.0, arrivals="day")).times
    assert len(times) == pytest.approx(DAY, rel=0.02)
    night, noon = (sum(at < time < at + 3600 for time in times) for at in (0.0, DAY / 2))
    assert night == pytest.approx((1 - SWING) * 3600, rel=0.15)
    assert noon == pytest.approx((1 + SWING) * 3600, rel=0.15)


def test_the_names_of_the_rules_are_those_of_the_core() -> None:
    assert set(RULES) == set(scaler.RULES)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--autoscale", "8"], "--autoscale takes a span of workers such as 1..8, not '8'"),
        (["--autoscale", "5..2"], "--autoscale takes a span"),
        (["--autoscale", "0..0"], "--autoscale takes a span"),
        (["--autoscale", "1..4", "--rules", "best"], "--rules is predicted or classic, not 'best'"),
        (["--autoscale", "1..4", "--policy", "paced,greedy"], "choose one --policy"),
        (["--rules", "classic"], "--rules is of no use without --autoscale"),
        (["--start", "1s"], "--start is of no use without --autoscale"),
        (["--objective", "1s"], "--objective is of no use without --autoscale"),
    ],
)
def test_a_mistake_is_told_in_one_line(options: list[str], says: str) -> None:
    result = CliRunner().invoke(app, [*SMALL, *options])
    assert isinstance(result.exception, UserMistake)
    assert says in result.exception.message
