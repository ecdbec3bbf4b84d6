"""The headline case over Redis: 32 simulated workers of 200 ms, batches up to 64, 10,000 requests/s, open loop.

    python -m benchmarks.redis_headline

That is 98 % of what such workers can do. With --find, a smaller machine is asked for the highest rate at which
it still keeps the promise; the workers stay as they are.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from benchmarks import processor
from benchmarks.figure import Check, Figure, Say, above_zero, at_least_one, conduct, number, options
from benchmarks.floors import Service
from benchmarks.generator import Measured, Traffic, middle
from benchmarks.installation import Layout, installation
from benchmarks.open_loop import offer
from benchmarks.redis_pacing import floor
from benchmarks.simulated import simulate
from benchmarks.table import markdown_table
from penstock.errors import UserMistake

NAME = "redis_headline"
SERVICE = Service(a=0.200, workers=32, max_batch=64)
RATE, P99_MS, ERRORS = 10_000.0, 500.0, 0.001  # promised: at that rate, no more than these
SHORTENED = 10.0  # seconds of a trial while searching
STEP = 250.0  # requests a second, of --find


@dataclass(frozen=True, slots=True)
class Trial:
    measured: Measured
    cores: float  # used by the installation, without the generators

    @property
    def errors(self) -> float:
        """The share that was not answered well; all of it, where nothing was sent."""
        return self.measured.errors / self.measured.sent if self.measured.sent else 1.0

    @property
    def holds(self) -> bool:
        p99 = self.measured.p99
        return p99 is not None and p99 < P99_MS and self.errors < ERRORS


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    small = len(os.sched_getaffinity(0)) < 8
    parser = options(NAME, __doc__, seconds=60.0, rounds=1)
    parser.add_argument(
        "--rate", type=above_zero, default=RATE, help="requests a second, or the highest to try"
    )
    parser.add_argument("--gateways", type=at_least_one, default=1 if small else 2)
    # One batcher sees every request and every slot, and needs a quarter of a core at this rate.
    parser.add_argument("--batchers", type=at_least_one, default=1)
    parser.add_argument("--workers", type=at_least_one, default=1 if small else 4, help="processes")
    parser.add_argument("--slots", type=at_least_one, help="in each of them; by default 32 in all")
    parser.add_argument("--generators", type=at_least_one, default=1 if small else 2, help="processes")
    parser.add_argument("--find", action="store_true", help="the highest rate that keeps the promise here")
    parser.add_argument(
        "--trial", type=above_zero, default=SHORTENED, metavar="SECONDS", help="of each step of --find"
    )
    return parser.parse_args(argv)


def laid_out(given: argparse.Namespace) -> Layout:
    slots = given.slots or SERVICE.workers // given.workers
    if given.slots is None and slots * given.workers != SERVICE.workers:
        raise UserMistake(
            f"{SERVICE.workers} slots cannot be dealt out to {given.workers} processes: say --slots"
        )
    return Layout(
        f"sim:{SERVICE.a * 1e3:g}ms",
        gateways=given.gateways,
        batchers=given.batchers,
        workers=given.workers,
        slots=slots,
        flags=("--max-batch", str(SERVICE.max_batch)),
    )


def measure(given: argparse.Namespace, say: Say) -> Figure:
    layout = laid_out(given)

    def tried(rate: float, seconds: float, seed: int = 0) -> Trial:
        trial = _tried(layout, Traffic(rate, seconds, seed=seed), given.generators)
        got = trial.measured
        say(
            f"{rate:>8,.0f}/s  mean {number(got.mean)}  p99 {number(got.p99)} ms, errors {trial.errors:.3%}, "
            f"{trial.cores:.1f} cores, generator late {number(got.lateness_p99)}"
        )
        return trial

    rate = given.rate
    if given.find:
        rate = highest(lambda at: tried(at, given.trial).holds, given.rate)
    trials = [tried(rate, given.seconds, seed) for seed in range(given.rounds)]
    while given.find and not all(trial.holds for trial in trials) and rate > STEP:
        rate -= STEP  # what held in a short trial did not hold in the long run
        trials = [tried(rate, given.seconds, seed) for seed in range(given.rounds)]
    return figure(trials, rate, layout, given)


def highest(holds: Callable[[float], bool], most: float) -> float:
    """The highest multiple of a step at which it holds, at most `most`; the lowest step if it never does."""
    if holds(most):
        return most
    low, high = 0, int(-(-most // STEP))  # in steps: holds at low, does not at high
    while high - low > 1:
        middle_step = (low + high) // 2
        if holds(middle_step * STEP):
            low = middle_step
        else:
            high = middle_step
    return max(low, 1) * STEP


def _tried(layout: Layout, traffic: Traffic, generators: int) -> Trial:
    with installation(layout) as running:
        before = sum(processor.used(running.processes).values())
        measured = offer(running.urls, traffic, generators, [batcher.admin for batcher in running.batchers])
        used = sum(processor.used(running.processes).values()) - before
    return Trial(measured, used / (traffic.seconds + traffic.warmup))


def figure(trials: Sequence[Trial], rate: float, layout: Layout, given: argparse.Namespace) -> Figure:
    got = middle([trial.measured for trial in trials])
    together = Trial(got, sum(trial.cores for trial in trials) / len(trials))
    ideal = simulate(SERVICE, "paced", Traffic(rate, min(given.seconds, 20.0)))
    header = ["", "requests/s", "mean", "p50", "p95", "p99", "batch", "errors", "cores", "late, p99"]
    rows = [
        [
            "over Redis",
            number(got.goodput),
            *map(number, (got.mean, got.p50, got.p95, got.p99, got.batch)),
            f"{together.errors:.3%}",
            f"{together.cores:.1f}",
            number(got.lateness_p99),
        ],
        [
            "simulated",
            number(ideal.goodput),
            *map(number, (ideal.mean, ideal.p50, ideal.p95, ideal.p99, ideal.batch)),
            *("–",) * 3,
        ],
    ]
    mean, p95, p99 = floor(SERVICE, rate)
    rows.append(["floor", number(rate), number(mean), "–", number(p95), number(p99), *("–",) * 4])
    title = f"{rate:,.0f}/s"
    return Figure(
        title="The headline case over Redis",
        method=(
            f"Open loop, Poisson, {rate:,.0f} requests/s of 2 KB, {given.seconds:g} s after 2 s of warm-up, "
            f"milliseconds from the scheduled time; sim:200ms, batches up to 64, {layout}; the load came from "
            f"{given.generators} processes on the same machine. `cores` are those the installation used, `late` is "
            "the generators' own lateness, which the latencies include."
            + (" The rate is the highest that held, in steps of 250." if given.find else "")
        ),
        tables=[markdown_table(header, rows)],
        checks=[
            Check(f"{title}: p99", got.p99, P99_MS),
            Check(f"{title}: errors", together.errors * 100, ERRORS * 100, "%"),
        ],
        data={
            "rate": rate,
            "layout": asdict(layout),
            "trials": [asdict(trial) for trial in trials],
            "simulated": asdict(ideal),
            "floor_ms": {"mean": mean, "p95": p95, "p99": p99},
        },
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
