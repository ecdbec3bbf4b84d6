"""Does a second gateway, or a second batcher, carry more? Requests a second, also for each core in use.

    python -m benchmarks.redis_scaling
    python -m benchmarks.redis_scaling --gateways 1,2,4,8 --primaries 3     where one Valkey would be full

Meant for a machine of 16 cores: with fewer, all processes share them and the figures say only that. Echo, 2 KB in
and out, as many connections as keep everything busy; every layout gets a fresh installation.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks import closed_loop, processor, wrk
from benchmarks.chart import Bar, bar_chart
from benchmarks.echo import BODY, MAX_BATCH, TARGET
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options
from benchmarks.installation import Layout, installation
from benchmarks.redis_throughput import WARM_UP_SECONDS
from benchmarks.table import markdown_table
from penstock.errors import UserMistake

NAME = "redis_scaling"
COUNTS = "1,2,4"
KINDS = ("Valkey", "gateway", "batcher", "worker")
ENOUGH = 16  # cores: with fewer there is no promise
THROUGHPUT, EVENNESS = (
    100_000.0,
    0.85,
)  # requests a second; requests for each core, of the largest to the first


@dataclass(frozen=True, slots=True)
class Turn:
    load: wrk.Measurement
    cores: dict[str, float]  # in use, by kind of process

    @property
    def per_core(self) -> float:
        return self.load.rate / sum(self.cores.values()) if any(self.cores.values()) else 0.0


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=3)
    parser.add_argument("--seconds", type=at_least_one, default=8, help="measured in each turn; 8 by default")
    parser.add_argument("--gateways", type=counts, default=counts(COUNTS), metavar="COUNTS", help=COUNTS)
    parser.add_argument("--batchers", type=counts, default=counts(COUNTS), metavar="COUNTS", help=COUNTS)
    parser.add_argument(
        "--primaries", type=at_least_one, default=1, help="of a Valkey cluster; 1: a single Valkey"
    )
    parser.add_argument("--workers", type=at_least_one, default=4, help="worker processes")
    parser.add_argument("--slots", type=at_least_one, default=2, help="in each of them")
    parser.add_argument("--connections", type=at_least_one, default=2048, help="of all generators together")
    parser.add_argument(
        "--generators", type=at_least_one, default=4, help="processes; one a gateway at least"
    )
    return parser.parse_args(argv)


def counts(text: str) -> list[int]:
    try:
        return [at_least_one(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"numbers with commas between, such as {COUNTS}") from error


def measure(given: argparse.Namespace, say: Say) -> Figure:
    cores = len(os.sched_getaffinity(0))
    layouts = [
        Layout(TARGET, gateways, batchers, given.workers, given.slots, MAX_BATCH, primaries=given.primaries)
        for gateways in given.gateways
        for batchers in given.batchers
    ]
    if not layouts:
        raise UserMistake("nothing to measure: give --gateways and --batchers")
    load = wrk.Load(given.connections, 1, given.seconds)
    results: list[list[Turn]] = [[] for _ in layouts]
    for number_of_round in range(given.rounds):
        # Every other round goes through the layouts in reverse, so that none is always first.
        order = range(len(layouts)) if number_of_round % 2 == 0 else reversed(range(len(layouts)))
        for index in order:
            turn = _turn(layouts[index], load, given.generators)
            results[index].append(turn)
            say(
                f"round {number_of_round + 1}/{given.rounds}  {layouts[index]}: {turn.load.rate:>9,.0f}/s, "
                f"{turn.per_core:,.0f} a core" + (f", {turn.load.errors} errors" if turn.load.errors else "")
            )
    return figure(layouts, results, load, given.generators, cores)


def _turn(layout: Layout, load: wrk.Load, generators: int) -> Turn:
    with installation(layout) as running:
        urls = [f"{url}/v1/inference" for url in running.urls]
        warm_up = load.lasting(WARM_UP_SECONDS)
        closed_loop.saturate(urls, BODY, warm_up, generators)
        before = processor.used(running.processes)
        result = closed_loop.saturate(urls, BODY, load, generators)
        used = processor.between(before, processor.used(running.processes))
    return Turn(result, by_kind(used, result.seconds))


def by_kind(used: dict[str, float], seconds: float) -> dict[str, float]:
    """Cores in use: `gateway 1` and `gateway 2` are one line, and a worker's function belongs to the worker."""
    return {
        kind: sum(each for name, each in used.items() if name.startswith(kind)) / seconds if seconds else 0.0
        for kind in KINDS
    }


def figure(
    layouts: Sequence[Layout], results: Sequence[Sequence[Turn]], load: wrk.Load, generators: int, cores: int
) -> Figure:
    rates = [median(turn.load.rate for turn in turns) for turns in results]
    rows, bars, each_core = [], [], []
    for layout, turns, rate in zip(layouts, results, rates, strict=True):
        in_use = [median(turn.cores[kind] for turn in turns) for kind in KINDS]
        per_core = median(turn.per_core for turn in turns)
        each_core.append(per_core)
        rows.append(
            [
                f"{layout.gateways} × {layout.batchers}",
                f"{rate:,.0f}",
                f"{rate / rates[0]:.2f}" if rates[0] else "–",
                f"{per_core:,.0f}",
                f"{sum(in_use):.1f}",
                *(f"{each:.2f}" for each in in_use),
                f"{sum(turn.load.errors for turn in turns):,}",
            ]
        )
        bars.append(
            Bar(f"{layout.gateways} × {layout.batchers}", rate, f"{rate:,.0f}, {per_core:,.0f}/core", "ours")
        )
    method = (
        f"{closed_loop.generator()}, {generators} processes, {load.connections} connections, 2 KB in and out, "
        f"echo, batches up to 64, {layouts[0].workers} × {layouts[0].slots} slots, "
        f"{_many(layouts[0].primaries)}; "
        f"medians of {len(results[0])} × {load.seconds} s"
    )
    header = ["gateways × batchers", "requests/s", "× the first", "a core", "cores", *KINDS, "errors"]
    notes = ["`cores` are those in use by the installation, then by kind; the generators come on top."]
    if cores < 8:
        notes.append(f"This machine has {cores} cores: more processes only share them here.")
    return Figure(
        title="Scaling over Redis",
        method=f"{method}.",
        tables=[markdown_table(header, rows), f"![requests per second]({NAME}.svg)\n"],
        checks=_promises(rates, each_core) if cores >= ENOUGH else [],
        notes=notes,
        data={
            "turns": [
                {**asdict(layout), "rounds": [_as_data(turn) for turn in turns]}
                for layout, turns in zip(layouts, results, strict=True)
            ]
        },
        drawings={NAME: bar_chart("Requests per second, gateways × batchers", method, bars)},
    )


def _promises(rates: Sequence[float], each_core: Sequence[float]) -> list[Check]:
    kept = each_core[-1] / each_core[0] if each_core[0] else None
    return [
        Check("the most of any layout", max(rates), THROUGHPUT, "requests/s", at_least=True),
        Check("requests for each core, the largest to the first", kept, EVENNESS, "×", at_least=True),
    ]


def _many(primaries: int) -> str:
    return "one Valkey" if primaries == 1 else f"a cluster of {primaries} primaries"


def _as_data(turn: Turn) -> dict[str, object]:
    return {**asdict(turn.load), "rate": turn.load.rate, "cores": turn.cores, "per_core": turn.per_core}


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
