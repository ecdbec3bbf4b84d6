"""Every figure that needs no rival's software, one after the other, and all promises in one table at the end.

`python -m benchmarks.all` calls the `main` of each. Those that are meant for a machine of 16 cores only with
--large, or by name.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    added_latency,
    advice,
    autoscaling,
    cache_miss,
    client_map,
    everything_on,
    fairness,
    first_minute,
    grpc_unary,
    hot_keys,
    ledger,
    lengths,
    observed,
    openai_door,
    overload,
    overload_tiers,
    pacing,
    redis_everything,
    redis_headline,
    redis_pacing,
    redis_scaling,
    redis_throughput,
    scraping,
    simulator,
    tensors,
    tracing,
    waiting,
    websocket,
)
from benchmarks.figure import Check, above_zero, chosen, options
from benchmarks.peers import __main__ as peers
from benchmarks.table import markdown_table
from penstock.errors import UserMistake

NAME = "all"
FIGURES: dict[str, Callable[[Sequence[str]], int]] = {
    "overhead": peers.main,
    added_latency.NAME: added_latency.main,
    pacing.NAME: pacing.main,
    overload.NAME: overload.main,
    overload_tiers.NAME: overload_tiers.main,
    fairness.NAME: fairness.main,
    first_minute.NAME: first_minute.main,
    lengths.NAME: lengths.main,
    advice.NAME: advice.main,
    autoscaling.NAME: autoscaling.main,
    simulator.NAME: simulator.main,
    waiting.NAME: waiting.main,
    ledger.NAME: ledger.main,
    everything_on.NAME: everything_on.main,
    scraping.NAME: scraping.main,
    tracing.NAME: tracing.main,
    observed.NAME: observed.main,
    websocket.NAME: websocket.main,
    openai_door.NAME: openai_door.main,
    grpc_unary.NAME: grpc_unary.main,
    tensors.NAME: tensors.main,
    hot_keys.NAME: hot_keys.main,
    cache_miss.NAME: cache_miss.main,
    client_map.NAME: client_map.main,
    redis_throughput.NAME: redis_throughput.main,
    redis_everything.NAME: redis_everything.main,
    redis_pacing.NAME: redis_pacing.main,
    redis_headline.NAME: redis_headline.main,
    redis_scaling.NAME: redis_scaling.main,
}
LARGE = (redis_headline.NAME, redis_scaling.NAME)
NO_SECONDS = (waiting.NAME, lengths.NAME, advice.NAME, autoscaling.NAME, simulator.NAME, client_map.NAME)
WHOLE_SECONDS = (  # wrk and h2load know no others
    cache_miss.NAME,
    everything_on.NAME,
    grpc_unary.NAME,
    ledger.NAME,
    observed.NAME,
    openai_door.NAME,
    redis_everything.NAME,
    redis_throughput.NAME,
    redis_scaling.NAME,
    scraping.NAME,
    tensors.NAME,
    tracing.NAME,
    websocket.NAME,
)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__)
    parser.add_argument("--only", default="", metavar="NAMES", help=f"some of: {', '.join(FIGURES)}")
    parser.add_argument("--large", action="store_true", help=f"also {' and '.join(LARGE)}")
    parser.add_argument("--seconds", type=above_zero, help="of each measurement, instead of each one's own")
    parser.add_argument(
        "--traces",
        type=Path,
        metavar="FOLDER",
        help="for pacing, lengths, autoscaling and advice: the Azure traces",
    )
    return parser.parse_args(argv)


def wanted(only: str, large: bool = False) -> list[str]:
    usual = ",".join(name for name in FIGURES if large or name not in LARGE)
    return chosen(only or usual, {name: name for name in FIGURES}, "figure")


def passed_on(name: str, given: argparse.Namespace) -> list[str]:
    """The options of one figure."""
    if name == "overhead":
        # In a folder of its own: the full table beside the peers, if there is one, stays.
        seconds = [] if given.seconds is None else ["--seconds", str(max(1, round(given.seconds)))]
        return ["--only", "penstock,granian", "--out", str(given.out / name), *seconds]
    flags = ["--out", str(given.out)]
    if given.seconds is not None and name not in NO_SECONDS:
        whole = name in WHOLE_SECONDS
        flags += ["--seconds", f"{max(1, round(given.seconds)) if whole else given.seconds:g}"]
        flags += ["--recorded", flags[-1]] if name == ledger.NAME else []
    if given.traces is not None and name in (pacing.NAME, lengths.NAME, autoscaling.NAME, advice.NAME):
        flags += ["--traces", str(given.traces)]
    return flags


def promises(folder: Path, names: Sequence[str]) -> list[Check]:
    """What each figure wrote down of what it promised."""
    checks = []
    for name in names:
        path = folder / f"{name}.json"
        if path.is_file():
            for kept in json.loads(path.read_text(encoding="utf-8"))["checks"]:
                kept.pop("holds")
                checks.append(Check(**kept))
    return checks


def main(argv: Sequence[str]) -> int:
    given = arguments(argv)
    try:
        names = wanted(given.only, given.large)
    except UserMistake as mistake:
        print(mistake.message, file=sys.stderr)
        return 2
    codes: dict[str, int] = {}
    for name in names:
        print(f"\n=== {name} ===\n", flush=True)
        codes[name] = FIGURES[name](passed_on(name, given))
        if codes[name] == 130:
            return 130
    measured = [name for name in names if codes[name] < 2]
    rows = [check.row() for check in promises(given.out, measured)]
    if rows:
        print("\n" + markdown_table(["promise", "measured", "limit", ""], rows), flush=True)
    for name in names:
        if codes[name] >= 2:
            print(f"not measured: {name}", file=sys.stderr)
    return max(codes.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
