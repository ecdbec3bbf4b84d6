"""What it costs a server to be scraped: throughput while Prometheus asks every 5 seconds or every second, beside
the same server while nobody asks.

    python -m benchmarks.scraping

One server is loaded in turns of a few seconds. In each it is asked for its metrics as Prometheus asks (OpenMetrics,
on a connection that stays open), or not at all. Its other models have no requests but all their series, so that the
page is as long as that of a large server. The order changes from round to round, and each turn is held against the
one of its round in which nobody asked. There are two such turns in each round: how far they are apart is the
machine's own noise. It is also measured what a page costs the idle server.
"""

import argparse
import http.client
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from benchmarks import echo, processor, wrk
from benchmarks.before_after import quartiles
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options
from benchmarks.serving import Server, serving
from benchmarks.table import markdown_table

NAME = "scraping"
LEAST = {5.0: 0.99, 1.0: 0.98}  # of the throughput, by the seconds between two scrapes
ACCEPT = (  # what Prometheus sends
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
SERVER = "the server"
WARM_UP_SECONDS = 2  # not counted
PAGES = 200  # that are asked for on the idle server
MOST = 0.1  # per cent of a core, for a scrape every 5 seconds


@dataclass(frozen=True, slots=True)
class Turn:
    rate: float  # good answers per second
    cost: float  # microseconds of the server's processor time for each of them
    errors: int
    scrapes: int


@dataclass(frozen=True, slots=True)
class Page:
    """What one page costs while nobody else asks for anything."""

    size: float  # bytes
    seconds: float  # until it has come
    cost: float  # seconds of the server's processor time


@dataclass(slots=True)
class Side:
    """Turns with so many seconds between two scrapes; None: nobody asks."""

    title: str
    every: float | None
    turns: list[Turn] = field(default_factory=list)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=8)
    parser.add_argument("--seconds", type=at_least_one, default=5, help="of each turn; 5 by default")
    parser.add_argument("--connections", type=at_least_one, default=512)
    parser.add_argument("--models", type=at_least_one, default=10, help="that the server has; 10 by default")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    load = wrk.Load(given.connections, 1, given.seconds)
    sides = [Side("nobody asks", None), Side("nobody asks either", None)]
    sides += [Side(f"scraped every {every:g} s", every) for every in LEAST]
    with TemporaryDirectory(prefix="penstock-bench-") as folder, _server(folder, given.models) as server:
        url = f"{server.url}/v1/inference"
        wrk.measure(url, echo.BODY, load.lasting(WARM_UP_SECONDS))
        for number in range(given.rounds):
            first = number % len(sides)
            for side in sides[first:] + sides[:first]:  # each comes first, second and last equally often
                side.turns.append(_turn(server, url, load, side.every))
            parts = "  ".join(f"{side.title} {side.turns[-1].rate:,.0f}/s" for side in sides)
            say(f"round {number + 1}/{given.rounds}  {parts}")
        page = _page(server)
    return figure(sides, page, load, given.models)


@contextmanager
def _server(folder: str, models: int) -> Iterator[Server]:
    config = Path(folder) / "penstock.toml"
    asked = f'[models.m0]\ntarget = "{echo.TARGET}"\nmax_batch = 64\ndefault = true\n'
    silent = (f'[models.m{number}]\ntarget = "sim:1ms"\n' for number in range(1, models))
    config.write_text("\n".join([asked, *silent]))
    with serving(f"--config={config}") as server:
        yield server


def _turn(server: Server, url: str, load: wrk.Load, every: float | None) -> Turn:
    before = processor.used({SERVER: server.pid})
    with scraped(server.admin, every) as scrapes:
        measured = wrk.measure(url, echo.BODY, load)
    seconds = processor.between(before, processor.used({SERVER: server.pid}))[SERVER]
    cost = 1e6 * seconds / measured.answers if measured.answers else 0.0
    return Turn(measured.rate, cost, measured.errors, len(scrapes))


@contextmanager
def scraped(admin: str, every: float | None) -> Iterator[list[int]]:
    """The server is asked for its metrics until this ends, at first in the middle of the first span. Gives the
    sizes of the pages."""
    over, sizes = threading.Event(), list[int]()

    def ask() -> None:
        assert every is not None
        connection = http.client.HTTPConnection(urlsplit(admin).netloc)
        wait = every / 2
        while not over.wait(wait):
            connection.request("GET", "/metrics", headers={"accept": ACCEPT})
            sizes.append(len(connection.getresponse().read()))
            wait = every
        connection.close()

    asking = threading.Thread(target=ask) if every is not None else None
    if asking is not None:
        asking.start()
    try:
        yield sizes
    finally:
        over.set()
        if asking is not None:
            asking.join()


def _page(server: Server) -> Page:
    sizes, times = list[int](), list[float]()
    connection = http.client.HTTPConnection(urlsplit(server.admin).netloc)
    before = processor.used({SERVER: server.pid})
    for _ in range(PAGES):
        began = time.perf_counter()
        connection.request("GET", "/metrics", headers={"accept": ACCEPT})
        sizes.append(len(connection.getresponse().read()))
        times.append(time.perf_counter() - began)
    used = processor.between(before, processor.used({SERVER: server.pid}))[SERVER]
    connection.close()
    return Page(median(sizes), median(times), used / PAGES)


def parts_of(side: Side, alone: Side) -> list[float]:
    """The part of the throughput that is left, for each round."""
    return [
        mine.rate / theirs.rate if theirs.rate else 0.0
        for mine, theirs in zip(side.turns, alone.turns, strict=True)
    ]


def figure(sides: Sequence[Side], page: Page, load: wrk.Load, models: int) -> Figure:
    alone, asked = sides[0], sides[1:]
    rows = []
    for side in sides:
        low, middle, high = quartiles(parts_of(side, alone))
        rows.append(
            [
                side.title, f"{median(turn.rate for turn in side.turns):,.0f}", f"{middle:.3f}",
                f"{low:.3f}–{high:.3f}", f"{median(turn.cost for turn in side.turns):.1f}",
                str(sum(turn.scrapes for turn in side.turns)), str(sum(turn.errors for turn in side.turns)),
            ]
        )  # fmt: skip
    header = ["", "requests/s", "part", "quartiles", "µs of CPU a request", "scrapes", "errors"]
    return Figure(
        title="Scraping",
        method=(
            f"wrk, {load.connections} connections, 2 KB of text in and out, echo, batches of up to 64, "
            f"{models} models; {len(alone.turns)} turns of {load.seconds} s each on one server; rates are "
            "medians, the part is the median of the rounds."
        ),
        tables=[markdown_table(header, rows)],
        checks=[
            Check(side.title, quartiles(parts_of(side, alone))[1], LEAST[side.every], "×", at_least=True)
            for side in asked
            if side.every is not None
        ]
        + [Check("a scrape every 5 s", 100 * page.cost / 5.0, MOST, "% of a core")],
        notes=[
            f"A page of {models} models has {page.size / 1e3:,.0f} KB. On the idle server it takes"
            f" {1e3 * page.seconds:.1f} ms to come and {1e3 * page.cost:.1f} ms of the server's processor time."
        ],
        data={"page": asdict(page), **{side.title: [asdict(turn) for turn in side.turns] for side in sides}},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
