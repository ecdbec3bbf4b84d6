"""What Penstock adds to a request when there is nothing to wait for: a GPU that takes no time, 100 requests/s.

    python -m benchmarks.added_latency

The limit is a bare Granian server that sends back what it was sent. The two take turns on the same schedule,
each time freshly started, so that a machine that is slow for a minute is slow for both.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.figure import Check, Figure, Say, conduct, number, options
from benchmarks.generator import Measured, Traffic, bench, middle
from benchmarks.peers.roster import GRANIAN
from benchmarks.peers.server import Unfit, running
from benchmarks.serving import serving
from benchmarks.table import markdown_table

NAME = "added_latency"
RATE = 100.0  # requests a second
P50_MS, P99_MS = 1.0, 5.0  # what is promised: at most so much more than the bare echo


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    return options(NAME, __doc__, seconds=20.0, rounds=3).parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    ours: list[Measured] = []
    bare: list[Measured] = []
    for number_of_round in range(given.rounds):
        traffic = Traffic(RATE, given.seconds, seed=number_of_round)
        turns = [("bare echo", bare, _bare), ("Penstock", ours, _penstock)]
        # Whoever went second goes first in the next round.
        for title, results, turn in turns if number_of_round % 2 == 0 else reversed(turns):
            results.append(turn(traffic))
            last = results[-1]
            say(
                f"round {number_of_round + 1}/{given.rounds}  {title:<9}  "
                f"p50 {number(last.p50)}  p99 {number(last.p99)} ms"
            )
    return figure(ours, bare, given.seconds)


def _penstock(traffic: Traffic) -> Measured:
    with serving("sim:0ms") as server:
        return bench(server.url, server.admin, traffic)


def _bare(traffic: Traffic) -> Measured:
    try:
        with running(GRANIAN, Path(sys.executable).parent) as url:
            return bench(url, None, traffic)
    except Unfit as reason:
        raise RuntimeError(f"the bare echo: {reason}") from reason


def figure(ours: Sequence[Measured], bare: Sequence[Measured], seconds: float) -> Figure:
    penstock, echo = middle(ours), middle(bare)
    header = ["server", "mean", "p50", "p95", "p99", "generator late, p99", "errors"]
    rows = [
        [title, *map(number, (m.mean, m.p50, m.p95, m.p99, m.lateness_p99)), str(m.errors)]
        for title, m in (("Penstock, sim:0ms", penstock), ("bare Granian echo", echo))
    ]
    rows.append(
        [
            "added",
            *(
                number(_minus(a, b))
                for a, b in (
                    (penstock.mean, echo.mean),
                    (penstock.p50, echo.p50),
                    (penstock.p95, echo.p95),
                    (penstock.p99, echo.p99),
                )
            ),
            "",
            "",
        ]
    )
    return Figure(
        title="Added latency",
        method=(
            f"`penstock bench`, {RATE:g} requests/s, Poisson, 2 KB of text, {seconds:g} s a round, milliseconds "
            f"from the scheduled time; medians of {len(ours)} interleaved rounds."
        ),
        tables=[markdown_table(header, rows)],
        checks=[
            Check("p50 beyond the bare echo", _minus(penstock.p50, echo.p50), P50_MS),
            Check("p99 beyond the bare echo", _minus(penstock.p99, echo.p99), P99_MS),
        ],
        data={"penstock": [asdict(m) for m in ours], "bare_granian": [asdict(m) for m in bare]},
    )


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
