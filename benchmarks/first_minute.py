"""The first minute after readiness beside the steady state, where each new size of batch is dear once.

    python -m benchmarks.first_minute

    powers, warm   batches of powers of two, and a warm-up that has run each of them
    any, cold      batches of any size, and no warm-up

The simulated GPU takes 80 ms more for the first batch of each size. Over HTTP the load begins when the server says
that it serves; the steady figure is of the same server, right afterwards. The simulator plays both minutes as one.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random

from benchmarks.figure import Check, Figure, Say, conduct, number, options
from benchmarks.generator import Traffic, bench
from benchmarks.serving import serving
from benchmarks.table import markdown_table
from penstock.core.ladder import ladder
from penstock.core.rules import BatchingRules
from penstock.core.sizes import ANY, powers_to
from penstock.load.arrivals import poisson
from penstock.load.report import spread
from penstock.service_model import parse_service
from penstock.sim.kernel import Kernel, Run, Scenario

NAME = "first_minute"
PROMISED = 1.5  # times the steady p99
WARM_UP_INPUT = '"a text"'


@dataclass(frozen=True, slots=True)
class Case:
    title: str
    target: str
    max_batch: int
    rate: float
    served: bool  # also over HTTP: the rate is one that a small machine can send


CASES = (
    Case("15 ms, up to 64, 1,000/s", "sim:15ms,new_shape=80ms", 64, 1000.0, served=True),
    Case(
        "4.3 ms to a knee at 64, up to 256, 8,700/s", "sim:4.3ms,knee=64,new_shape=80ms", 256, 8700.0, served=False
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """What one run has shown: the p99 of its first minute and of later, in ms."""

    first: float | None
    steady: float | None

    @property
    def ratio(self) -> float | None:
        return self.first / self.steady if self.first and self.steady else None


@dataclass(frozen=True, slots=True)
class Row:
    case: Case
    warm: bool  # powers and a warm-up; else any size and none
    how: str  # measured or simulated
    found: Found


def served(case: Case, seconds: float, *, warm: bool) -> Found:
    chosen = ["--batch-sizes", "powers", "--warmup", WARM_UP_INPUT] if warm else ["--no-warmup"]
    with serving(case.target, "--max-batch", str(case.max_batch), *chosen) as server:
        minutes = [
            bench(server.url, server.admin, Traffic(case.rate, seconds, warmup=0.0, seed=seed)).p99
            for seed in range(2)
        ]
    return Found(*minutes)


def simulated(case: Case, seconds: float, *, warm: bool) -> Found:
    sizes = powers_to(case.max_batch) if warm else ANY
    scenario = Scenario(
        parse_service(case.target),
        rules=BatchingRules(max_batch=case.max_batch, sizes=sizes),
        warmed=ladder(sizes.allowed, case.max_batch) if warm else (),
    )
    run = Kernel(scenario).run(poisson(case.rate, 2.0 * seconds, Random(0)))
    return Found(_p99(run, 0.0, seconds), _p99(run, seconds, 2.0 * seconds))


def _p99(run: Run, start: float, end: float) -> float | None:
    """The p99 of those that arrived in this time."""
    both = zip(run.latencies, run.finished_at, strict=True)
    return spread(taken for taken, finished in both if start <= finished - taken < end).p99


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, seconds=60.0)
    parser.add_argument("--simulated", action="store_true", help="in virtual time only")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    rows: list[Row] = []
    for case in CASES:
        for warm in (True, False):
            rows.append(Row(case, warm, "simulated", simulated(case, given.seconds, warm=warm)))
            if case.served and not given.simulated:
                rows.append(Row(case, warm, "measured", served(case, given.seconds, warm=warm)))
            say(f"{case.title}, {_sizes(warm)}: p99 {number(rows[-1].found.first)} ms at first")
    return figure(rows, given.seconds)


def figure(rows: Sequence[Row], seconds: float) -> Figure:
    header = ["GPU and load", "sizes", "", "p99, first", "p99, steady", "×"]
    cells = [
        [
            row.case.title, _sizes(row.warm), row.how, number(row.found.first), number(row.found.steady),
            number(row.found.ratio),
        ]
        for row in rows
    ]  # fmt: skip
    return Figure(
        title="The first minute",
        method=(
            "One simulated GPU that takes 80 ms more for the first batch of each size. Poisson, open loop, from "
            f"readiness on; p99 in ms of the first {seconds:g} s and of the {seconds:g} s after them. "
            f"`{_sizes(True)}`: `--batch-sizes powers --warmup '{WARM_UP_INPUT}'`; `{_sizes(False)}`: the "
            "default sizes and `--no-warmup`."
        ),
        tables=[markdown_table(header, cells)],
        checks=[
            Check(f"{row.case.title}, {row.how}: first / steady p99", row.found.ratio, PROMISED, "×")
            for row in rows
            if row.warm
        ],
        data={"seconds": seconds, "rows": [{**asdict(row), "ratio": row.found.ratio} for row in rows]},
    )


def _sizes(warm: bool) -> str:
    return "powers, warm" if warm else "any, cold"


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
