"""What the autoscaler's rules cost, as worker-hours, and how often the objective is missed with them.

    python -m benchmarks.autoscaling --traces FOLDER

predicted    the default: as many workers as the arrivals need, and those for the backlog
classic      thresholds on the queue and on the utilisation, each of which must have held for a while
fixed        as many workers from beginning to end as may ever be asked for; and the fewest that miss the objective
             no more often than the predicted rules do

In virtual time. The GPU is like one that runs a language model: a batch takes two seconds. Each run begins with as
many workers as may ever be asked for. Four traces: the Azure LLM traces of November 2023 as they were recorded
(--traces says where they are), and two made from a seed: a day's swing, and levels that jump every ten minutes.
With --first 1 each run begins with one worker, and the misses of the first minutes count.
"""

import argparse
import sys
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from benchmarks.figure import Check, Figure, Say, conduct, number, options
from benchmarks.table import markdown_table
from penstock.core.rules import BatchingRules
from penstock.core.scaling.seen import ScalingRules
from penstock.load import arrivals
from penstock.load.recorded import read
from penstock.load.traffic import DAY, SWING, Schedule
from penstock.service_model import parse_service
from penstock.sim.autoscaling import Staffed, fixed, scaled
from penstock.sim.kernel import Scenario

NAME = "autoscaling"
SERVICE = "sim:2s"
# In a batch. So one worker does 2 requests a second of those that were recorded, and 8 of those that are made up.
RECORDED, MADE_UP = 4, 16
OBJECTIVE, PATIENCE = 10.0, 20.0  # seconds: the latency that is meant to be kept, and the deadline
RULES = ScalingRules(least=1, most=8)
TRACES = {"Azure conversation": "azure_llm_2023_conv.csv", "Azure code": "azure_llm_2023_code.csv"}
SWINGING = 24.0  # requests a second, the mean of a day
HIGHEST, LEVEL, LEVELS = 40.0, 600.0, 24  # requests a second; seconds of one level; how many levels

CREDIT = (
    "The Azure traces are the Azure LLM inference traces of November 2023 (code and conversation), "
    "© Microsoft Azure, AzurePublicDataset, CC-BY 4.0, as they were recorded."
)

Found = dict[str, dict[str, Staffed]]  # by traffic, then by the way of having workers


def scenario(max_batch: int, first: int) -> Scenario:
    rules = BatchingRules(max_batch=max_batch, processing=PATIENCE)
    return Scenario(parse_service(SERVICE), first, rules, queue_limit=PATIENCE / 2, request_limit=PATIENCE)


def recorded(file: Path) -> Schedule:
    """The trace as it was recorded: its gaps are not scaled."""
    times = arrivals.trace(file, read(file).rate).times
    return Schedule(times, None, times[-1], CREDIT)


def day(seed: int = 1, rate: float = SWINGING, span: float = DAY) -> Schedule:
    times = arrivals.swinging(rate, span, SWING, span, Random(seed))
    return Schedule(times, None, span, "")


def jumps(seed: int = 1, levels: int = LEVELS) -> Schedule:
    """Levels that are drawn at random, each for ten minutes."""
    rng, times = Random(seed), array("d")
    for index in range(levels):
        rate = rng.uniform(0.1, 1.0) * HIGHEST
        times.extend(index * LEVEL + time for time in arrivals.poisson(rate, LEVEL, rng))
    return Schedule(times, None, levels * LEVEL, "")


def ways(schedule: Schedule, max_batch: int, first: int = RULES.most) -> dict[str, Staffed]:
    """What each way of having workers makes of the schedule. `first`: how many there are at the beginning."""
    play = scenario(max_batch, first)
    found = {
        name: scaled(play, replace(RULES, rules=name), schedule, 0.0, OBJECTIVE)
        for name in ("predicted", "classic")
    }
    found[f"fixed {RULES.most}"] = fixed(play, RULES.most, schedule, 0.0, OBJECTIVE)
    return found | fewest(play, schedule, found["predicted"].missed)


def fewest(play: Scenario, schedule: Schedule, missed: int) -> dict[str, Staffed]:
    """The fewest fixed workers that miss the objective no more than so often; nothing if all of them miss it more
    often."""
    low, high, best = 1, RULES.most, None
    while low <= high:
        middle = (low + high) // 2
        found = fixed(play, middle, schedule, 0.0, OBJECTIVE)
        if found.missed <= missed:
            best, high = (middle, found), middle - 1
        else:
            low = middle + 1
    return {} if best is None else {f"fixed {best[0]}": best[1]}


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__)
    parser.add_argument(
        "--first", type=int, default=RULES.most, help="workers at the beginning, where they come and go"
    )
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="with azure_llm_2023_{code,conv}.csv")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    traffics = {"a day's swing": day(), "levels that jump": jumps()}
    if given.traces is not None:
        traffics |= {name: recorded(given.traces / file) for name, file in TRACES.items()}
    found: Found = {}
    for name, schedule in traffics.items():
        found[name] = ways(schedule, RECORDED if name in TRACES else MADE_UP, given.first)
        for way, each in found[name].items():
            say(
                f"{name}, {way}: {each.hours:.2f} worker-hours, {each.missed:,} of {each.summary.sent:,} missed"
            )
    return figure(found, given.first)


def figure(found: Found, first: int = RULES.most) -> Figure:
    header = ["traffic", "workers", "worker-hours", "mean", "most", "changes", "missed", "part", "p95", "p99"]
    rows = [_row(traffic, way, each) for traffic, played in found.items() for way, each in played.items()]
    left_out = [name for name in TRACES if name not in found]
    return Figure(
        title="Autoscaling",
        method=(
            f"Simulated: a batch takes 2 s, of up to {RECORDED} requests for the recorded traces and {MADE_UP} for"
            f" the others. A start takes {RULES.start:g} s, and a worker is paid for from then on. {RULES.least} to"
            f" {RULES.most} workers, {first} at first; all other settings of the rules are the defaults."
            f" Missed: refused, failed, or answered after more than {OBJECTIVE:g} s. Latencies in seconds."
        ),
        tables=[markdown_table(header, rows, left=2)],
        checks=_promises(found),
        notes=[f"Left out: {name}; say where it is with --traces." for name in left_out] or [CREDIT],
        data={name: {way: each.as_dict() for way, each in played.items()} for name, played in found.items()},
    )


def _row(traffic: str, way: str, each: Staffed) -> list[str]:
    latency = each.summary.latency_ms
    return [
        traffic, way, f"{each.hours:,.2f}", f"{each.staff.mean:.2f}", f"{each.staff.most}",
        f"{len(each.staff.changes) - 1}", f"{each.missed:,}", f"{each.missed_share:.2%}",
        *(number(None if ms is None else ms / 1000) for ms in (latency.p95, latency.p99)),
    ]  # fmt: skip


def _promises(found: Found) -> list[Check]:
    """Fewer worker-hours than the classic rules, and no more misses."""
    checks = []
    for traffic, played in found.items():
        predicted, classic = played["predicted"], played["classic"]
        checks += [
            Check(f"{traffic}: worker-hours, predicted", predicted.hours, classic.hours, "h"),
            Check(f"{traffic}: missed, predicted", float(predicted.missed), float(classic.missed), ""),
        ]
    return checks


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
