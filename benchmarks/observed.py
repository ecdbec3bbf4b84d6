"""What it costs to be observed in every way at once: traces of one request in a hundred, the live page open in a
browser, and Prometheus asking every process for its metrics every 5 seconds; beside the same with nobody there.

    python -m benchmarks.observed

Both servers run at once and are loaded in turns of some seconds, so that whatever else the machine does in the
meantime is felt by both; each round starts them anew. The page is opened before a turn of the observed one and
closed after it, so that nothing of it falls on the other's turn. The browser and the receiver of the traces are on
the same machine, and what they take from the server there counts against it. Where there is no Chromium, a client
follows the stream that the page would follow.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from statistics import median

from benchmarks import processor, wrk
from benchmarks.before_after import quartiles
from benchmarks.echo import BODY, FLAGS, MAX_BATCH, TARGET
from benchmarks.figure import Check, Figure, Say, at_least_one, chosen, conduct, options
from benchmarks.installation import Layout, installation
from benchmarks.looking import Looks, at_stream, has_browser, in_browser
from benchmarks.receiver import taking
from benchmarks.scraping import scraped
from benchmarks.serving import serving
from benchmarks.table import markdown_table

NAME = "observed"
LEAST = 0.95  # of the throughput while nobody observes
RATIO = "0.01"  # of the requests are traced
EVERY = 5.0  # seconds between two scrapes
WARM_UP_SECONDS = 2  # not counted
BROWSER, STREAM = "a browser", "a client of its stream"
WATCHERS: Mapping[str, Looks] = {BROWSER: in_browser, STREAM: at_stream}


@dataclass(frozen=True, slots=True)
class Started:
    url: str
    admins: Sequence[str]  # of all processes; the page is opened at the first
    processes: Mapping[str, int]  # pids by name


Start = Callable[[Mapping[str, str]], AbstractContextManager[Started]]  # with these variables


@dataclass(frozen=True, slots=True)
class Turn:
    rate: float  # good answers per second
    cost: float  # microseconds of Penstock's processor time for each of them
    errors: int
    scrapes: int
    traces: int  # exports of spans that came to the receiver meanwhile


@dataclass(slots=True)
class Pair:
    """The turns of both sides in one form, from round to round."""

    off: list[Turn] = field(default_factory=list)
    on: list[Turn] = field(default_factory=list)

    @property
    def parts(self) -> list[float]:
        """The part of the throughput that is left, for each pair of turns."""
        pairs = zip(self.off, self.on, strict=True)
        return [on.rate / off.rate if off.rate else 0.0 for off, on in pairs]


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=3)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=at_least_one, default=5, help="of each turn; 5 by default")
    parser.add_argument("--turns", type=at_least_one, default=4, help="of each side, in a round")
    parser.add_argument("--connections", type=at_least_one, default=512)
    parser.add_argument("--forms", default="embedded,redis", metavar="NAMES", help="embedded, redis, or both")
    parser.add_argument("--stream", action="store_true", help="follow the stream, without a browser")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    forms = {"embedded": ("embedded", _embedded), "redis": ("over Redis", _over_redis)}
    wanted: list[tuple[str, Start]] = chosen(given.forms, forms, "form")
    load = wrk.Load(given.connections, 1, given.seconds)
    watcher = BROWSER if has_browser() and not given.stream else STREAM
    found = {form: Pair() for form, _ in wanted}
    for number in range(given.rounds):
        for form, start in wanted:
            _round(found[form], start, load, given.turns, WATCHERS[watcher])
            parts = " ".join(f"{part:.3f}" for part in found[form].parts[-given.turns :])
            say(f"round {number + 1}/{given.rounds}  {form:<10}  on / off {parts}")
    for form, pair in found.items():
        refuse_unobserved(form, pair)
    return figure(found, load, watcher)


def refuse_unobserved(form: str, pair: Pair) -> None:
    """Raises RuntimeError if an observer was missing: then the figure would look better than it is."""
    if not any(turn.scrapes for turn in pair.on):
        raise RuntimeError(f"{form}: nobody asked for metrics; a turn must last longer than {EVERY / 2:g} s")
    if not any(turn.traces for turn in pair.on):
        raise RuntimeError(f"{form}: no traces came; let turns last longer")


def _round(pair: Pair, start: Start, load: wrk.Load, turns: int, looks: Looks) -> None:
    with ExitStack() as stack:
        receiver, taken = stack.enter_context(taking())
        traced = {"PENSTOCK_TRACING_ENDPOINT": receiver, "PENSTOCK_TRACING_RATIO": RATIO}
        off, on = stack.enter_context(start({})), stack.enter_context(start(traced))
        for one in (off, on):
            wrk.measure(one.url, BODY, load.lasting(WARM_UP_SECONDS))

        def alone() -> None:
            pair.off.append(_turn(off, load, None, taken))

        def observed() -> None:
            with looks(on.admins[0]):
                pair.on.append(_turn(on, load, EVERY, taken))

        for number in range(turns):
            order = (alone, observed) if number % 2 == 0 else (observed, alone)
            for turn in order:
                turn()


def _turn(started: Started, load: wrk.Load, every: float | None, taken: Sequence[int]) -> Turn:
    sent, before = len(taken), processor.used(started.processes)
    with ExitStack() as scrapers:
        asked = [scrapers.enter_context(scraped(admin, every)) for admin in started.admins]
        measured = wrk.measure(started.url, BODY, load)
    used = processor.between(before, processor.used(started.processes))
    cost = 1e6 * sum(used.values()) / max(1, measured.answers)
    return Turn(measured.rate, cost, measured.errors, sum(map(len, asked)), len(taken) - sent)


@contextmanager
def _embedded(settings: Mapping[str, str]) -> Iterator[Started]:
    with serving(TARGET, *FLAGS, settings=settings) as server:
        yield Started(f"{server.url}/v1/inference", [server.admin], {"penstock serve": server.pid})


@contextmanager
def _over_redis(settings: Mapping[str, str]) -> Iterator[Started]:
    with installation(Layout(TARGET, flags=MAX_BATCH, everywhere=settings)) as running:
        admins = [server.admin for server in (*running.gateways, *running.batchers, *running.workers)]
        yield Started(f"{running.urls[0]}/v1/inference", admins, running.processes)


def figure(found: Mapping[str, Pair], load: wrk.Load, watcher: str) -> Figure:
    rows = []
    for form, pair in found.items():
        low, middle, high = quartiles(pair.parts)
        for title, turns in (("off", pair.off), ("on", pair.on)):
            rows.append(
                [
                    form, title, f"{median(turn.rate for turn in turns):,.0f}",
                    f"{middle:.3f}" if title == "on" else "", f"{low:.3f}–{high:.3f}" if title == "on" else "",
                    f"{median(turn.cost for turn in turns):.1f}", str(sum(turn.scrapes for turn in turns)),
                    str(sum(turn.traces for turn in turns)), str(sum(turn.errors for turn in turns)),
                ]
            )  # fmt: skip
    header = [
        "", "observers", "requests/s", "on / off", "quartiles", "µs of CPU a request", "scrapes",
        "exports of traces", "errors",
    ]  # fmt: skip
    number = max(len(pair.on) for pair in found.values())
    return Figure(
        title="Observed in every way at once",
        method=(
            f"wrk, {load.connections} connections, 2 KB of text in and out, echo, batches of up to 64. On: traces"
            f" of one request in a hundred, the live page open in {watcher}, every process asked for its metrics"
            f" every {EVERY:g} s. Both run at once, {number} turns of {load.seconds} s each; rates are medians, and"
            " on / off is the median of the pairs of turns."
        ),
        tables=[markdown_table(header, rows, left=2)],
        checks=[
            Check(f"{form}: everything on, of everything off", median(pair.parts), LEAST, "×", at_least=True)
            for form, pair in found.items()
        ],
        notes=[] if watcher == BROWSER else ["The page was not open in a browser: its stream was followed."],
        data={"watcher": watcher, **{form: asdict(pair) for form, pair in found.items()}},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
