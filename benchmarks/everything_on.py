"""What identity, quotas, tiers and the ledger cost: `penstock serve` with all of them, beside the same with none.

A thousand users, each with an API key of its own or an RS256 token of its own; every request is let in, counted
against its tenant's quota and written to a ledger in SQLite. Each is compared with a server that has nothing of it
and gets the very same bytes: it does not look at the credentials, but a token is 700 bytes more to send and to
read. They take turns, each time freshly started.
"""

import argparse
import json
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks import processor, wrk
from benchmarks.chart import markdown_table
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options
from benchmarks.peers.roster import SERVERS, TEXT
from benchmarks.serving import serving
from benchmarks.strangers import Strangers, with_keys, with_tokens
from penstock.adapters.keys_file import KeysFile

NAME = "everything_on"
WITH_KEYS, WITH_TOKENS = 0.85, 0.8
TARGET = f"{SERVERS / 'penstock_echo.py'}:batchstring"
BODY = json.dumps({"input": TEXT}).encode()
WARM_UP_SECONDS = 2
OFF, KEYS = "everything off", "API keys, quotas, tiers, ledger"
OFF_TOO, TOKENS = "everything off, tokens sent all the same", "RS256 tokens, quotas, tiers, ledger"
BESIDE = {OFF: OFF, KEYS: OFF, OFF_TOO: OFF_TOO, TOKENS: OFF_TOO}  # which has the same load


@dataclass(frozen=True, slots=True)
class Turn:
    load: wrk.Measurement
    processors: dict[str, float]  # seconds by process
    rows: int = 0  # in the ledger afterwards
    answered: int = 0  # in all, the warm-up too


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=5)
    parser.add_argument("--seconds", type=at_least_one, default=5, help="measured in each turn; 5 by default")
    parser.add_argument("--connections", type=at_least_one, default=512)
    parser.add_argument("--threads", type=at_least_one, default=1, help="wrk's own")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    load = wrk.Load(given.connections, given.threads, given.seconds)
    keys, tokens = with_keys(), with_tokens()
    variants: list[tuple[str, Strangers, bool]] = [
        (OFF, keys, False),
        (KEYS, keys, True),
        (OFF_TOO, tokens, False),
        (TOKENS, tokens, True),
    ]
    turns: dict[str, list[Turn]] = {title: [] for title, _, _ in variants}
    for number_of_round in range(given.rounds):
        # Each is first in turn, so that none has the coolest machine always.
        first = number_of_round % len(variants)
        for title, strangers, on in variants[first:] + variants[:first]:
            turn = _turn(load, strangers, on)
            turns[title].append(turn)
            said = f"{turn.load.rate:>9,.0f}/s" + (f"  {turn.load.errors} errors" if turn.load.errors else "")
            say(f"round {number_of_round + 1}/{given.rounds}  {title:<40} {said}")
    return figure(turns, load)


def _turn(load: wrk.Load, strangers: Strangers, on: bool) -> Turn:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        ledger = folder / "ledger.db"
        flags: tuple[str, ...] = ()
        if on:
            strangers.enrol(KeysFile(folder / "keys.json"))
            flags = ("--config", str(strangers.write(folder, f"sqlite:///{ledger}")))
        with serving(TARGET, "--workers", "1", "--max-batch", "64", *flags) as server:
            url, processes = f"{server.url}/v1/inference", {"penstock serve": server.pid}
            warm_up = wrk.Load(load.connections, load.threads, WARM_UP_SECONDS)
            before_it = wrk.measure(url, BODY, warm_up, strangers.credentials)
            before = processor.used(processes)
            measured = wrk.measure(url, BODY, load, strangers.credentials)
            used = processor.between(before, processor.used(processes))
        return Turn(measured, used, _rows(ledger) if on else 0, before_it.answers + measured.answers)


def _rows(ledger: Path) -> int:
    """After the server has ended, and with it the writing."""
    with closing(sqlite3.connect(ledger)) as database:
        return int(database.execute("select count(*) from penstock_requests").fetchone()[0])


def figure(turns: dict[str, list[Turn]], load: wrk.Load) -> Figure:
    rates = {title: median(turn.load.rate for turn in each) for title, each in turns.items()}
    rows = [
        [
            title,
            f"{rates[title]:,.0f}",
            f"{min(turn.load.rate for turn in each):,.0f}–{max(turn.load.rate for turn in each):,.0f}",
            f"{rates[title] / rates[BESIDE[title]]:.2f}" if rates[BESIDE[title]] else "–",
            f"{median(turn.processors['penstock serve'] / max(1, turn.load.answers) for turn in each) * 1e6:.1f}",
            f"{sum(turn.load.errors for turn in each):,}",
        ]
        for title, each in turns.items()
    ]
    missing = sum(max(0, turn.answered - turn.rows) for title in (KEYS, TOKENS) for turn in turns[title])
    return Figure(
        title="Everything on",
        method=(
            f"wrk, {load.connections} connections, 1,000 users, 2 KB of text in and out, echo, batches up to 64; "
            f"medians of {len(turns[OFF])} interleaved rounds of {load.seconds} s, each freshly started."
        ),
        tables=[
            markdown_table(["", "requests/s", "range", "× off", "µs of CPU a request", "errors"], rows),
        ],
        checks=[
            Check(
                "API keys, of everything off", _ratio(rates[KEYS], rates[OFF]), WITH_KEYS, "×", at_least=True
            ),
            Check(
                "RS256 tokens, of everything off",
                _ratio(rates[TOKENS], rates[OFF_TOO]),
                WITH_TOKENS,
                "×",
                at_least=True,
            ),
            Check("answered requests without a row in the ledger", missing, 0, ""),
        ],
        data={title: [asdict(turn) for turn in each] for title, each in turns.items()},
    )


def _ratio(rate: float, limit: float) -> float | None:
    return rate / limit if limit else None


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
