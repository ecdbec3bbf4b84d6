"""What a cache costs that never hits: every request another one, with and without `deterministic`.

The same server, function and load; only the setting differs. The two take turns, each time freshly started. With it
every request is looked for among the answers and among those under way, and its answer is kept. Over Redis it is
also looked up and written there.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median

from benchmarks import processor, wrk
from benchmarks.chart import markdown_table
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options
from benchmarks.installation import Layout, installation
from benchmarks.peers.roster import SERVERS, TEXT
from benchmarks.redis_throughput import Turn
from benchmarks.serving import serving

NAME = "cache_miss"
LEAST = 0.95
TARGET = f"{SERVERS / 'penstock_echo.py'}:batchstring"
BODY = json.dumps({"input": wrk.PLACEHOLDER + TEXT[len(wrk.PLACEHOLDER) :]}).encode()
MAX_BATCH = ("--max-batch", "64")
WITHOUT: dict[str, str] = {}
WITH = {"PENSTOCK_MODEL_DETERMINISTIC": "true"}
WARM_UP_SECONDS = 2


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=5)
    parser.add_argument("--seconds", type=at_least_one, default=8, help="measured in each turn; 8 by default")
    parser.add_argument("--connections", type=at_least_one, default=512)
    parser.add_argument("--forms", default="embedded,redis", metavar="NAMES", help="embedded, redis, or both")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    load = wrk.Load(given.connections, 1, given.seconds)
    forms = {"embedded": _embedded, "redis": _over_redis}
    turns: dict[str, tuple[list[Turn], list[Turn]]] = {}
    for form in (name.strip() for name in given.forms.split(",")):
        without, with_it = turns.setdefault(form, ([], []))
        for number_of_round in range(given.rounds):
            sides = [("without", without, WITHOUT), ("all misses", with_it, WITH)]
            # Whoever went second goes first in the next round.
            for title, results, settings in sides if number_of_round % 2 == 0 else reversed(sides):
                results.append(forms[form](load, settings))
                last = results[-1]
                say(
                    f"round {number_of_round + 1}/{given.rounds}  {form:<8}  {title:<10}"
                    f" {last.load.rate:>9,.0f}/s  {_cost(last):.1f} µs  {last.load.errors} errors"
                )
    return figure(turns, load)


def _embedded(load: wrk.Load, settings: Mapping[str, str]) -> Turn:
    with serving(TARGET, "--workers", "1", *MAX_BATCH, settings=settings) as server:
        return _loaded(server.url, {"penstock serve": server.pid}, load)


def _over_redis(load: wrk.Load, settings: Mapping[str, str]) -> Turn:
    with installation(Layout(TARGET, flags=MAX_BATCH, settings=settings)) as running:
        return _loaded(running.urls[0], running.processes, load)


def _loaded(url: str, processes: Mapping[str, int], load: wrk.Load) -> Turn:
    inference = f"{url}/v1/inference"
    wrk.measure(inference, BODY, wrk.Load(load.connections, load.threads, WARM_UP_SECONDS))
    before = processor.used(processes)
    result = wrk.measure(inference, BODY, load)
    return Turn(result, processor.between(before, processor.used(processes)))


def figure(turns: Mapping[str, tuple[Sequence[Turn], Sequence[Turn]]], load: wrk.Load) -> Figure:
    rows, checks = [], []
    for form, sides in turns.items():
        rates = [median(turn.load.rate for turn in side) for side in sides]
        for title, rate, side in zip(("without", "all misses"), rates, sides, strict=True):
            cost = median(_cost(turn) for turn in side)
            rows.append([form, title, f"{rate:,.0f}", f"{cost:.1f}", f"{sum(t.load.errors for t in side):,}"])
        part = rates[1] / rates[0] if rates[0] else None
        checks.append(Check(f"{form}: of the throughput without a cache", part, LEAST, "×", at_least=True))
    return Figure(
        title="A cache that never hits",
        method=(
            f"wrk, {load.connections} connections, 2 KB of text in and out, every input another one, echo, batches "
            f"up to 64; `deterministic` off and on in turns of {load.seconds} s, each freshly started; medians."
        ),
        tables=[
            markdown_table(["", "cache", "requests/s", "µs of CPU a request", "errors"], rows, left=2),
            markdown_table(["", "process", "without", "all misses"], costs(turns), left=2),
        ],
        checks=checks,
        data={
            form: [[asdict(turn.load) for turn in side] for side in sides] for form, sides in turns.items()
        },
    )


def costs(turns: Mapping[str, tuple[Sequence[Turn], Sequence[Turn]]]) -> list[list[str]]:
    """Microseconds of processor time a request, by process; medians."""
    return [
        [form, name, *(f"{median(_cost(turn, name) for turn in side):.1f}" for side in sides)]
        for form, sides in turns.items()
        for name in sides[0][0].processors
    ]


def _cost(turn: Turn, process: str | None = None) -> float:
    """Microseconds of processor time a request, of one process or of all of ours together."""
    seconds = sum(turn.processors.values()) if process is None else turn.processors.get(process, 0.0)
    return seconds / turn.load.answers * 1e6 if turn.load.answers else 0.0


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
