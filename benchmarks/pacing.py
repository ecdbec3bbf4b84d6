"""How near the server comes to the latency that no policy can beat, and how its own other policies compare.

    python -m benchmarks.pacing

Each policy gets a server of its own and the same schedule; beside each figure stand the simulator's, on that
schedule, and the floor. The traces are of the Azure LLM inference dataset 2023: --traces says where they are.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import floors
from benchmarks.figure import Check, Figure, Say, chosen, conduct, number, options
from benchmarks.floors import Service
from benchmarks.generator import WARM_UP_SECONDS, Measured, Traffic, bench, middle
from benchmarks.serving import serving
from benchmarks.simulated import simulate
from benchmarks.table import markdown_table

NAME = "pacing"
POLICIES = ("paced", "window", "greedy")
CASE_A = Service(a=0.100, workers=6, max_batch=32)
CASE_C = Service(a=0.050, workers=4, max_batch=32)
CREDIT = (
    "The traces are the Azure LLM inference traces of November 2023 (code and conversation), "
    "© Microsoft Azure, AzurePublicDataset, CC-BY 4.0, their gaps scaled to the rate."
)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    service: Service
    rate: float
    trace: str = ""  # a file in the folder of traces

    def traffic(self, seconds: float, traces: Path | None, seed: int) -> Traffic:
        if self.trace and traces is not None:
            # From its first request to its last: a trace is too short to give some of it away.
            return Traffic(self.rate, 3600.0, warmup=0.0, trace=traces / self.trace)
        return Traffic(self.rate, seconds, WARM_UP_SECONDS, seed=seed)


ROWS = (
    Row("middle", "A: 100 ms, 6 × 32, 1,000/s", CASE_A, 1000.0),
    Row("light", "A, 10/s", CASE_A, 10.0),
    Row("heavy", "A, 1,728/s (90 %)", CASE_A, 1728.0),
    Row("c", "C: 50 ms, 4 × 32, 1,000/s", CASE_C, 1000.0),
    Row("code", "A, Azure code, 1,000/s", CASE_A, 1000.0, "azure_llm_2023_code.csv"),
    Row("conv", "A, Azure conversation, 1,000/s", CASE_A, 1000.0, "azure_llm_2023_conv.csv"),
)


@dataclass(frozen=True, slots=True)
class Result:
    row: Row
    policy: str
    measured: Measured
    simulated: Measured

    @property
    def as_data(self) -> dict[str, Any]:
        return {
            "row": self.row.name,
            "policy": self.policy,
            "service": asdict(self.row.service),
            "rate": self.row.rate,
            "measured": asdict(self.measured),
            "simulated": asdict(self.simulated),
        }


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, seconds=60.0, rounds=1)
    names = ", ".join(row.name for row in ROWS)
    parser.add_argument("--rows", default="", metavar="NAMES", help=f"some of: {names}; commas between")
    parser.add_argument("--policies", default=",".join(POLICIES), metavar="NAMES", help="commas between")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="with azure_llm_2023_{code,conv}.csv")
    return parser.parse_args(argv)


def wanted(rows: str) -> list[Row]:
    return chosen(rows, {row.name: row for row in ROWS}, "row")


def measure(given: argparse.Namespace, say: Say) -> Figure:
    rows, notes = wanted(given.rows), []
    policies = [policy.strip() for policy in given.policies.split(",")]
    results: list[Result] = []
    for row in rows:
        if row.trace and (given.traces is None or not (given.traces / row.trace).is_file()):
            notes.append(f"Left out: {row.title}, for want of {row.trace}; say where it is with --traces.")
            say(notes[-1])
            continue
        results += _play(row, policies, given, say)
    if any(result.row.trace for result in results):
        notes.append(CREDIT)
    return figure(results, notes, given.seconds, given.rounds)


def _play(row: Row, policies: Sequence[str], given: argparse.Namespace, say: Say) -> list[Result]:
    measured: dict[str, list[Measured]] = {policy: [] for policy in policies}
    simulated: dict[str, list[Measured]] = {policy: [] for policy in policies}
    for seed in range(given.rounds):
        traffic = row.traffic(given.seconds, given.traces, seed)
        for policy in policies:
            measured[policy].append(_served(row.service, policy, traffic))
            simulated[policy].append(simulate(row.service, policy, traffic))
            last = measured[policy][-1]
            say(
                f"{row.title:<31} {policy:<7} mean {number(last.mean)}  p95 {number(last.p95)}  "
                f"p99 {number(last.p99)} ms, generator late {number(last.lateness_p99)}"
            )
    return [Result(row, policy, middle(measured[policy]), middle(simulated[policy])) for policy in policies]


def _served(service: Service, policy: str, traffic: Traffic) -> Measured:
    target = f"sim:{service.a * 1e3:g}ms"
    workers, batch = str(service.workers), str(service.max_batch)
    with serving(target, "--workers", workers, "--max-batch", batch, "--policy", policy) as server:
        return bench(server.url, server.admin, traffic)


def figure(results: Sequence[Result], notes: list[str], seconds: float, rounds: int) -> Figure:
    header = ["case", "policy", "mean", "p95", "p99", "simulated", "floor", "batch", "late, p99", "errors"]
    rows = [
        [
            result.row.title,
            result.policy,
            *map(number, (result.measured.mean, result.measured.p95, result.measured.p99)),
            _slashed(result.simulated.mean, result.simulated.p95, result.simulated.p99),
            _slashed(*floor(result.row)),
            number(result.measured.batch),
            number(result.measured.lateness_p99),
            str(result.measured.errors),
        ]
        for result in results
    ]
    rounds_said = f", medians of {rounds} rounds" if rounds > 1 else ""
    return Figure(
        title="Pacing",
        method=(
            f"`penstock bench`, open loop, Poisson, 2 KB of text (traces: lengths as recorded), {seconds:g} s "
            f"after 2 s of warm-up (traces: whole), milliseconds from the scheduled time{rounds_said}. Simulated "
            "and floor: mean/p95/p99. `late` is the generator's own lateness, which the latencies include."
        ),
        tables=[markdown_table(header, rows, left=2)],
        checks=[check for result in results if result.policy == "paced" for check in promises(result)],
        notes=notes,
        data={"results": [result.as_data for result in results]},
    )


def promises(result: Result) -> list[Check]:
    """What is promised of `paced`; the other rows are reported only."""
    got, title = result.measured, result.row.title
    if result.row.name == "middle":
        mean, p95, p99 = floor(result.row)
        return [
            Check(f"{title}: mean, 1.03 × the floor", got.mean, 1.03 * mean),
            Check(f"{title}: p95, 1.05 × the floor", got.p95, 1.05 * p95),
            Check(f"{title}: p99, 1.10 × the floor", got.p99, 1.10 * p99),
        ]
    if result.row.name == "light":
        return [Check(f"{title}: mean", got.mean, 103.0)]
    if result.row.name == "heavy":
        return [Check(f"{title}: p95", got.p95, 128.0)]
    return []


def floor(row: Row) -> tuple[float, ...]:
    """Mean, p95 and p99 in ms; nothing for a trace, whose bursts are no steady rate."""
    service, rate = row.service, row.rate
    if row.trace:
        return ()
    if floors.plentiful(service, rate):
        return (floors.alone(service) * 1e3,) * 3
    quantiles = (floors.quantile(service, rate, q) * 1e3 for q in (0.95, 0.99))
    return floors.mean(service, rate) * 1e3, *quantiles


def _slashed(*values: float | None) -> str:
    return "/".join("–" if value is None else f"{value:.1f}" for value in values) or "–"


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
