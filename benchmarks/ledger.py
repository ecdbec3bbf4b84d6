"""What a row for each request costs: the same load with a ledger in PostgreSQL and without, and every row counted.

    python -m benchmarks.ledger

The two take turns under a closed loop, where the database has its part of a machine that is full. Then the highest
rate up to 10,000/s that this machine carries is kept up and recorded, and after it the same without a ledger. After
each turn the rows in the database are held against the requests that the server counted.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from benchmarks import processor, wrk
from benchmarks.echo import BODY, FLAGS, TARGET
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, number, options, reach
from benchmarks.generator import Measured, Traffic, bench
from benchmarks.postgres import Postgres, postgres
from benchmarks.serving import Server, serving
from benchmarks.table import markdown_table

NAME = "ledger"
RATE, OF_WITHOUT = 10_000.0, 0.95  # promised: rows a second, and the part of the throughput without
WARM_UP_SECONDS = 2  # not counted
WRITTEN_WITHIN = 120.0  # seconds after the load
STEPS = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)  # of the rate that is asked for
CARRIED = 0.99  # of what was offered, answered well
PROBE_SECONDS = 3.0  # to find out whether the machine carries a rate


@dataclass(frozen=True, slots=True)
class Count:
    """Requests and rows of one turn."""

    accepted: int  # requests, by the server's own count
    rows: int
    different: int

    @property
    def missing(self) -> int:
        return self.accepted - self.different

    @property
    def doubled(self) -> int:
        return self.rows - self.different


@dataclass(frozen=True, slots=True)
class Turn:
    load: wrk.Measurement
    processors: Mapping[str, float]  # seconds by process
    count: Count | None  # None: without a ledger


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=5)
    parser.add_argument("--seconds", type=at_least_one, default=8, help="of each turn; 8 by default")
    parser.add_argument("--recorded", type=at_least_one, default=60, help="seconds at the steady rate; 60")
    parser.add_argument("--rate", type=float, default=RATE, help="the highest to be tried; 10,000 by default")
    parser.add_argument("--connections", type=at_least_one, default=512)
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    load = wrk.Load(given.connections, 1, given.seconds)
    turns: dict[bool, list[Turn]] = {False: [], True: []}
    with postgres() as database:
        for round_number in range(given.rounds):
            # Whoever went second goes first in the next round.
            for kept in (False, True) if round_number % 2 == 0 else (True, False):
                turns[kept].append(_turn(database if kept else None, f"round_{round_number}", load))
                last, what = turns[kept][-1], "with a ledger" if kept else "without"
                say(f"round {round_number + 1}/{given.rounds}  {what:<14} {last.load.rate:>9,.0f}/s")
        rate, steady, count = _carried(database, given.rate, given.recorded, say)
    traffic = Traffic(rate, given.recorded)
    with serving(TARGET, *FLAGS) as server:
        plain = bench(server.url, None, traffic)
    say(f"{rate:,.0f}/s for {given.recorded:g} s: {number(plain.goodput)}/s without a ledger")
    return figure(turns[True], turns[False], load, traffic, steady, plain, count)


def _turn(database: Postgres | None, name: str, load: wrk.Load) -> Turn:
    settings = {} if database is None else {"PENSTOCK_LEDGER_URL": database.create(name)}
    with serving(TARGET, *FLAGS, settings=settings) as server:
        processes = {"penstock serve": server.pid}
        if database is not None:
            processes["PostgreSQL"] = database.pid
        inference = f"{server.url}/v1/inference"
        wrk.measure(inference, BODY, load.lasting(WARM_UP_SECONDS))
        before = processor.used(processes)
        result = wrk.measure(inference, BODY, load)
        used = processor.between(before, processor.used(processes))
        return Turn(result, used, None if database is None else _count(server, database, name))


def _carried(database: Postgres, highest: float, seconds: float, say: Say) -> tuple[float, Measured, Count]:
    """The highest of some rates that is answered as it comes for so long, or the lowest; a short try goes first."""
    for step, share in enumerate(STEPS):
        rate, last = highest * share, share == STEPS[-1]
        for part, length in (("probe", min(PROBE_SECONDS, seconds)), ("steady", seconds)):
            seen, count = _recorded(database, f"{part}_{step}", Traffic(rate, length))
            late = f"generator late {number(seen.lateness_p99)} ms"
            say(f"{rate:,.0f}/s for {length:g} s: {number(seen.goodput)}/s, {count.rows:,} rows, {late}")
            if seen.goodput < CARRIED * rate and not last:
                break
        else:
            break
    return rate, seen, count


def _recorded(database: Postgres, name: str, traffic: Traffic) -> tuple[Measured, Count]:
    with serving(TARGET, *FLAGS, settings={"PENSTOCK_LEDGER_URL": database.create(name)}) as server:
        seen = bench(server.url, None, traffic)
        return seen, _count(server, database, name)


def _count(server: Server, database: Postgres, name: str) -> Count:
    """Counts requests and rows, once everything that waited for the database has been written."""
    with ExitStack() as stack:
        give_up = time.monotonic() + WRITTEN_WITHIN
        while _waits(stack, server):
            if time.monotonic() > give_up:
                raise RuntimeError(f"rows still waited for the database after {WRITTEN_WITHIN:g} s")
            time.sleep(0.1)
        text = stack.enter_context(urlopen(f"{server.admin}/metrics")).read().decode()
    (row,) = database.ask(name, "SELECT count(*), count(DISTINCT id) FROM penstock_ledger")
    return Count(accepted(text), *row)


def _waits(stack: ExitStack, server: Server) -> bool:
    said: dict[str, Any] = json.load(stack.enter_context(urlopen(f"{server.admin}/internal/health")))
    return bool(said["waiting_clients"] or said["ledger"]["waiting"])


def accepted(metrics: str) -> int:
    """How many requests have ended, well or not."""
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == "penstock_requests_total"
    )


def figure(
    kept: Sequence[Turn],
    without: Sequence[Turn],
    load: wrk.Load,
    traffic: Traffic,
    steady: Measured,
    plain: Measured,
    count: Count,
) -> Figure:
    """`steady` and `plain`: under this traffic, with a ledger and without."""
    ours, limit = (median(turn.load.rate for turn in turns) for turns in (kept, without))
    counts = [count, *(turn.count for turn in kept if turn.count is not None)]
    rows = [
        [
            title,
            f"{middle:,.0f}",
            reach([turn.load.rate for turn in turns]),
            f"{middle / limit:.3f}" if limit else "–",
            f"{sum(turn.load.errors for turn in turns):,}",
            f"{sum(turn.count.rows for turn in turns if turn.count is not None):,}",
        ]
        for title, middle, turns in (("without a ledger", limit, without), ("with PostgreSQL", ours, kept))
    ]
    open_loop = [
        [
            title,
            f"{traffic.rate:,.0f}",
            number(seen.goodput),
            number(seen.p99),
            number(seen.lateness_p99),
            counted,
        ]
        for title, seen, counted in (
            ("without a ledger", plain, ""),
            ("with PostgreSQL", steady, f"{count.rows:,} of {count.accepted:,}"),
        )
    ]
    return Figure(
        title="The ledger",
        method=(
            f"wrk, {load.connections} connections, 2 KB of text in and out, echo, batches up to 64; a ledger in "
            f"PostgreSQL on the same machine and none, medians of {len(kept)} interleaved rounds of "
            f"{load.seconds} s, each freshly started. Then `penstock bench`, Poisson, {traffic.seconds:g} s at the "
            f"highest rate up to that asked for of which {CARRIED:.0%} are answered well, and the same without."
        ),
        tables=[
            markdown_table(["closed loop", "requests/s", "range", "× without", "errors", "rows"], rows),
            costs(kept, without),
            markdown_table(
                ["open loop", "offered/s", "answered/s", "p99 ms", "generator late, p99 ms", "rows"],
                open_loop,
            ),
        ],
        checks=[
            Check(
                "throughput with the ledger, of the same without",
                steady.goodput / plain.goodput if plain.goodput else None,
                OF_WITHOUT,
                "×",
                at_least=True,
            ),
            Check("rows missing", sum(each.missing for each in counts), 0, ""),
            Check("rows doubled", sum(each.doubled for each in counts), 0, ""),
            Check(
                f"requests/s recorded for {traffic.seconds:g} s",
                steady.goodput,
                CARRIED * RATE,
                "/s",
                at_least=True,
            ),
        ],
        data={
            "kept": [_as_data(turn) for turn in kept],
            "without": [_as_data(turn) for turn in without],
            "steady": {"rate": traffic.rate, **asdict(steady), **asdict(count)},
            "steady without": asdict(plain),
        },
    )


def costs(kept: Sequence[Turn], without: Sequence[Turn]) -> str:
    """Microseconds of processor time a request, medians."""
    rows = []
    for title, turns in (("without", without), ("with", kept)):
        for name in sorted({name for turn in turns for name in turn.processors}):
            each = [turn.processors.get(name, 0.0) / turn.load.answers for turn in turns if turn.load.answers]
            shown = "PostgreSQL's sessions" if name == "PostgreSQL, its function" else name
            rows.append([title, shown, f"{median(each) * 1e6:.1f}" if each else "–"])
    return markdown_table(["", "process", "µs of CPU a request"], rows, left=2)


def _as_data(turn: Turn) -> dict[str, object]:
    count = {} if turn.count is None else asdict(turn.count)
    return {**asdict(turn.load), "rate": turn.load.rate, "processor_seconds": dict(turn.processors), **count}


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
