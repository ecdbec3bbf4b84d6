"""Over Redis with everything on (API keys, quotas shared between gateways, tiers, ledger), beside all of it off.

    python -m benchmarks.redis_everything

A thousand users with an API key each, kept in Redis; every request is let in, counted against its tenant's quota
and written to a ledger in SQLite. Valkey, gateway, batcher, worker and the load generator share the machine. The
two take turns, each time freshly started, with the same bytes.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import wrk
from benchmarks.echo import MAX_BATCH, TARGET
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, number, options, reach
from benchmarks.installation import Layout, installation
from benchmarks.redis_throughput import Turn, as_data, asked, costs, loaded
from benchmarks.strangers import Strangers, with_keys
from benchmarks.table import markdown_table
from benchmarks.valkey import Valkey, ValkeyCluster
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records.api_keys import RedisKeys

NAME = "redis_everything"
RATE, COMMANDS = 10_000.0, 0.4  # promised: requests a second, and commands of Redis for each


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=5)
    parser.add_argument("--seconds", type=at_least_one, default=8, help="measured in each turn; 8 by default")
    parser.add_argument("--connections", type=at_least_one, default=512)
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    load = wrk.Load(given.connections, 1, given.seconds)
    strangers = with_keys()
    off: list[Turn] = []
    on: list[Turn] = []
    for number_of_round in range(given.rounds):
        turns = [("everything off", off, False), ("everything on", on, True)]
        # Whoever went second goes first in the next round.
        for title, results, switched_on in turns if number_of_round % 2 == 0 else reversed(turns):
            results.append(_turn(load, strangers, switched_on))
            last = results[-1]
            said = f"{last.load.rate:>9,.0f}/s  {number(last.commands_per_request)} commands a request"
            if last.load.errors:
                said += f"  {last.load.errors} errors"
            say(f"round {number_of_round + 1}/{given.rounds}  {title:<14} {said}")
    return figure(on, off, load)


def _turn(load: wrk.Load, strangers: Strangers, on: bool) -> Turn:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        layout = Layout(TARGET, flags=MAX_BATCH)
        if on:
            config = str(strangers.write(folder, f"sqlite:///{folder}/ledger.db"))
            layout = replace(layout, config=config, credential=strangers.credentials[0])
        with installation(layout, partial(_enrol, strangers)) as running:
            return loaded(running.urls[0], running.processes, load, running.valkey, strangers.credentials)


def _enrol(strangers: Strangers, valkey: Valkey | ValkeyCluster) -> None:
    async def enrol() -> None:
        store = Store(RedisSettings(url=valkey.url))
        await store.open()
        try:
            keys = RedisKeys(store)
            for record in strangers.records:
                await keys.add(record)
        finally:
            await store.close()

    asyncio.run(enrol())


def figure(on: Sequence[Turn], off: Sequence[Turn], load: wrk.Load) -> Figure:
    with_all, without = (median(turn.load.rate for turn in turns) for turns in (on, off))
    commands = [turn.commands_per_request or 0.0 for turn in on]
    rows = [
        [
            title,
            f"{rate:,.0f}",
            reach([turn.load.rate for turn in turns]),
            f"{rate / without:.2f}" if without else "–",
            number(median(turn.commands_per_request or 0.0 for turn in turns)),
            f"{sum(turn.load.errors for turn in turns):,}",
        ]
        for title, rate, turns in (("everything off", without, off), ("everything on", with_all, on))
    ]
    return Figure(
        title="Over Redis with everything on",
        method=(
            f"wrk, {load.connections} connections, 1,000 users with API keys, 2 KB of text in and out, echo, "
            "batches up to 64; Valkey, 1 gateway, 1 batcher and 1 worker process; "
            f"medians of {len(on)} interleaved rounds of {load.seconds} s, each freshly started."
        ),
        tables=[
            markdown_table(["", "requests/s", "range", "× off", "commands a request", "errors"], rows),
            costs({"everything on": on, "everything off": off}),
            asked(on),
        ],
        checks=[
            Check("requests/s with everything on", with_all, RATE, "/s", at_least=True),
            Check("Redis commands a request", median(commands), COMMANDS, ""),
        ],
        data={"on": [as_data(turn) for turn in on], "off": [as_data(turn) for turn in off]},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
