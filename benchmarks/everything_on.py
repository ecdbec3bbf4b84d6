"""What identity, quotas, tiers and the ledger cost: `penstock serve` with all of them, beside the same with none.

    python -m benchmarks.everything_on

A thousand users, each with an API key of its own or an RS256 token of its own; every request is let in, counted
against its tenant's quota and written to a ledger in SQLite. Each is compared with a server that has all of it off
and gets the same bytes. The server with all of it off does not look at the credentials, but a token is 700 bytes
more to send and to read. Both run at once and are loaded in turns, so that whatever else the machine does in the
meantime is felt by both; each round starts them anew. Every turn begins with a second that is not measured, so that
the ledger is at work as it will be at the end; and the other one's turn does not begin before it has written
everything."""

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from benchmarks import echo, heads, processor, wrk
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options, reach
from benchmarks.serving import DidNotServe, Server, serving
from benchmarks.strangers import Strangers, with_keys, with_tokens
from benchmarks.table import markdown_table
from penstock.adapters.api_keys.file import KeysFile

NAME = "everything_on"
WITH_KEYS, WITH_TOKENS = 0.85, 0.8  # promised: the part of the throughput with all of it off
WARM_UP_SECONDS = 2  # not counted
LEAD_SECONDS = 1  # at the beginning of each turn, not measured
LEDGER_SECONDS = 30  # in which the ledger must have written everything
OFF, KEYS = "everything off", "API keys, quotas, tiers, ledger"
OFF_TOO, TOKENS = "everything off, tokens sent all the same", "RS256 tokens, quotas, tiers, ledger"


@dataclass(frozen=True, slots=True)
class Turn:
    load: wrk.Measurement
    processors: dict[str, float]  # seconds by process


