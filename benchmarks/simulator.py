"""How many requests the simulator plays in a second of its processor's time.

    python -m benchmarks.simulator

Processor time and not wall time, so that other programs matter less. The best of the rounds: others only ever make
one slower.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from random import Random

from benchmarks.figure import Check, Figure, Say, conduct, options
from benchmarks.floors import Service
from benchmarks.table import markdown_table
from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Kernel, Scenario

NAME = "simulator"
PROMISED = 300_000.0  # requests a second of processor time, at least
CASES = {  # a fleet, and requests a second of virtual time
    "100 ms, 6 × 32, 1,000/s": (Service(a=0.1, workers=6, max_batch=32), 1000.0),
    "100 ms, 6 × 32, 1,728/s": (Service(a=0.1, workers=6, max_batch=32), 1728.0),
    "200 ms, 32 × 64, 10,000/s": (Service(a=0.2, workers=32, max_batch=64), 10_000.0),
}


def speed(service: Service, rate: float, requests: int) -> float:
    """Requests a second of processor time, under the default policy."""
    schedule = poisson(rate, requests / rate, Random(1))
    scenario = Scenario(
        ServiceModel(a=service.a, b=service.b), service.workers, BatchingRules(max_batch=service.max_batch)
    )
    kernel, began = Kernel(scenario), time.process_time()
    kernel.run(schedule)
    return len(schedule) / (time.process_time() - began)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=5)
    parser.add_argument("--requests", type=int, default=60_000, help="of each case and round")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    found: dict[str, float] = {}
    for _ in range(given.rounds):
        for title, (service, rate) in CASES.items():
            found[title] = max(found.get(title, 0.0), speed(service, rate, given.requests))
    for title, most in found.items():
        say(f"{title}: {most:,.0f} requests/s")
    return figure(found, given.rounds)


def figure(found: dict[str, float], rounds: int) -> Figure:
    rows = [[title, f"{most:,.0f}"] for title, most in found.items()]
    return Figure(
        title="The simulator's speed",
        method=f"The default policy in virtual time, on one core; the best of {rounds} rounds.",
        tables=[markdown_table(["case", "requests/s of processor time"], rows)],
        checks=[Check(title, most, PROMISED, "/s", at_least=True) for title, most in found.items()],
        data={"cases": {title: asdict(service) for title, (service, _) in CASES.items()}, "found": found},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
