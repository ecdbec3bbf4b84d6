"""One definition of each option: `penstock up` has those of `penstock serve`, and passes them on."""

from typing import Any

import pytest
import typer.main
from command_line import Typed, typed

from own_ports import free_ports
from penstock.cli import up as command
from penstock.cli.app import app_for
from penstock.cli.groups import GivenOptions, setting, takes
from penstock.cli.options import Clients, Logs, ModelOptions
from penstock.installation.plan import UpPlan

__all__ = ["typed"]

ONE_PROCESS_ONLY = {"--reload", "--log-format"}


def options(name: str) -> set[str]:
    known = typer.main.get_command(app_for([]))
    parameters = getattr(known, "commands")[name].params  # noqa: B009 - Typer has no public type for it
    return {option for each in parameters for option in each.opts if option.startswith("--")}


def test_up_takes_what_serve_takes() -> None:
    assert options("serve") - options("up") == ONE_PROCESS_ONLY


def test_the_gateways_and_the_workers_know_what_up_passes_on() -> None:
    def named(*groups: type) -> set[str]:
        given = GivenOptions({name: "x" for group in groups for name in vars(group)}, groups)
        return {word for word in given.as_arguments(*groups) if word.startswith("--")}

    assert named(Clients, Logs) <= options("gateway")
    assert named(ModelOptions, Logs) <= options("worker")
    assert len(named(ModelOptions)) == len([name for name in vars(ModelOptions) if name[0] != "_"])


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[UpPlan]:
    """What `up` would have started."""
    plans: list[UpPlan] = []

    async def caught(plan: UpPlan, *_: Any) -> int:
        plans.append(plan)
        return 0

    monkeypatch.setattr(command, "_run", caught)
    return plans


def test_each_worker_of_up_has_a_gpu_of_its_own(typed: Typed, plans: list[UpPlan]) -> None:
    first = free_ports(7)
    words = ["up", "sim:1ms", "--gpus", "0,2,5", "--warmup", "a", "--warmup", '["b"]', "--port", str(first)]
    assert typed(*words, "--admin-port", str(first + 1), "--input", "json")[0] == 0
    workers = [part for part in plans[0].parts("redis://r") if part.role == "worker"]
    given = ["--no-doubts", "--warmup", "a", "--warmup", '["b"]', "--input", "json"]
    assert [list(part.command[5:14]) for part in workers] == [[*given, "--gpus", gpu] for gpu in "025"]


def test_each_part_is_given_its_own_options(typed: Typed, plans: list[UpPlan]) -> None:
    first = free_ports(4)
    words = ["up", "sim:1ms", "-b", "7", "--output", "json", "--request-timeout", "9s", "--policy", "greedy"]
    words += ["--auth", "none", "--allow-anonymous", "--log-level", "debug"]
    assert typed(*words, "--port", str(first), "--admin-port", str(first + 1))[0] == 0
    gateway, batcher, worker = (list(part.command) for part in plans[0].parts("redis://r"))
    shared = ["--log-format", "text", "--log-level", "debug"]
    assert gateway[8:] == [
        "--auth", "none", "--allow-anonymous", "--redis", "redis://r", *shared, *gateway[-4:],
    ]  # fmt: skip
    assert batcher[3:] == ["batcher", "--redis", "redis://r", *shared, *batcher[-4:]]
    assert worker[3:] == [
        "worker", "sim:1ms", "--no-doubts", "--max-batch", "7", "--policy", "greedy", "--output", "json",
        "--request-timeout", "9s", "--redis", "redis://r", *shared, *worker[-4:],
    ]  # fmt: skip
    assert [part[-4:-2] for part in (gateway, batcher, worker)] == [
        ["--name", "gateway-1"],
        ["--name", "batcher-1"],
        ["--name", "worker-1"],
    ]


def test_an_option_of_a_group_is_one_line() -> None:
    class Weather:
        """Weather"""

        wind_speed = setting(int, "weather.wind", about="In knots.")
        dry = setting(bool, "weather.dry", "--dry", about="No rain.")
        port = setting(list[str], "weather.ports", read=tuple, about="To call at.")
        sail = setting(list[str], "weather.sails", about="To carry.")

    seen: list[GivenOptions] = []

    @takes(Weather)
    def sail(given: GivenOptions, boat: str = "sloop") -> int:
        seen.append(given)
        return 0

    small = typer.Typer()
    small.command()(sail)
    typer.main.get_command(small)(
        ["--wind-speed", "12", "--dry", "--port", "a", "--port", "b"], standalone_mode=False
    )
    (given,) = seen
    assert given.overrides(boat__name="x") == {
        "weather.wind": 12,
        "weather.dry": True,
        "weather.ports": ("a", "b"),
        "weather.sails": None,
        "boat.name": "x",
    }
    assert given.as_arguments(Weather, but=["dry"]) == ["--wind-speed", "12", "--port", "a", "--port", "b"]