@dataclass(slots=True)
class Side:
    """A server, from round to round."""

    title: str
    on: bool
    turns: list[Turn] = field(default_factory=list)
    answered: int = 0  # requests in all, also those that are not measured
    rows: int = 0  # in the ledger, when the server had ended

    @property
    def rate(self) -> float:
        return median(turn.load.rate for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same load on a server with everything off and on one with everything on."""

    promise: str
    least: float
    off: Side
    on: Side

    @property
    def parts(self) -> list[float]:
        """The part of the throughput that is left, for each pair of turns."""
        pairs = zip(self.off.turns, self.on.turns, strict=True)
        return [on.load.rate / off.load.rate if off.load.rate else 0.0 for off, on in pairs]

    @property
    def part(self) -> float:
        return median(self.parts)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=6)
    parser.add_argument("--seconds", type=at_least_one, default=1, help="measured in each turn; 1 by default")
    parser.add_argument(
        "--turns", type=at_least_one, default=5, help="of each server in a round; 5 by default"
    )
    parser.add_argument("--connections", type=at_least_one, default=512)
    parser.add_argument("--threads", type=at_least_one, default=1, help="wrk's own")
    return parser.parse_args(argv)


def pairs() -> tuple[Pair, Pair]:
    return (
        Pair("API keys, of everything off", WITH_KEYS, Side(OFF, on=False), Side(KEYS, on=True)),
        Pair("RS256 tokens, of everything off", WITH_TOKENS, Side(OFF_TOO, on=False), Side(TOKENS, on=True)),
    )


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    load = wrk.Load(given.connections, given.threads, given.seconds)
    both = pairs()
    of_each = list(zip(both, (with_keys(), with_tokens()), strict=True))
    for number_of_round in range(given.rounds):
        for pair, strangers in of_each:
            _round(pair, strangers, load, given.turns, first_on=number_of_round % 2 == 1)
            off, on = (
                [turn.load.rate for turn in side.turns[-given.turns :]] for side in (pair.off, pair.on)
            )
            say(
                f"round {number_of_round + 1}/{given.rounds}  {pair.on.title:<36} {median(off):>7,.0f}/s off  "
                f"{median(on):>7,.0f}/s on  {median(pair.parts[-given.turns :]):.3f} ×"
            )
    return figure(both, load, given.turns)


def _round(pair: Pair, strangers: Strangers, load: wrk.Load, turns: int, *, first_on: bool) -> None:
    with (
        _server(pair.off, strangers) as plain,
        _server(pair.on, strangers) as full,
    ):
        sides = [(pair.off, plain), (pair.on, full)]
        for side, server in sides:
            _load(side, server, strangers, load.lasting(WARM_UP_SECONDS))
        for number in range(turns):
            # Whoever went second goes first in the next turn.
            for side, server in reversed(sides) if (number % 2 == 1) != first_on else sides:
                _written(full)
                _load(side, server, strangers, load.lasting(LEAD_SECONDS))
                processes = {"penstock serve": server.pid}
                before = processor.used(processes)
                measured = _load(side, server, strangers, load)
                side.turns.append(Turn(measured, processor.between(before, processor.used(processes))))


@contextmanager
def _server(side: Side, strangers: Strangers) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        ledger = folder / "ledger.db"
        flags: tuple[str, ...] = ()
        if side.on:
            strangers.enrol(KeysFile(folder / "keys.json"))
            flags = ("--config", str(strangers.write(folder, f"sqlite:///{ledger}")))
        with serving(echo.TARGET, *echo.FLAGS, *flags) as server:
            yield server
        if side.on:
            side.rows += _rows(ledger)


def _load(side: Side, server: Server, strangers: Strangers, load: wrk.Load) -> wrk.Measurement:
    inference = f"{server.url}/v1/inference"
    measured = heads.prepared(heads.SAME, inference, echo.body, strangers.credentials)(load)
    side.answered += measured.answers
    return measured


def _written(server: Server) -> None:
    """Waits until the ledger has written everything: otherwise it would do so in the other side's turn."""
    ends = time.monotonic() + LEDGER_SECONDS
    while time.monotonic() < ends:
        with urlopen(f"{server.admin}/internal/health") as said:
            if json.load(said)["ledger"]["waiting"] == 0:
                return
        time.sleep(0.1)
    raise DidNotServe(f"its ledger had not written everything after {LEDGER_SECONDS} s")


def _rows(ledger: Path) -> int:
    """How many rows the ledger has, after the server has ended."""
    with closing(sqlite3.connect(ledger)) as database:
        return int(database.execute("select count(*) from penstock_requests").fetchone()[0])


def figure(both: Sequence[Pair], load: wrk.Load, turns: int) -> Figure:
    rows = []
    for pair in both:
        for side, part in ((pair.off, 1.0), (pair.on, pair.part)):
            rates = [turn.load.rate for turn in side.turns]
            cost = median(
                turn.processors["penstock serve"] / max(1, turn.load.answers) for turn in side.turns
            )
            errors = sum(turn.load.errors for turn in side.turns)
            rows.append(
                [
                    side.title, f"{side.rate:,.0f}", reach(rates), f"{part:.2f}",
                    f"{cost * 1e6:.1f}", f"{errors:,}",
                ]
            )  # fmt: skip
    return Figure(
        title="Everything on",
        method=(
            f"wrk, {load.connections} connections, 1,000 users, 2 KB of text in and out, echo, batches up to 64; "
            f"both servers running, {len(both[0].off.turns)} turns of {load.seconds} s each, started anew after "
            f"every {turns}; medians, the part that of the pairs of turns."
        ),
        tables=[
            markdown_table(["", "requests/s", "range", "× off", "µs of CPU a request", "errors"], rows),
        ],
        checks=[
            *(Check(pair.promise, pair.part, pair.least, "×", at_least=True) for pair in both),
            Check("answered requests without a row in the ledger", _missing(both), 0, ""),
        ],
        data={side.title: _data(side) for pair in both for side in (pair.off, pair.on)},
    )


def _missing(both: Sequence[Pair]) -> int:
    return sum(max(0, pair.on.answered - pair.on.rows) for pair in both)


def _data(side: Side) -> Mapping[str, object]:
    return {"turns": [asdict(turn) for turn in side.turns], "answered": side.answered, "rows": side.rows}


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
