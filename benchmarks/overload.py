"""Twice the requests that the workers can take, each with 200 ms to live: how much useful work still comes out?

    python -m benchmarks.overload

The server is measured by `penstock bench`; the ways to choose whom to serve are compared in the simulator, on
three tiers and a service time that varies, with the same core that the server runs.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from benchmarks.figure import Check, Figure, Say, conduct, number, options
from benchmarks.floors import Service
from benchmarks.generator import Measured, Traffic, bench, middle
from benchmarks.serving import serving
from benchmarks.simulated import simulate
from benchmarks.table import markdown_table
from penstock.core.buffer import TierRules
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Kernel, Scenario

NAME = "overload"
SERVICE = Service(a=0.100, workers=6, max_batch=32)
RATE = 2 * SERVICE.capacity
DEADLINE_MS = 200
GOODPUT, REFUSAL_MS = 0.95, 20.0  # promised: of the capacity at least; the p99 of refusals at most

TIERS = (0.2, 0.3, 0.5)  # how the arrivals fall to them
JITTER = 0.10  # of the service time, in the simulator
LONG = 3600.0  # a limit that nobody meets
SIMULATED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Discipline:
    """Who is served and who is turned away, as far as the simulator's settings can say it."""

    title: str
    queue_limit: float = LONG
    request_limit: float = LONG
    admission: AdmissionRules | None = None
    by_tier: bool = False


DEADLINE = DEADLINE_MS / 1e3
DISCIPLINES = (
    Discipline("first come, first served; nothing shed"),
    Discipline(
        "first come, first served; queue of 192",
        admission=AdmissionRules(max_queue=SERVICE.workers * SERVICE.max_batch),
    ),
    # It may wait for as long as leaves exactly one service time.
    Discipline("first come, first served; exact expiry", queue_limit=DEADLINE - SERVICE.a),
    Discipline("best tier first, expiry with 2.5 σ guard", DEADLINE, DEADLINE, by_tier=True),
    Discipline("best tier first, refused at arrival", DEADLINE, DEADLINE, AdmissionRules(), by_tier=True),
)
PROMISED = DISCIPLINES[-2:]


@dataclass(frozen=True, slots=True)
class Outcome:
    discipline: Discipline
    goodput: float  # share of capacity
    served: tuple[float, ...]  # share of each tier that was served in time


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    return options(NAME, __doc__, seconds=30.0, rounds=3).parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    measured: list[Measured] = []
    simulated: list[Measured] = []
    for seed in range(given.rounds):
        traffic = Traffic(RATE, given.seconds, timeout_ms=DEADLINE_MS, seed=seed)
        measured.append(_served(traffic))
        simulated.append(simulate(SERVICE, "paced", traffic))
        last = measured[-1]
        say(
            f"round {seed + 1}/{given.rounds}  goodput {number(last.goodput)}/s, "
            f"refusals p99 {number(last.refused_p99)} ms, generator late {number(last.lateness_p99)}"
        )
    say(f"simulating {len(DISCIPLINES)} disciplines …")
    outcomes = [play(discipline, SIMULATED_SECONDS) for discipline in DISCIPLINES]
    return figure(measured, simulated, outcomes, given.seconds)


def _served(traffic: Traffic) -> Measured:
    workers, batch = str(SERVICE.workers), str(SERVICE.max_batch)
    with serving(f"sim:{SERVICE.a * 1e3:g}ms", "--workers", workers, "--max-batch", batch) as server:
        return bench(server.url, server.admin, traffic)


def play(discipline: Discipline, seconds: float) -> Outcome:
    scenario = Scenario(
        service=ServiceModel(a=SERVICE.a, jitter=JITTER),
        workers=SERVICE.workers,
        rules=BatchingRules(max_batch=SERVICE.max_batch, tiers=TierRules(strict=True)),
        admission=discipline.admission,
        queue_limit=discipline.queue_limit,
        request_limit=discipline.request_limit,
        tier_shares=TIERS if discipline.by_tier else (1.0,),
    )
    run = Kernel(scenario).run(poisson(RATE, seconds, Random(0)))
    # Those who know no deadline answer late ones too: nobody waits for these any more.
    in_time = sum(latency <= DEADLINE for latency in run.latencies)
    if discipline.by_tier:
        served = tuple(run.in_time_by_tier[tier] / run.sent_by_tier[tier] for tier in range(len(TIERS)))
    else:
        served = (in_time / run.sent,)
    return Outcome(discipline, in_time / seconds / SERVICE.capacity, served)


def figure(
    measured: Sequence[Measured], simulated: Sequence[Measured], outcomes: Sequence[Outcome], seconds: float
) -> Figure:
    got, ideal = middle(measured), middle(simulated)
    header = [
        "2 × capacity",
        "goodput/s",
        "× capacity",
        "p99",
        "refusals, p99",
        "refused",
        "other errors",
        "late, p99",
    ]
    rows = [
        [
            title,
            number(m.goodput),
            f"{m.goodput / SERVICE.capacity:.3f}",
            *map(number, (m.p99, m.refused_p99)),
            f"{m.rejected:,}" if m is got else "–",
            f"{m.errors - m.rejected:,}" if m is got else "–",
            number(m.lateness_p99),
        ]
        for title, m in (("Penstock", got), ("simulated", ideal))
    ]
    tiers = [
        [o.discipline.title, f"{o.goodput:.3f}", " / ".join(f"{share:.2f}" for share in o.served)]
        for o in outcomes
    ]
    return Figure(
        title="Overload",
        method=(
            f"`penstock bench`, sim:100ms, 6 workers, batches up to 32 (capacity {SERVICE.capacity:,.0f}/s), "
            f"{RATE:,.0f} requests/s, Poisson, 2 KB of text, {DEADLINE_MS} ms deadlines, {seconds:g} s a round, "
            f"medians of {len(measured)} rounds; goodput counts answers in time. Below it the simulator: the same "
            f"service with {JITTER:.0%} jitter, tiers of {' / '.join(f'{share:.0%}' for share in TIERS)}, "
            f"{SIMULATED_SECONDS:g} s."
        ),
        tables=[
            markdown_table(header, rows),
            markdown_table(["simulated discipline", "goodput / capacity", "in time, by tier"], tiers),
        ],
        checks=promises(got, outcomes),
        data={
            "rounds": [asdict(m) for m in measured],
            "simulated": [asdict(m) for m in simulated],
            "disciplines": [_as_data(outcome) for outcome in outcomes],
        },
    )


def promises(got: Measured, outcomes: Sequence[Outcome]) -> list[Check]:
    """The server's, and that the simulated disciplines reach what theory gives them, within 2 %."""
    checks = [
        Check(
            f"goodput, {GOODPUT:.0%} of capacity",
            got.goodput,
            GOODPUT * SERVICE.capacity,
            "/s",
            at_least=True,
        ),
        Check("refusals, p99", got.refused_p99, REFUSAL_MS),
    ]
    for outcome in outcomes:
        if outcome.discipline in PROMISED:
            title = outcome.discipline.title
            checks.append(Check(f"{title}: goodput", outcome.goodput, 0.98 * 0.992, "×", at_least=True))
            checks.append(Check(f"{title}: best tier", outcome.served[0], 0.98, "×", at_least=True))
    return checks


def _as_data(outcome: Outcome) -> dict[str, Any]:
    return {"title": outcome.discipline.title, "goodput": outcome.goodput, "served": outcome.served}


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
