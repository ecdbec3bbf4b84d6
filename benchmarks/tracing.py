"""What traces cost: the same server without them, with none, one in ten and all of its requests traced.

    python -m benchmarks.tracing

All run at once and are loaded in turns of a second, so that whatever else the machine does in the meantime is felt
by all; each round starts them anew. Their receiver takes everything and does nothing with it. Beside it, what one
span costs to make, and one with 64 links, by our encoder and by OpenTelemetry's SDK, in turns too.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from statistics import median

from benchmarks import processor, wrk
from benchmarks.cache_miss import Started
from benchmarks.echo import BODY, FLAGS, MAX_BATCH, TARGET
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options, reach
from benchmarks.installation import Layout, installation
from benchmarks.receiver import taking
from benchmarks.redis_throughput import Turn
from benchmarks.serving import serving
from benchmarks.spans import Cost, costs_of_spans
from benchmarks.table import markdown_table
from penstock.errors import UserMistake

NAME = "tracing"
UNSAMPLED, SAMPLED = 0.99, 0.95  # of the throughput without traces
WARM_UP_SECONDS = 2  # not counted
TURN_SECONDS = 1  # wrk knows no fraction of a second

Settings = Mapping[str, str]
Start = Callable[[Settings], AbstractContextManager[Started]]


@dataclass(slots=True)
class Side:
    """A server, from round to round."""

    title: str
    ratio: float | None  # of requests that are traced; None: no traces at all
    least: float | None = None  # of the throughput without traces, where that is promised
    turns: list[Turn] = field(default_factory=list)

    def settings(self, receiver: str) -> Settings:
        if self.ratio is None:
            return {}
        return {"PENSTOCK_TRACING_ENDPOINT": receiver, "PENSTOCK_TRACING_RATIO": f"{self.ratio:g}"}


def sides() -> list[Side]:
    return [
        Side("no traces", None),
        Side("none traced", 0.0, UNSAMPLED),
        Side("1 in 10 traced", 0.1, SAMPLED),
        Side("all traced", 1.0),
    ]


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=3)
    parser.add_argument("--seconds", type=at_least_one, default=10, help="a round, of each; 10 by default")
    parser.add_argument("--connections", type=at_least_one, default=512)
    parser.add_argument("--forms", default="embedded", metavar="NAMES", help="embedded, redis, or both")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    load = wrk.Load(given.connections, 1, TURN_SECONDS)
    forms: dict[str, Start] = {"embedded": _embedded, "redis": _over_redis}
    found: dict[str, list[Side]] = {}
    with taking() as (receiver, _):
        for form in (name.strip() for name in given.forms.split(",")):
            if form not in forms:
                raise UserMistake(f"there is no form {form!r}: it is {' or '.join(forms)}")
            four = found.setdefault(form, sides())
            for number_of_round in range(given.rounds):
                _round(four, forms[form], receiver, load, given.seconds)
                last = [_part(four[0].turns[-given.seconds :], side.turns[-given.seconds :]) for side in four]
                parts = "  ".join(f"{side.title} {part:.3f} ×" for side, part in zip(four, last, strict=True))
                say(f"round {number_of_round + 1}/{given.rounds}  {form:<8}  {parts}")
    return figure(found, load, costs_of_spans())


def _round(four: Sequence[Side], start: Start, receiver: str, load: wrk.Load, seconds: int) -> None:
    with ExitStack() as stack:
        running = [stack.enter_context(start(side.settings(receiver))) for side in four]
        for url, _ in running:
            wrk.measure(url, BODY, load.lasting(WARM_UP_SECONDS))
        both = list(zip(four, running, strict=True))
        for second in range(seconds):
            turn = second % len(both)  # each is first, and each follows each other
            order = both[turn:] + both[:turn]
            for side, (url, processes) in order if second % 2 == 0 else reversed(order):
                before = processor.used(processes)
                result = wrk.measure(url, BODY, load)
                side.turns.append(Turn(result, processor.between(before, processor.used(processes))))


@contextmanager
def _embedded(settings: Settings) -> Iterator[Started]:
    with serving(TARGET, *FLAGS, settings=settings) as server:
        yield f"{server.url}/v1/inference", {"penstock serve": server.pid}


@contextmanager
def _over_redis(settings: Settings) -> Iterator[Started]:
    with installation(Layout(TARGET, flags=MAX_BATCH, everywhere=settings)) as running:
        yield f"{running.urls[0]}/v1/inference", running.processes


def _part(without: Sequence[Turn], with_them: Sequence[Turn]) -> float:
    """The part of the throughput that is left, median of the turns of the same second."""
    pairs = zip(without, with_them, strict=True)
    return median(two.load.rate / one.load.rate if one.load.rate else 0.0 for one, two in pairs)


def _cost(turn: Turn) -> float:
    """Microseconds of processor time a request, of Penstock's processes."""
    return sum(turn.processors.values()) / max(1, turn.load.answers) * 1e6


def figure(found: Mapping[str, Sequence[Side]], load: wrk.Load, spans: Sequence[Cost]) -> Figure:
    rows, checks = [], []
    for form, four in found.items():
        for side in four:
            rates, part = [turn.load.rate for turn in side.turns], _part(four[0].turns, side.turns)
            rows.append(
                [
                    form, side.title, f"{median(rates):,.0f}", reach(rates), f"{part:.3f}",
                    f"{median(map(_cost, side.turns)):.1f}", f"{sum(t.load.errors for t in side.turns):,}",
                ]
            )  # fmt: skip
            if side.least is not None:
                checks.append(
                    Check(f"{form}, {side.title}: of no traces", part, side.least, "×", at_least=True)
                )
    beside = [
        [each.what, f"{each.ours:.1f}", f"{each.theirs:.1f}", f"{each.theirs / each.ours:.1f} ×"]
        for each in spans
    ]
    return Figure(
        title="Traces",
        method=(
            f"wrk, {load.connections} connections, 2 KB of text in and out, the same head in every request, echo, "
            f"batches up to 64; all servers running, in turns of {load.seconds} s; medians, the part that of the "
            "turns of the same second. Spans: medians of interleaved turns in one process."
        ),
        tables=[
            markdown_table(
                ["", "", "requests/s", "range", "× no traces", "µs of CPU a request", "errors"], rows, left=2
            ),
            markdown_table(["µs for", "ours", "SDK", "SDK / ours"], beside),
        ],
        checks=checks,
        data={
            **{
                form: {side.title: [asdict(turn.load) for turn in side.turns] for side in four}
                for form, four in found.items()
            },
            "spans": [asdict(each) for each in spans],
        },
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
