"""`python -m benchmarks.peers`: Penstock, its limit and its rivals, measured in one run."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine, wrk
from benchmarks.peers import report
from benchmarks.peers.roster import ROSTER, Peer
from benchmarks.peers.rounds import play
from benchmarks.peers.server import adopt_orphans
from penstock.errors import UserMistake

RESULTS = Path(__file__).parent.parent / "results"


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    names = ", ".join(peer.name for peer in ROSTER)
    parser.add_argument("--only", default="", metavar="NAMES", help=f"some of: {names}; commas between")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--seconds", type=positive, default=5, help="measured in each round, after a warm-up")
    parser.add_argument("--connections", type=positive, default=512)
    parser.add_argument("--threads", type=positive, default=1, help="wrk's own")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    return parser.parse_args(argv)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("less than one")
    return number


def chosen(only: str) -> list[Peer]:
    known = {peer.name: peer for peer in ROSTER}
    names = [name.strip() for name in only.split(",") if name.strip()] or list(known)
    for name in names:
        if name not in known:
            raise UserMistake(f"unknown peer {name!r}: choose from {', '.join(known)}")
    return [known[name] for name in names]


def main(argv: Sequence[str]) -> int:
    options = arguments(argv)
    try:
        peers = chosen(options.only)
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
        standings = play(peers, options.rounds, load, lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return 130
    report.write(options.out, standings, load, here, " ".join(["python -m benchmarks.peers", *argv]))
    print(f"\n{report.table(standings)}\nwritten: {options.out}/peers.md, peers.svg, peers.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
