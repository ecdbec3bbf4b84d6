"""Checkouts of Penstock beside each other: is this one slower or faster than another?

    python -m benchmarks.before_after OTHER_CHECKOUT

Both run at once and are loaded in turns with the same requests, so that whatever else the machine does meanwhile is
felt by both. Each turn of one checkout is held against the next turn of the other. Every round starts both anew, on
other cores. A checkout is served by its own `.venv`, or by this Python with its `src` where it has none.

Beside the rates stands what a request costs: processor time of the server's own process. On a machine that others
use too, that tells more than the rate.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles

from benchmarks import echo, heads, processor, wrk
from benchmarks.cores import pinned
from benchmarks.figure import Check, Figure, Say, at_least_one, chosen, conduct, options
from benchmarks.serving import serving
from benchmarks.strangers import USERS, Strangers, with_keys
from benchmarks.table import markdown_table
from penstock.adapters.api_keys.file import KeysFile
from penstock.errors import UserMistake

NAME = "before_after"
THIS = Path(__file__).parent.parent
LEAST = 0.97  # promised: the median part of the other checkout's rate
WARM_UP_SECONDS = 2  # not counted
KINDS = {  # of requests: the heads they have, and whether each has an API key
    "same": (heads.SAME, False),
    "realistic": (heads.REALISTIC, False),
    "keys": (heads.REALISTIC, True),
}
TITLES = {"same": "identical heads", "realistic": "realistic heads", "keys": "realistic heads, API keys"}
SERVER = "the server"


@dataclass(frozen=True, slots=True)
class Turn:
    """What one server did in one turn."""

    rate: float  # good answers per second
    cost: float  # microseconds of the server's processor time for each of them, without its function's
    errors: int = 0


Offer = Callable[[wrk.Load], Turn]


@dataclass(slots=True)
class Comparison:
    """One other checkout under one kind of requests, and this one, in pairs of turns."""

    other: Path
    kind: str
    pairs: list[tuple[Turn, Turn]] = field(default_factory=list)  # the other's, and this one's

    @property
    def parts(self) -> list[float]:
        """The part of the other's throughput, for each pair."""
        return [ours.rate / theirs.rate if theirs.rate else 0.0 for theirs, ours in self.pairs]

    @property
    def costs(self) -> list[float]:
        """What a request costs as a multiple of what it costs the other, for each pair."""
        return [ours.cost / theirs.cost if theirs.cost else 0.0 for theirs, ours in self.pairs]

    def row(self) -> list[str]:
        theirs, ours = zip(*self.pairs, strict=True)
        return [
            TITLES[self.kind], str(self.other),
            *(f"{median(turn.rate for turn in turns):,.0f}" for turns in (theirs, ours)), *_spread(self.parts),
            *(f"{median(turn.cost for turn in turns):.1f}" for turns in (theirs, ours)), *_spread(self.costs),
            str(len(self.pairs)), f"{sum(turn.errors for turn in (*theirs, *ours)):,}",
        ]  # fmt: skip


