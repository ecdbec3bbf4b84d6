"""What a cache costs that never hits: every request another one, with and without `deterministic`.

    python -m benchmarks.cache_miss

The same server, function and load; only the setting differs. Both run at once and are loaded in turns of a second,
so that whatever else the machine does in the meantime is felt by both; each round starts them anew. With it every
request is looked for among the answers and among those under way, and its answer may be kept. Over Redis it is also
looked up and written there.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from statistics import median

from benchmarks import processor, wrk
from benchmarks.echo import FLAGS, MAX_BATCH, TARGET, TEXT, body
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options
from benchmarks.installation import Layout, installation
from benchmarks.redis_throughput import Turn
from benchmarks.serving import serving
from benchmarks.table import markdown_table
from penstock.errors import UserMistake

NAME = "cache_miss"
LEAST = 0.95  # promised: the part of the throughput without a cache
BODY = body(wrk.PLACEHOLDER + TEXT[len(wrk.PLACEHOLDER) :])
# Bodies that differ only within the text, where the quick look at its beginning and its end does not find it.
ALIKE = body(TEXT[:500] + wrk.PLACEHOLDER + TEXT[500 + len(wrk.PLACEHOLDER) :])
WITHOUT: dict[str, str] = {}
WITH = {"PENSTOCK_MODEL_DETERMINISTIC": "true"}
WARM_UP_SECONDS = 2  # not counted
TURN_SECONDS = 1  # wrk knows no fraction of a second

Started = tuple[str, Mapping[str, int]]  # URL, and pids by name
Start = Callable[[Mapping[str, str]], AbstractContextManager[Started]]


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=5)
    parser.add_argument(
        "--seconds", type=at_least_one, default=8, help="a round, with and without; 8 by default"
    )
    parser.add_argument("--connections", type=at_least_one, default=512)
    parser.add_argument("--forms", default="embedded,redis", metavar="NAMES", help="embedded, redis, or both")
    parser.add_argument(
        "--alike",
        action="store_true",
        help="inputs differ only in some bytes within, where a first glance does not fall",
    )
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    load = wrk.Load(given.connections, 1, TURN_SECONDS)
    forms: dict[str, Start] = {"embedded": _embedded, "redis": _over_redis}
    turns: dict[str, tuple[list[Turn], list[Turn]]] = {}
    for form in (name.strip() for name in given.forms.split(",")):
        if form not in forms:
            raise UserMistake(f"there is no form {form!r}: it is {' or '.join(forms)}")
        without, with_it = turns.setdefault(form, ([], []))
        for number_of_round in range(given.rounds):
            with forms[form](WITHOUT) as plain, forms[form](WITH) as caching:
                sides = [(plain, without), (caching, with_it)]
                payload = ALIKE if given.alike else BODY
                for (url, _), _ in sides:
                    wrk.measure(url, payload, load.lasting(WARM_UP_SECONDS))
                for second in range(given.seconds):
                    # Whoever went second goes first in the next turn.
                    for started, results in sides if second % 2 == 0 else reversed(sides):
                        results.append(_turn(started, payload, load))
            last = [side[-given.seconds :] for side in (without, with_it)]
            rates = [median(turn.load.rate for turn in side) for side in last]
            say(
                f"round {number_of_round + 1}/{given.rounds}  {form:<8}  without {rates[0]:>7,.0f}/s  "
                f"all misses {rates[1]:>7,.0f}/s  {_part(*last) or 0.0:.3f} ×"
            )
    return figure(turns, load)


@contextmanager
def _embedded(settings: Mapping[str, str]) -> Iterator[Started]:
    with serving(TARGET, *FLAGS, settings=settings) as server:
        yield f"{server.url}/v1/inference", {"penstock serve": server.pid}


@contextmanager
def _over_redis(settings: Mapping[str, str]) -> Iterator[Started]:
    with installation(Layout(TARGET, flags=MAX_BATCH, settings=settings)) as running:
        yield f"{running.urls[0]}/v1/inference", running.processes


def _turn(started: Started, payload: bytes, load: wrk.Load) -> Turn:
    url, processes = started
    before = processor.used(processes)
    result = wrk.measure(url, payload, load)
    return Turn(result, processor.between(before, processor.used(processes)))


def _part(without: Sequence[Turn], with_it: Sequence[Turn]) -> float | None:
    """The part of the throughput that is left with the cache, median of pairs; None if nothing was answered."""
    pairs = [(one.load.rate, two.load.rate) for one, two in zip(without, with_it, strict=True)]
    parts = [two / one for one, two in pairs if one]
    return median(parts) if parts else None


def figure(turns: Mapping[str, tuple[Sequence[Turn], Sequence[Turn]]], load: wrk.Load) -> Figure:
    rows, checks = [], []
    for form, sides in turns.items():
        rates = [median(turn.load.rate for turn in side) for side in sides]
        for title, rate, side in zip(("without", "all misses"), rates, sides, strict=True):
            cost = median(_cost(turn) for turn in side)
            rows.append([form, title, f"{rate:,.0f}", f"{cost:.1f}", f"{sum(t.load.errors for t in side):,}"])
        checks.append(
            Check(f"{form}: of the throughput without a cache", _part(*sides), LEAST, "×", at_least=True)
        )
    return Figure(
        title="A cache that never hits",
        method=(
            f"wrk, {load.connections} connections, 2 KB of text in and out, every input another one, echo, batches "
            f"up to 64; `deterministic` off and on, both running, in turns of {load.seconds} s; medians, the part "
            "that of the pairs of turns."
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
