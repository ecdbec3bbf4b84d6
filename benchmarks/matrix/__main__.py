"""Does the default policy ever lose? Every policy on every cell, in virtual time, on the same arrivals.

    python -m benchmarks.matrix --quick
    python -m benchmarks.matrix --jobs 16 --traces FOLDER

A cell is lost if another policy is more than 1 % better in mean, p95 or p99 (above capacity: in requests served in
time) beyond what chance explains.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from time import monotonic

from benchmarks.figure import above_zero, at_least_one
from benchmarks.matrix.cells import Cell, matrix
from benchmarks.matrix.play import Played, play
from benchmarks.matrix.verdict import Loss, losses, told


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.matrix",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="some of the cells, shorter runs, two seeds")
    parser.add_argument("--jobs", type=at_least_one, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seeds", type=at_least_one, help="runs of each cell: 4, or 2 with --quick")
    parser.add_argument("--requests", type=above_zero, help="at most so many in a run: 40000, or 6000")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="with azure_llm_2023_{code,conv}.csv")
    parser.add_argument("--ahead", action="store_true", help="workers take the next batch while they run one")
    parser.add_argument("--cells", default="", metavar="PATTERN", help="only those whose name matches")
    parser.add_argument("--write", type=Path, metavar="FILE", help="every figure of every cell, as JSON")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    given = arguments(argv)
    pattern = re.compile(given.cells)
    cells = [cell for cell in matrix(quick=given.quick, traces=given.traces) if pattern.search(str(cell))]
    seeds = given.seeds or (2 if given.quick else 4)
    most = int(given.requests or (6_000 if given.quick else 40_000))
    found: list[Loss] = []
    every: list[Played] = []
    began = monotonic()
    with Pool(given.jobs) as pool:
        one = partial(play, seeds=seeds, most=most, traces=given.traces, ahead=given.ahead)
        for done, played in enumerate(pool.imap_unordered(one, cells), 1):
            every.append(played)
            found += losses(played)
            _progress(done, len(cells), len({loss.cell for loss in found if loss.sure}), began)
    lost: set[Cell] = {loss.cell for loss in found if loss.sure}
    print(f"\n\n{told(found)}\nlost: {len(lost)} of {len(cells)} cells, {seeds} seeds each")
    if given.write:
        given.write.write_text(json.dumps([_as_data(played) for played in every], indent=1) + "\n")
    return 1 if lost else 0


def _progress(done: int, of: int, lost: int, began: float) -> None:
    left = (monotonic() - began) / done * (of - done)
    print(f"\r{done} of {of} cells, {lost} lost, {left:.0f} s left ", end="", file=sys.stderr, flush=True)


def _as_data(played: Played) -> dict[str, object]:
    return {"cell": str(played.cell), "by": {name: list(runs) for name, runs in played.by.items()}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
