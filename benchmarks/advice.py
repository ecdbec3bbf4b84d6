"""Are the advised settings the best there are? `penstock tune` and `penstock plan` beside an exhaustive search, in
virtual time, on the same arrivals.

    python -m benchmarks.advice --traces FOLDER

For each load every setting is simulated that `tune` may try, and what it advises, having tried a part of them, is
held against the best of all. For `plan` every number of GPUs is simulated that can carry the load at
all, on the whole trace. Without a folder of traces the arrivals are made up: even ones, and bursts.
"""

import argparse
import os
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from random import Random

from benchmarks.figure import Check, Figure, Say, above_zero, at_least_one, chosen, conduct, options
from benchmarks.matrix.cells import CURVES, TRACES
from benchmarks.pacing import CREDIT
from benchmarks.table import markdown_table
from penstock.advice.arithmetic import Need, capacity, enough_workers, least_workers
from penstock.advice.curve import Curve
from penstock.advice.goal import GPU_SECONDS, Goal
from penstock.advice.plan import make_plan
from penstock.advice.played import MEAN, P95, P99, Game, Played
from penstock.advice.setting import Setting, setting_of
from penstock.advice.side_by_side import Players
from penstock.advice.space import space_of
from penstock.advice.trial import try_workers
from penstock.advice.tuning import Advice, tune
from penstock.core.rules import BatchingRules
from penstock.load import arrivals
from penstock.load.traffic import Schedule
from penstock.service_model import parse_service
from penstock.sim.kernel import Scenario

NAME = "advice"
WORKERS = 4
WHOLE = 20_000  # requests, for `plan`: more than a trace has
WARM_UP = 0.02  # of the time, and not counted
LIMIT = 1.02  # times the best
OBJECTIVES = (P99, P95, MEAN, GPU_SECONDS)
IN_TIMES = 3.0  # `plan` is asked for GPUs that answer within so many times a full batch


@dataclass(frozen=True, slots=True)
class Load:
    """One model under one load."""

    curve: str
    traffic: str
    load: float  # part of the capacity of all workers

    @property
    def gpu(self) -> Curve:
        text, largest = CURVES[self.curve]
        return Curve(parse_service(text), largest, "made up")

    @property
    def rate(self) -> float:
        return self.load * capacity(self.gpu, WORKERS)

    def __str__(self) -> str:
        return f"{WORKERS} × {self.curve}, {self.load:.0%}, {self.traffic}"


def arriving(load: Load, most: int, traces: Path | None) -> "array[float]":
    if traces is not None:
        return arrivals.trace(traces / TRACES[load.traffic], load.rate).times[:most]
    span, rng = most / load.rate, Random(str(load))
    if load.traffic == "bursts":
        return arrivals.bursty(load.rate, span, 3.0, span / 20, rng)
    return arrivals.poisson(load.rate, span, rng)


@dataclass(frozen=True, slots=True)
class Held:
    """What was advised, held against the best of all. Both as people read them, and the quotient of the two."""

    load: str
    asked: str
    best: str
    advised: str
    ratio: float
    before: str  # of what was in force
    tried: str

    def row(self) -> list[str]:
        return [self.load, self.asked, self.best, self.advised, f"{self.ratio:.3f}", self.before, self.tried]


def tuned(load: Load, times: "array[float]", jobs: int, objectives: Sequence[str] = OBJECTIVES) -> list[Held]:
    """What `tune` advises for each objective."""
    gpu = load.gpu
    full = gpu.seconds(gpu.max_batch)
    rules = BatchingRules(max_batch=gpu.max_batch, processing=max(3.0, 2 * full))
    scenario = Scenario(gpu.service, WORKERS, rules)
    now = setting_of(scenario)
    space = space_of(now, workers=WORKERS, largest=gpu.max_batch, longest=full, patience=scenario.queue_limit)
    game = Game(scenario, times, None, WARM_UP * times[-1])
    with Players(game, jobs) as players:
        every = {each.setting: each for each in players.play(list({*space.all(), now}))}

    def tried(settings: Sequence[Setting]) -> list[Played]:
        return [every[setting] for setting in settings]

    return [
        _held(str(load), tune(game, space, Goal(name), tried), list(every.values())) for name in objectives
    ]


