"""Hot keys: nine of ten requests over a hundred inputs, three times as many as the GPU could execute.

    python -m benchmarks.hot_keys

A deterministic model of 100 ms, batches up to 32, one worker: 320 a second. At 1,000 a second all are served if
what is asked together is executed once. Beside it the same with the cache, and without either, which is the limit
that executing everything has.
"""

import argparse
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random

import uvloop
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.figure import Check, Figure, Say, conduct, number, options
from benchmarks.floors import Service
from benchmarks.generator import WARM_UP_SECONDS, Measured
from benchmarks.open_loop import merged
from benchmarks.open_loop_process import Seen, seen
from benchmarks.serving import serving
from benchmarks.table import markdown_table
from penstock.bench.load import Load
from penstock.bench.options import parse_server, reach
from penstock.bench.plan import Plan, Shape, Template, make_plan
from penstock.bench.scrape import scrape
from penstock.load.report import Batches

NAME = "hot_keys"
SERVICE = Service(a=0.1, b=0.0, workers=1, max_batch=32)
RATE, HOT_INPUTS, HOT_SHARE = 1000.0, 100, 0.9  # requests a second; inputs, and how much of the load they get
DETERMINISTIC = {"PENSTOCK_MODEL_DETERMINISTIC": "true"}
SIDES: dict[str, Mapping[str, str]] = {
    "collapsing": {**DETERMINISTIC, "PENSTOCK_MODEL_CACHE": "off"},
    "collapsing and cache": DETERMINISTIC,
    "neither": {},
}
PROMISED = ("collapsing", "collapsing and cache")


@dataclass(frozen=True, slots=True)
class Turn:
    measured: Measured
    requests: float  # accepted, with the warm-up
    executions: float  # inputs that were sent to the worker

    @property
    def served(self) -> float | None:
        return self.measured.ok / self.measured.sent if self.measured.sent else None

    @property
    def executions_per_request(self) -> float | None:
        return self.executions / self.requests if self.requests else None


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    return options(NAME, __doc__, seconds=30.0).parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    turns = {}
    for title, settings in SIDES.items():
        turns[title] = turn = one(settings, given.seconds)
        said = f"served {number(turn.served)}  executions a request {number(turn.executions_per_request)}"
        say(f"{title:<22} {said}  p99 {number(turn.measured.p99)} ms")
    return figure(turns, given.seconds)


def one(settings: Mapping[str, str], seconds: float) -> Turn:
    flags = ("--workers", "1", "--max-batch", str(SERVICE.max_batch))
    with serving("sim:100ms", *flags, settings=settings) as server:
        run = uvloop.run(offer(f"{server.url}/v1/inference", seconds))
        answered, executed = counted(server.admin)
    return Turn(merged([run], Batches(0, None, {})), answered, executed)


async def offer(url: str, seconds: float) -> Seen:
    server = parse_server(url)
    plan = mixed(make_plan(Shape(rate=RATE, duration=seconds, warmup=WARM_UP_SECONDS), server))
    load = Load(plan, reach(server))
    return seen(await load.run(), 0.0)


def mixed(plan: Plan, seed: int = 0) -> Plan:
    """The same schedule; nine of ten requests have one of the hot inputs, the others each its own."""
    [cold] = plan.templates
    hot = [Template(cold.before + b"hot %04d" % n + cold.after) for n in range(HOT_INPUTS)]
    random = Random(seed)
    choice = array(
        "L",
        (1 + random.randrange(HOT_INPUTS) if random.random() < HOT_SHARE else 0 for _ in plan.choice),
    )
    return replace(plan, choice=choice, templates=[cold, *hot])


def counted(admin: str) -> tuple[float, float]:
    """Requests that were accepted, and those that went to the worker."""
    page = scrape(admin)
    if page is None:
        raise RuntimeError(f"{admin} has no metrics")
    totals = {"penstock_requests_total": 0.0, "penstock_batched_requests_total": 0.0}
    for family in text_string_to_metric_families("".join(page.pages.values())):
        for sample in family.samples:
            if sample.name in totals:
                totals[sample.name] += sample.value
    return totals["penstock_requests_total"], totals["penstock_batched_requests_total"]


def figure(turns: Mapping[str, Turn], seconds: float) -> Figure:
    rows = [
        [
            title,
            number(turn.served),
            number(turn.executions_per_request),
            f"{number(turn.measured.mean)} / {number(turn.measured.p95)} / {number(turn.measured.p99)}",
            f"{turn.measured.rejected:,}",
            number(turn.measured.lateness_p99),
        ]
        for title, turn in turns.items()
    ]
    return Figure(
        title="Hot keys",
        method=(
            f"`sim:100ms`, 1 worker, batches up to 32 (capacity {SERVICE.capacity:,.0f}/s), {RATE:,.0f} requests/s"
            f", Poisson, 2 KB of text, {HOT_SHARE:.0%} of them over {HOT_INPUTS} inputs and every other one new, "
            f"{seconds:g} s each."
        ),
        tables=[
            markdown_table(
                ["", "served", "executions a request", "mean / p95 / p99 ms", "refused", "late"], rows
            )
        ],
        checks=[
            Check(f"{title}: served", turns[title].served, 1.0, "×", at_least=True) for title in PROMISED
        ],
        data={title: asdict(turn) for title, turn in turns.items()},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