def _spread(values: Sequence[float]) -> tuple[str, str]:
    low, middle, high = quartiles(values)
    return f"{middle:.3f}", f"{low:.3f}–{high:.3f}"


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower one, the median and the upper one; of a single value, itself."""
    low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return low, middle, high


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=5)
    parser.add_argument("others", type=Path, nargs="+", metavar="OTHER_CHECKOUT")
    parser.add_argument("--heads", default=",".join(KINDS), metavar="KINDS", help="by default all of them")
    parser.add_argument("--seconds", type=at_least_one, default=1, help="of each turn; 1 by default")
    parser.add_argument(
        "--turns", type=at_least_one, default=6, help="of each checkout in a round; 6 by default"
    )
    parser.add_argument("--connections", type=at_least_one, default=512)
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    kinds, others = (
        chosen(given.heads, {kind: kind for kind in KINDS}, "kind of heads"),
        [checkout(path) for path in given.others],
    )
    wrk.find()
    load = wrk.Load(given.connections, 1, given.seconds)
    users, cores = with_keys(), sorted(os.sched_getaffinity(0))
    found = [Comparison(other, kind) for kind in kinds for other in others]
    for round_number in range(given.rounds):
        for comparison in found:
            shared = dealt(cores, round_number)
            turns = _round(comparison, users, load, given.turns, shared, ours_first=round_number % 2 == 1)
            comparison.pairs += turns
            last = Comparison(comparison.other, comparison.kind, turns)
            say(
                f"round {round_number + 1}/{given.rounds}  {TITLES[comparison.kind]:<26} "
                f"{comparison.other}  {quartiles(last.parts)[1]:.3f} × the rate, "
                f"{quartiles(last.costs)[1]:.3f} × the processor time"
            )
    return figure(found, load, pinned_to=dealt(cores, 0))


def checkout(path: Path) -> Path:
    if not (path / "src" / "penstock").is_dir():
        raise UserMistake(f"{path} is no checkout of Penstock: it has no src/penstock")
    return path.resolve()


def program(path: Path) -> tuple[list[str], dict[str, str]]:
    """The command that is `penstock` of a checkout, and the variables that it needs."""
    own = path / ".venv" / "bin" / "penstock"
    if own.is_file():
        return [str(own)], {}
    return [sys.executable, "-m", "penstock"], {"PYTHONPATH": str(path / "src")}


def dealt(cores: Sequence[int], round_number: int) -> tuple[set[int], set[int]] | None:
    """The generator's core, and the two of the servers, which work in turns; each round moves on by one core.

    None where there are too few: then all processes share what there is.
    """
    if len(cores) < 3:
        return None
    first = round_number % len(cores)
    turned = [*cores[first:], *cores[:first]]
    return {turned[0]}, {turned[1], turned[2]}  # a server, and the process of its function


def _round(
    comparison: Comparison,
    users: Strangers,
    load: wrk.Load,
    turns: int,
    cores: tuple[set[int], set[int]] | None,
    *,
    ours_first: bool,
) -> list[tuple[Turn, Turn]]:
    """The turns in pairs: the other's, and this one's."""
    generators, servers = cores or (None, None)
    with ExitStack() as held:
        with pinned(servers):
            offers = [_served(path, comparison.kind, users, held) for path in (comparison.other, THIS)]
        with pinned(generators):
            for offer in offers:
                offer(load.lasting(WARM_UP_SECONDS))
            pairs = []
            for turn in range(turns):
                # Whoever went second goes first in the next turn.
                if (turn % 2 == 1) != ours_first:
                    ours, theirs = offers[1](load), offers[0](load)
                else:
                    theirs, ours = offers[0](load), offers[1](load)
                pairs.append((theirs, ours))
    return pairs


def _served(path: Path, kind: str, users: Strangers, held: ExitStack) -> Offer:
    """A server of this checkout, started; how it is loaded."""
    which, keys = KINDS[kind]
    flags: tuple[str, ...] = ()
    if keys:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        users.enrol(KeysFile(folder / "keys.json"))
        flags = ("--config", str(users.write(folder)))
    command, variables = program(path)
    server = held.enter_context(
        serving(echo.TARGET, *echo.FLAGS, *flags, settings=variables, program=command)
    )
    credentials = users.credentials if keys else ()
    load_with = heads.prepared(which, f"{server.url}/v1/inference", echo.body, credentials)

    def offer(load: wrk.Load) -> Turn:
        before = processor.used({SERVER: server.pid})
        measured = load_with(load)
        seconds = processor.between(before, processor.used({SERVER: server.pid}))[SERVER]
        cost = 1e6 * seconds / measured.answers if measured.answers else 0.0
        return Turn(measured.rate, cost, measured.errors)

    return offer


def figure(
    found: Sequence[Comparison], load: wrk.Load, pinned_to: tuple[set[int], set[int]] | None
) -> Figure:
    header = [
        "requests",
        "other checkout",
        "its requests/s",
        "this one's",
        "part",
        "quartiles",
        "its µs/request",
        "this one's µs",
        "multiple",
        "quartiles",
        "pairs",
        "errors",
    ]
    where = "wrk on a core of its own and the servers on two" if pinned_to else "all on the same cores"
    return Figure(
        title="Before and after",
        method=(
            f"wrk, {load.connections} connections, 2 KB of text in and out, echo, batches up to 64, {where}; both "
            f"servers running, in turns of {load.seconds} s; rates are medians, the part is the median of the "
            "pairs of turns. µs/request: processor time of the server, without its function. Realistic: "
            f"{heads.ABOUT[heads.REALISTIC]}; API keys: {USERS:,} tenants, a key each."
        ),
        tables=[markdown_table(header, [each.row() for each in found], left=2)],
        checks=[
            Check(
                f"{TITLES[each.kind]}, of {each.other}", quartiles(each.parts)[1], LEAST, "×", at_least=True
            )
            for each in found
        ],
        data={
            f"{each.kind}, {each.other}": [[asdict(turn) for turn in pair] for pair in each.pairs]
            for each in found
        },
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
