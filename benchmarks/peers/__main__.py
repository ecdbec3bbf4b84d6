"""The command `python -m benchmarks.peers`: Penstock, its limit and its rivals, measured in one run by `rounds` and
shown by `report`."""

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import heads, machine, wrk
from benchmarks.echo import SIZE
from benchmarks.figure import RESULTS, at_least_one, chosen
from benchmarks.peers import report
from benchmarks.peers.roster import PENSTOCK, ROSTER, Peer, behind_keys
from benchmarks.peers.rounds import play
from benchmarks.peers.server import adopt_orphans
from penstock.errors import UserMistake


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    names = ", ".join(peer.name for peer in ROSTER)
    parser.add_argument("--only", default="", metavar="NAMES", help=f"some of: {names}; commas between")
    parser.add_argument(
        "--heads", choices=heads.KINDS, default=heads.REALISTIC, help="; ".join(heads.ABOUT.values())
    )
    parser.add_argument(
        "--keys", action="store_true", help="Penstock once more, with an API key in each request"
    )
    parser.add_argument("--rounds", type=at_least_one, default=5)
    parser.add_argument(
        "--seconds", type=at_least_one, default=5, help="measured in each round, after a warm-up"
    )
    parser.add_argument(
        "--size", type=at_least_one, default=SIZE, help="characters of each input; 200000 is a large one"
    )
    parser.add_argument("--connections", type=at_least_one, default=512)
    parser.add_argument("--threads", type=at_least_one, default=1, help="wrk's own")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    return parser.parse_args(argv)


def measured(only: str, keys: bool = False) -> list[Peer]:
    """The peers to measure. `keys`: with Penstock behind API keys, next to Penstock without."""
    peers = chosen(only, {peer.name: peer for peer in ROSTER}, "peer")
    if keys:
        peers.insert(peers.index(PENSTOCK) + 1 if PENSTOCK in peers else 0, behind_keys())
    return peers


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    try:
        peers = measured(options.only, options.keys)
        wrk.find()
    except UserMistake as mistake:
        print(mistake.message, file=sys.stderr)
        return 2
    adopt_orphans()
    # A stop by SIGTERM unwinds as Ctrl-C does, so that the server of the moment is ended too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    load = wrk.Load(options.connections, options.threads, options.seconds)
    here = machine.describe()
    print(f"{here}\n", flush=True)
    try:
        standings = play(
            peers, options.rounds, options.heads, load, lambda line: print(line, flush=True), options.size
        )
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return 130
    command = shlex.join(["python", "-m", "benchmarks.peers", *argv])
    report.write(options.out, standings, options.heads, load, here, command, options.size)
    print(
        f"\n{report.table(standings, options.heads)}\nwritten: {options.out}/peers.md, peers.svg, peers.json"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