def _held(load: str, advice: Advice, every: Sequence[Played]) -> Held:
    goal = advice.goal
    best = min(every, key=goal.order)
    return Held(
        load, goal.objective, _said(goal, best), _said(goal, advice.advised),
        goal.value(advice.advised) / goal.value(best), _said(goal, advice.in_force),
        f"{advice.tried} of {len(every)}",
    )  # fmt: skip


def _said(goal: Goal, played: Played) -> str:
    """The value and the setting, in short."""
    setting, value = played.setting, goal.value(played)
    figure = f"{value:.2f} s" if goal.saves_gpus else f"{value * 1e3:.1f} ms"
    kept = f", {setting.reserve} kept" if setting.reserve else ""
    return f"{figure}: {setting.policy}, {setting.max_batch}, {setting.max_wait * 1e3:g} ms{kept}"


def planned(load: Load, times: "array[float]") -> Held:
    """What `plan` says, and the fewest GPUs that keep the objective."""
    gpu, warmup = load.gpu, WARM_UP * times[-1]
    need = Need(
        len(times) / times[-1], IN_TIMES * gpu.seconds(gpu.max_batch), bursts=arrivals.burstiness(times)
    )
    schedule = Schedule(times, None, times[-1] - warmup, "")
    plan = make_plan(gpu, need, schedule, warmup)
    found = plan.needed.workers
    fewest = next(
        workers
        for workers in range(least_workers(gpu, need.rate), found + 1)
        if workers == found or try_workers(gpu, workers, need, schedule, warmup).keeps(need)
    )
    start = enough_workers(gpu, need.rate, need.objective, need.quantile)
    return Held(
        str(load), f"99 % within {need.objective * 1e3:.0f} ms", f"{fewest} GPUs", f"{found} GPUs",
        found / fewest, f"{start} by the arithmetic", "",
    )  # fmt: skip


def measure(given: argparse.Namespace, say: Say) -> Figure:
    traffics = list(TRACES) if given.traces is not None else ["even", "bursts"]
    curves = chosen(given.curves, {name: name for name in CURVES}, "curve")
    commands = chosen(given.only, {name: name for name in ("tune", "plan")}, "command")
    found: dict[str, list[Held]] = {command: [] for command in commands}
    for traffic, curve, part in product(traffics, curves, given.loads.split(",")):
        load = Load(curve, traffic, float(part))
        new: list[Held] = []
        if "plan" in found:
            new.append(planned(load, arriving(load, WHOLE, given.traces)))
            found["plan"] += new
        if "tune" in found:
            new += tuned(load, arriving(load, int(given.requests), given.traces), given.jobs)
            found["tune"] += new[-len(OBJECTIVES) :]
        say(f"{load}: {', '.join(f'{held.ratio:.3f}' for held in new)}")
    return figure(found, len(traffics), traces=given.traces is not None)


def figure(found: Mapping[str, Sequence[Held]], traffics: int, *, traces: bool) -> Figure:
    header = ["load", "asked for", "best of all", "advised", "advised / best", "before", "tried"]
    return Figure(
        title="Advice",
        method=(
            f"Simulated: {WORKERS} GPUs for `tune`, as many as needed for `plan`; {traffics} kinds of traffic. A"
            " setting is written as policy, largest batch, longest wait, and workers kept for full batches. Before:"
            " the default settings. GPU seconds are those of 1,000 answers, with a p99 no worse than before."
        ),
        tables=[
            f"`{command}`\n\n{markdown_table(header, [held.row() for held in rows])}"
            for command, rows in found.items()
        ],
        checks=[
            Check(f"`{command}`: worst advised / best", max(held.ratio for held in rows), LIMIT, "×")
            for command, rows in found.items()
        ],
        notes=[CREDIT] if traces else [],
        data={command: [asdict(held) for held in rows] for command, rows in found.items()},
    )


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="with azure_llm_2023_{code,conv}.csv")
    parser.add_argument(
        "--requests", type=above_zero, default=6000.0, help="at most so many in a run of tune"
    )
    parser.add_argument("--loads", default="0.3,0.7", help="parts of the capacity")
    parser.add_argument("--curves", default="line,knee", help=f"of {', '.join(CURVES)}")
    parser.add_argument("--only", default="tune,plan", help="of the two commands")
    parser.add_argument("--jobs", type=at_least_one, default=len(os.sched_getaffinity(0)), help="processes")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
