"""`penstock sim --zones`: what several zones make of one schedule, and how they help each other. `cli/sim.py` calls
`compare_zones` with the options that it has read; `sim/zoned_study.py` plays."""

from collections.abc import Sequence

from rich.console import Console

from penstock.bench.options import parse_clients
from penstock.cli.json_file import write_json
from penstock.cli.options import seconds_of
from penstock.errors import UserMistake
from penstock.load.traffic import Schedule
from penstock.sim.kernel import Scenario
from penstock.sim.zoned import Spill, Zones
from penstock.sim.zoned_study import ZonedFinding, render_zones, zoned_study

NAMES = "abcdefghijklmnopqrstuvwxyz"


def compare_zones(
    scenario: Scenario,
    schedule: Schedule,
    warmup: float,
    *,
    zones: str,
    round_trip: str,
    spill: str,
    lose: str | None,
    json: str | None,
) -> None:
    """Plays the schedule once for each kind of `--spill`, and prints what came of it."""
    shares = _shares(zones)
    if scenario.workers % len(shares):
        raise UserMistake(f"--workers {scenario.workers} cannot be divided evenly among {len(shares)} zones")
    lost, lost_at = _loss(lose, list(shares))
    way = seconds_of(round_trip, "--round-trip")
    findings: dict[str, ZonedFinding] = {}
    for kind in spill.split(","):
        try:
            chosen = Spill(kind.strip())
        except ValueError:
            raise UserMistake(f"--spill is {', '.join(Spill)} or several of them, not {kind!r}") from None
        setting = Zones(shares, way, chosen, lost, warmup + lost_at)
        findings[chosen] = zoned_study(scenario, setting, schedule, warmup)
    console = Console(stderr=json == "-")
    fields = {kind: finding.as_dict() for kind, finding in findings.items()}
    write_json(fields if len(fields) > 1 else next(iter(fields.values())), json)
    console.print(render_zones(findings, lost))


def _shares(text: str) -> dict[str, float]:
    """Returns the part of the traffic that each zone is asked for, by a text: `3` for three even parts, or
    `a=0.6,b=0.4`."""
    if text.isdigit():
        if not 2 <= int(text) <= len(NAMES):
            raise UserMistake(f"--zones takes 2 to {len(NAMES)} zones, not {text}")
        return dict.fromkeys(NAMES[: int(text)], 1.0)
    try:
        shares = dict(parse_clients(text))
    except UserMistake:
        shares = {}
    if len(shares) < 2:
        raise UserMistake(f"--zones takes a number such as 3, or shares such as a=0.6,b=0.4, not {text!r}")
    return shares


def _loss(text: str | None, zones: Sequence[str]) -> tuple[str, float]:
    """Returns which zone is lost, and how many seconds after the warm-up, by a text such as `a@30s`."""
    if text is None:
        return "", float("inf")
    zone, at, when = text.partition("@")
    if zone not in zones or not at:
        raise UserMistake(f"--lose takes a zone and a time, such as {zones[0]}@30s, not {text!r}")
    return zone, seconds_of(when, "--lose")
