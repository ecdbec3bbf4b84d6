"""What `penstock sim --autoscale` plays and prints: the predicted rules, the classic rules and a fixed number of
workers on one schedule. `cli/sim.py` reads its options with `scaling_options`, and calls `compared` and `shown`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli.options import scaling_span
from penstock.config import Config
from penstock.config.sections import RULES
from penstock.errors import UserMistake
from penstock.from_config.scaling import scaling_rules
from penstock.load.traffic import Schedule
from penstock.sim.autoscaling import Staffed, fixed, scaled, table
from penstock.sim.kernel import Scenario


class Progress(Protocol):
    """What shows how far the simulation is."""

    def of(self, name: str) -> Callable[[int], None]:
        """Returns a function that is told how many requests have been played."""
        ...


def scaling_options(
    autoscale: str | None, rules: str | None, start: str | None, objective: str | None
) -> dict[str, object]:
    """Returns what the options set, by key of the configuration; nothing without --autoscale."""
    if autoscale is None:
        for option, given in (("--rules", rules), ("--start", start), ("--objective", objective)):
            if given is not None:
                raise UserMistake(f"{option} is of no use without --autoscale 1..8")
        return {}
    return {**scaling_span(autoscale), "autoscaler.start": start, "model.objective": objective}


def chosen_rules(rules: str | None) -> list[str]:
    """Returns the rules to compare: those that --rules names, or all. Raises UserMistake."""
    names = list(RULES) if rules is None else [part.strip() for part in rules.split(",")]
    for name in names:
        if name not in RULES:
            raise UserMistake(f"--rules is {' or '.join(RULES)}, not {name!r}")
    return names


def compared(
    settings: Config,
    model: str,
    scenario: Scenario,
    schedule: Schedule,
    warmup: float,
    rules: list[str],
    progress: Progress | None,
) -> dict[str, Staffed]:
    """Returns what each of the rules made of the schedule, and what the largest number of workers did."""
    asked = scaling_rules(settings.autoscaler)
    objective = settings.models[model].objective or scenario.request_limit
    ways = {
        name: partial(scaled, scenario, replace(asked, rules=name), schedule, warmup, objective)
        for name in rules
    }
    ways[f"fixed {asked.most}"] = partial(fixed, scenario, asked.most, schedule, warmup, objective)
    return {name: play(None if progress is None else progress.of(name)) for name, play in ways.items()}


def shown(found: Mapping[str, Staffed], schedule: Schedule) -> RenderableType:
    """Returns the table to print."""
    parts: list[RenderableType] = [table(found)]
    if schedule.source:
        parts.append(Text(f"traffic  {schedule.source}", style="dim"))
    return Group(*parts)
