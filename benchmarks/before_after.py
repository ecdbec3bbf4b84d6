"""Checkouts of Penstock beside each other: is this one slower or faster than another?

Both run at once and are loaded in turns with the same requests, so that whatever else the machine does meanwhile is
felt by both. Each turn of the one is held against the next of the other. Every round starts both anew, on other
cores. A checkout is served by its own `.venv`, or by this Python with its `src` where it has none.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from benchmarks import echo, heads, wrk
from benchmarks.cores import pinned
from benchmarks.figure import Check, Figure, Say, at_least_one, chosen, conduct, options
from benchmarks.serving import serving
from benchmarks.strangers import USERS, Strangers, with_keys
from benchmarks.table import markdown_table
from penstock.adapters.api_keys.file import KeysFile
from penstock.errors import UserMistake

NAME = "before_after"
THIS = Path(__file__).parent.parent
LEAST = 0.97
WARM_UP_SECONDS = 2
KINDS = {  # of requests: the heads they have, and whether each has an API key
    "same": (heads.SAME, False),
    "realistic": (heads.REALISTIC, False),
    "keys": (heads.REALISTIC, True),
}
TITLES = {"same": "identical heads", "realistic": "realistic heads", "keys": "realistic heads, API keys"}
Offer = Callable[[wrk.Load], wrk.Measurement]


@dataclass(slots=True)
class Comparison:
    """One other checkout under one kind of requests, and this one: a pair of rates for each turn."""

    other: Path
    kind: str
    pairs: list[tuple[float, float]] = field(default_factory=list)  # the other's, and this one's
    errors: int = 0

    @property
    def parts(self) -> list[float]:
        """The part of the other's throughput, for each pair."""
        return [ours / theirs if theirs else 0.0 for theirs, ours in self.pairs]

    def row(self) -> list[str]:
        theirs, ours = (median(rates) for rates in zip(*self.pairs, strict=True))
        low, middle, high = quartiles(self.parts)
        return [
            TITLES[self.kind], str(self.other), f"{theirs:,.0f}", f"{ours:,.0f}", f"{middle:.3f}",
            f"{low:.3f}–{high:.3f}", str(len(self.pairs)), f"{self.errors:,}",
        ]  # fmt: skip


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
                f"{comparison.other}  {quartiles(last.parts)[1]:.3f} ×"
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
) -> list[tuple[float, float]]:
    """The rates of each pair of turns: the other's, and this one's."""
    generators, servers = cores or (None, None)
    with ExitStack() as held:
        with pinned(servers):
            offers = [_served(path, comparison.kind, users, held) for path in (comparison.other, THIS)]
        with pinned(generators):
            for offer in offers:
                offer(load.lasting(WARM_UP_SECONDS))
            pairs = []
            for turn in range(turns):
                rates = [0.0, 0.0]
                # Whoever went second goes first in the next turn.
                for side in (1, 0) if (turn % 2 == 1) != ours_first else (0, 1):
                    measured = offers[side](load)
                    rates[side] = measured.rate
                    comparison.errors += measured.errors
                pairs.append((rates[0], rates[1]))
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
    return heads.prepared(which, f"{server.url}/v1/inference", echo.body, credentials)


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
        "pairs",
        "errors",
    ]
    where = "wrk on a core of its own and the servers on two" if pinned_to else "all on the same cores"
    return Figure(
        title="Before and after",
        method=(
            f"wrk, {load.connections} connections, 2 KB of text in and out, echo, batches up to 64, {where}; both "
            f"servers running, in turns of {load.seconds} s; rates are medians, the part is the median of the "
            f"pairs of turns. Realistic: {heads.ABOUT[heads.REALISTIC]}; API keys: {USERS:,} tenants, a key each."
        ),
        tables=[markdown_table(header, [each.row() for each in found], left=2)],
        checks=[
            Check(
                f"{TITLES[each.kind]}, of {each.other}", quartiles(each.parts)[1], LEAST, "×", at_least=True
            )
            for each in found
        ],
        data={f"{each.kind}, {each.other}": each.pairs for each in found},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
