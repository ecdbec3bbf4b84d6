"""What grouping like lengths is worth to a model that pads its inputs to the longest of their batch.

    python -m benchmarks.lengths

    as they come       all lengths share batches
    grouped            group_lengths: a batch holds inputs within a factor of two
    grouped, bounded   and batch_cost = "padded": rows x the longest is at most 16,384 tokens

In virtual time. The GPU takes 5 ms for a batch, or 0.5 µs for each row x the longest input if that is more: about
what one H200 takes for a small encoder. Lengths and arrivals are made up, or those of the Azure traces, whose
tokens are the lengths.
"""

import argparse
import sys
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.figure import Check, Figure, Say, conduct, number, options
from benchmarks.pacing import CREDIT
from benchmarks.table import markdown_table
from penstock.core.rules import BatchingRules
from penstock.load import arrivals
from penstock.load.report import spread
from penstock.service_model import parse_service
from penstock.sim.kernel import Kernel, Scenario
from penstock.types import Batch, Seconds, WorkerId

NAME = "lengths"
SERVICE = parse_service("sim:5ms,length=0.5us")
WORKERS, MAX_BATCH, MOST_TOKENS = 4, 64, 16_384.0
PATIENT = 1e6  # a deadline nobody misses: what is compared is how long all of them take
TRACES = {"Azure conversation": "azure_llm_2023_conv.csv", "Azure code": "azure_llm_2023_code.csv"}
MADE_UP = "made up"
# Of the lengths that are made up: their median, how far the logarithms lie apart, and the longest. They are like
# those of a chat service.
MEDIAN, APART, LONGEST = 800.0, 1.0, 8_192
LOADS = (0.1, 0.2, 0.4)  # of what the workers could do if nothing were padded
EQUAL_P99 = 50.0  # ms
WARM_UP = 0.1  # of a run, before anything is counted
SETTINGS = {
    "as they come": BatchingRules(max_batch=MAX_BATCH, processing=PATIENT),
    "grouped": BatchingRules(max_batch=MAX_BATCH, processing=PATIENT, group_lengths=True),
    "grouped, bounded": BatchingRules(
        max_batch=MAX_BATCH, processing=PATIENT, group_lengths=True, max_cost=MOST_TOKENS, padded_cost=True
    ),
}
PADDING, LATER = 1.25, 1.05  # promised where the load is highest: tokens for each asked; p99 beside the other


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests at one a second on average, and the length of each."""

    name: str
    times: "array[float]"
    tokens: "array[int]"

    @property
    def full(self) -> float:
        """The rate that the workers could keep up with if nothing were padded."""
        return WORKERS * len(self.tokens) / (sum(self.tokens) * SERVICE.length)


@dataclass(frozen=True, slots=True)
class Played:
    traffic: str
    setting: str
    rate: float
    computed: float  # tokens for each token asked for
    batch: float
    mean: float
    p95: float
    p99: float


def made_up(requests: int, seed: int = 1) -> Traffic:
    rng = Random(seed)
    times = arrivals.poisson(1.0, float(requests), rng)
    lengths = (min(LONGEST, 1 + int(MEDIAN * rng.lognormvariate(0.0, APART))) for _ in times)
    return Traffic(MADE_UP, times, array("L", lengths))


def recorded(name: str, file: Path) -> Traffic:
    trace = arrivals.trace(file, 1.0, None)
    return Traffic(name, trace.times, trace.tokens)


def play(traffic: Traffic, setting: str, rate: float) -> Played:
    times = array("d", (time / rate for time in traffic.times))
    counted = [0, 0, 0, 0]  # tokens computed, tokens asked for, requests, batches

    def watch(now: Seconds, worker: WorkerId, batch: Batch) -> None:
        lengths = [request.length for request in batch.requests]
        for place, more in enumerate((len(lengths) * max(lengths), sum(lengths), len(lengths), 1)):
            counted[place] += more

    scenario = Scenario(
        SERVICE, WORKERS, SETTINGS[setting], admission=None, queue_limit=PATIENT, request_limit=PATIENT
    )
    run = Kernel(scenario, watch).run(times, traffic.tokens, WARM_UP * times[-1])
    took = spread(run.latencies)
    return Played(
        traffic.name, setting, rate, counted[0] / counted[1], counted[2] / counted[3],
        took.mean or 0.0, took.p95 or 0.0, took.p99 or 0.0,
    )  # fmt: skip


def at_p99(traffic: Traffic, setting: str, limit: float, rounds: int = 8) -> Played:
    """The highest rate at which the p99 is no more than so many ms, as far as halving the span finds it."""
    low, high = 0.01 * traffic.full, traffic.full
    best = play(traffic, setting, low)
    for _ in range(rounds):
        middle = (low + high) / 2.0
        played = play(traffic, setting, middle)
        if played.p99 <= limit:
            low, best = middle, played
        else:
            high = middle
    return best


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__)
    parser.add_argument("--requests", type=int, default=20_000, help="of the made-up traffic")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="with azure_llm_2023_{code,conv}.csv")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    traffics = [made_up(given.requests)]
    if given.traces is not None:
        traffics += [recorded(name, given.traces / file) for name, file in TRACES.items()]
    alike: list[Played] = []
    equal: list[Played] = []
    for traffic in traffics:
        for setting in SETTINGS:
            alike += map(partial(play, traffic, setting), [load * traffic.full for load in LOADS])
            equal.append(at_p99(traffic, setting, EQUAL_P99))
            say(f"{traffic.name}, {setting}: {equal[-1].rate:,.0f}/s at p99 {number(equal[-1].p99)} ms")
    return figure(alike, equal)


def figure(alike: Sequence[Played], equal: Sequence[Played]) -> Figure:
    """`alike`: all settings at the same rates, the lowest first; `equal`: each at its own rate, with equal p99."""
    header = [
        "traffic",
        "batches",
        "requests/s",
        "tokens computed for each asked",
        "mean",
        "p95",
        "p99",
        "batch",
    ]
    return Figure(
        title="Lengths",
        method=(
            f"Simulated: {WORKERS} GPUs, batches up to {MAX_BATCH}; a batch takes 5 ms, or 0.5 µs for each row × "
            "the longest input if that is more. Latencies in ms. The first table: all at the same rates, "
            f"{', '.join(f'{load:.0%}' for load in LOADS)} of what could be done if nothing were padded. The "
            f"second: each at the highest rate with a p99 of {EQUAL_P99:g} ms."
        ),
        tables=[markdown_table(header, [_row(played) for played in table]) for table in (alike, equal)],
        checks=_promises(alike),
        notes=[CREDIT] if any(played.traffic in TRACES for played in alike) else [],
        data={"alike": [asdict(played) for played in alike], "equal": [asdict(played) for played in equal]},
    )


def _row(played: Played) -> list[str]:
    return [
        played.traffic, played.setting, f"{played.rate:,.0f}", f"{played.computed:.2f}",
        *map(number, (played.mean, played.p95, played.p99)), f"{played.batch:.1f}",
    ]  # fmt: skip


def _promises(alike: Sequence[Played]) -> list[Check]:
    """Where the load is highest: little padding, and nobody waits longer for it."""
    highest = {(played.traffic, played.setting): played for played in alike}
    checks = []
    for traffic in dict.fromkeys(played.traffic for played in alike):
        plain, grouped = highest[traffic, "as they come"], highest[traffic, "grouped"]
        checks += [
            Check(f"{traffic}: tokens computed for each asked, grouped", grouped.computed, PADDING, ""),
            Check(f"{traffic}: p99 grouped / as they come", grouped.p99 / plain.p99, LATER, "×"),
        ]
    return checks


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
