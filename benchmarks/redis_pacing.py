"""How near an installation over Redis comes to the latency that no policy can beat, and how full its batches are.

    python -m benchmarks.redis_pacing

Case A: six slots of 100 ms, batches up to 32. First 1,000 requests/s, held against the floor; then 90 % of the
capacity with one batcher and with two, which share 16 shards and the slots: their batches must not get smaller.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks import floors
from benchmarks.figure import Check, Figure, Say, at_least_one, chosen, conduct, number, options
from benchmarks.floors import Service
from benchmarks.generator import Measured, Traffic, middle
from benchmarks.installation import Layout, installation
from benchmarks.open_loop import offer
from benchmarks.simulated import simulate
from benchmarks.table import markdown_table
from penstock.errors import UserMistake

NAME = "redis_pacing"
CASE_A = Service(a=0.100, workers=6, max_batch=32)
MEAN, P95, P99 = 1.05, 1.08, 1.15  # times the floor
FULLNESS = 0.9  # promised: the mean batch of two batchers, of that of one


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    rate: float
    batchers: int = 1


ROWS = (
    Row("middle", "A: 100 ms, 6 × 32, 1,000/s", 1000.0),
    Row("single", "A, 90 %, 1 batcher", 0.9 * CASE_A.capacity),
    Row("shared", "A, 90 %, 2 batchers, 16 shards", 0.9 * CASE_A.capacity, batchers=2),
)


@dataclass(frozen=True, slots=True)
class Result:
    row: Row
    measured: Measured
    simulated: Measured  # one batcher that knows everything at once


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, seconds=60.0, rounds=1)
    names = ", ".join(row.name for row in ROWS)
    parser.add_argument("--rows", default="", metavar="NAMES", help=f"some of: {names}; commas between")
    parser.add_argument("--workers", type=at_least_one, default=1, help="processes that share the six slots")
    parser.add_argument("--generators", type=at_least_one, default=1, help="processes that offer the load")
    return parser.parse_args(argv)


def wanted(rows: str) -> list[Row]:
    return chosen(rows, {row.name: row for row in ROWS}, "row")


def measure(given: argparse.Namespace, say: Say) -> Figure:
    rows = wanted(given.rows)
    if CASE_A.workers % given.workers:
        raise UserMistake(f"{CASE_A.workers} slots cannot be dealt out to {given.workers} worker processes")
    found: dict[str, list[Measured]] = {row.name: [] for row in rows}
    ideal: dict[str, list[Measured]] = {row.name: [] for row in rows}
    for seed in range(given.rounds):
        # One batcher and two take turns within each round.
        for row in rows:
            traffic = Traffic(row.rate, given.seconds, seed=seed)
            found[row.name].append(_served(row, traffic, given))
            ideal[row.name].append(simulate(CASE_A, "paced", traffic))
            last = found[row.name][-1]
            say(
                f"{row.title:<31} mean {number(last.mean)}  p95 {number(last.p95)}  p99 {number(last.p99)} ms, "
                f"batch {number(last.batch)}, generator late {number(last.lateness_p99)}"
            )
    results = [Result(row, middle(found[row.name]), middle(ideal[row.name])) for row in rows]
    return figure(results, given.seconds, given.rounds, given.workers)


def _served(row: Row, traffic: Traffic, given: argparse.Namespace) -> Measured:
    layout = Layout(
        f"sim:{CASE_A.a * 1e3:g}ms",
        batchers=row.batchers,
        workers=given.workers,
        slots=CASE_A.workers // given.workers,
        flags=("--max-batch", str(CASE_A.max_batch)),
    )
    with installation(layout) as running:
        admins = [batcher.admin for batcher in running.batchers]
        return offer(running.urls, traffic, given.generators, admins)


def figure(results: Sequence[Result], seconds: float, rounds: int, workers: int) -> Figure:
    header = ["case", "mean", "p95", "p99", "simulated", "floor", "batch", "late, p99", "errors"]
    rows = [
        [
            result.row.title,
            *map(number, (result.measured.mean, result.measured.p95, result.measured.p99)),
            slashed(result.simulated.mean, result.simulated.p95, result.simulated.p99),
            slashed(*floor(CASE_A, result.row.rate)),
            number(result.measured.batch),
            number(result.measured.lateness_p99),
            f"{result.measured.errors:,}",
        ]
        for result in results
    ]
    rounds_said = f", medians of {rounds} rounds" if rounds > 1 else ""
    processes = "one worker process" if workers == 1 else f"{workers} worker processes"
    return Figure(
        title="Pacing over Redis",
        method=(
            f"Open loop, Poisson, 2 KB of text, {seconds:g} s after 2 s of warm-up, milliseconds from the "
            f"scheduled time{rounds_said}; Valkey, 1 gateway, {processes} with six slots in all. Simulated (one "
            "batcher, nothing else takes time) and floor: mean/p95/p99. `batch` is the mean size by the batchers' "
            "own metrics, `late` the generator's own lateness, which the latencies include."
        ),
        tables=[markdown_table(header, rows)],
        checks=promises({result.row.name: result.measured for result in results}),
        data={
            "results": [
                {
                    "row": result.row.name,
                    "rate": result.row.rate,
                    "batchers": result.row.batchers,
                    "measured": asdict(result.measured),
                    "simulated": asdict(result.simulated),
                }
                for result in results
            ]
        },
    )


def promises(measured: dict[str, Measured]) -> list[Check]:
    checks = []
    if "middle" in measured:
        got, (mean, p95, p99) = measured["middle"], floor(CASE_A, 1000.0)
        checks += [
            Check(f"1,000/s: mean, {MEAN:.2f} × the floor", got.mean, MEAN * mean),
            Check(f"1,000/s: p95, {P95:.2f} × the floor", got.p95, P95 * p95),
            Check(f"1,000/s: p99, {P99:.2f} × the floor", got.p99, P99 * p99),
        ]
    if "single" in measured and "shared" in measured:
        one, two = measured["single"].batch, measured["shared"].batch
        fullness = None if not one or two is None else two / one
        checks.append(
            Check("mean batch of 2 batchers, of one's", fullness, FULLNESS, "×", at_least=True)
        )  # fmt: skip
    return checks


def floor(service: Service, rate: float) -> tuple[float, float, float]:
    """Mean, p95 and p99 in ms."""
    p95, p99 = (floors.quantile(service, rate, q) * 1e3 for q in (0.95, 0.99))
    return floors.mean(service, rate) * 1e3, p95, p99


def slashed(*values: float | None) -> str:
    return "/".join("–" if value is None else f"{value:.1f}" for value in values)


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
