"""How many answers a second one client gets: `map` over an echo, a core for the client and one for the server.

    python -m benchmarks.client_map

Beside it, in turns on the same server: the same requests by aiohttp, which many would write a client with; and by
`AsyncClient.infer` in tasks, without `map`. Each client is a process of its own (`client_map_process`).
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.cores import pinned
from benchmarks.echo import FLAGS, SIZE, TARGET
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, number, options, reach
from benchmarks.serving import serving
from benchmarks.table import markdown_table

NAME = "client_map"
PROMISED = 5000.0  # answers a second
CONCURRENCY = 256
KINDS = {
    "map": "`Client.map`, in order",
    "map_async": "`AsyncClient.map`, in order",
    "websocket": "`AsyncClient.map` over WebSocket, in order",
    "infer": "`AsyncClient.infer` in tasks, with keys",
    "aiohttp": "aiohttp in tasks",
}
ROOT = Path(__file__).parent.parent
SPARE_SECONDS = 120  # until a client counts as hung


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=3)
    parser.add_argument(
        "--inputs", type=at_least_one, default=30_000, help="in each measurement, 30,000 by default"
    )
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cores = sorted(os.sched_getaffinity(0))
    ours, theirs = {cores[0]}, set(cores[1:]) or {cores[0]}
    with pinned(theirs), serving(TARGET, *FLAGS) as server:
        for turn in range(given.rounds):
            for kind in list(KINDS) if turn % 2 == 0 else list(KINDS)[::-1]:
                with pinned(ours):
                    rates[kind].append(one(kind, server.url, given.inputs))
                say(f"round {turn + 1}/{given.rounds}  {kind:<10} {rates[kind][-1]:,.0f}/s")
    return figure(rates, given.inputs)


def one(kind: str, url: str, inputs: int) -> float:
    """Runs one client. Returns good answers a second."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.client_map_process",
        kind,
        url,
        str(inputs),
        str(CONCURRENCY),
    ]
    finished = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=SPARE_SECONDS, check=False
    )
    if finished.returncode:
        words = finished.stderr.strip().splitlines()
        raise RuntimeError(f"the client: {words[-1] if words else finished.returncode}")
    said = json.loads(finished.stdout)
    if said["good"] != inputs:
        raise RuntimeError(f"{kind}: {inputs - said['good']} of {inputs} inputs were not answered well")
    rate: float = said["good"] / said["seconds"]
    return rate


def figure(rates: dict[str, list[float]], inputs: int) -> Figure:
    rows = [[KINDS[kind], number(median(found)), reach(found)] for kind, found in rates.items()]
    return Figure(
        title="The client's map",
        method=(
            f"`penstock serve` of an echo function, {SIZE / 1024:g} KB of text in and out, {inputs:,} inputs, "
            f"{CONCURRENCY} under way, the client on one core and the server on the others; "
            f"medians of {len(next(iter(rates.values())))} interleaved rounds. Each answer is checked."
        ),
        tables=[markdown_table(["client", "answers/s", "range"], rows)],
        checks=[
            Check(f"{KINDS[kind]}: answers a second", median(rates[kind]), PROMISED, "/s", at_least=True)
            for kind in ("map", "map_async")
        ],
        data={"rates": rates},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
