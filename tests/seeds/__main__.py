"""Random simulations of a whole installation, each made by one number.

python -m tests.seeds --seed 4711                      one run, with its whole history
python -m tests.seeds --seeds 10000 --from 0 --jobs 2  many, with those that failed at the end
"""

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from seeds.cancelling import struck, sweep  # noqa: E402
from seeds.mutants import NAMES, caught  # noqa: E402
from seeds.run import Verdict, play  # noqa: E402

PORTION = 25  # seeds that a job plays at a time


def verdicts(first: int, number: int) -> list[Verdict]:
    found = [play(seed) for seed in range(first, first + number)]
    for each in found:
        each.told = []  # it can be played again
    return found


def many(first: int, number: int, jobs: int) -> Iterator[Verdict]:
    starts = range(first, first + number, PORTION)
    sizes = [min(PORTION, first + number - start) for start in starts]
    if jobs == 1:
        for start, size in zip(starts, sizes, strict=True):
            yield from verdicts(start, size)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for some in pool.map(verdicts, starts, sizes):
            yield from some


def show(verdict: Verdict) -> None:
    print("\n".join(verdict.told))
    print(f"\nseed {verdict.seed}: {'all is well' if not verdict.wrong else 'wrong:'}")
    print("\n".join(f"  {words}" for words in verdict.wrong))


def mistakes() -> int:
    """Make each mistake on purpose. Returns how many were not noticed."""
    unnoticed = 0
    for name in NAMES:
        verdict = caught(name)
        unnoticed += verdict is None
        words = "NOT NOTICED" if verdict is None else f"seed {verdict.seed}: {verdict.wrong[0]}"
        print(f"{name}: {words}", flush=True)
    return unnoticed


def cancelled(seed: int, every: int, at: int | None, *, stray: bool) -> int:
    """Cancel at every await of a scene. Returns how many of these runs failed."""
    if at is not None:
        verdict, _ = struck(seed, at, stray=stray)
        show(verdict)
        return len(verdict.wrong)
    runs = failed = 0
    for number, verdict, strike in sweep(seed, stray=stray, every=every):
        runs += 1
        if verdict.wrong:
            failed += 1
            print(f"--sweep {seed} --at {number}: {strike.struck}: {verdict.wrong[0]}", flush=True)
    print(f"{runs} cancellations of scene {seed}, {failed} failed")
    return failed


def main() -> int:
    # Sets of names have the same order in every replay only if the hashes of strings are the same.
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", "tests.seeds", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(
        prog="python -m tests.seeds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, help="play this one, and print what happened")
    parser.add_argument("--seeds", type=int, default=60, help="how many are played (60)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them (0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that play them (1)")
    parser.add_argument("--sweep", type=int, help="cancel at every await of the scene of this number")
    parser.add_argument("--every", type=int, default=1, help="only at every so manyth (1)")
    parser.add_argument("--at", type=int, help="only at this one, with its history")
    parser.add_argument("--wanted", action="store_true", help="cancel the task, and not what it waits for")
    parser.add_argument("--mistakes", action="store_true", help="see whether the checks notice what is wrong")
    parser.add_argument("--log", action="store_true", help="with --seed: also what the processes log")
    given = parser.parse_args()
    logging.basicConfig(level=logging.DEBUG if given.log else logging.CRITICAL + 1)
    if given.mistakes:
        return min(1, mistakes())
    if given.sweep is not None:
        return min(1, cancelled(given.sweep, given.every, given.at, stray=not given.wanted))
    if given.seed is not None:
        verdict = play(given.seed)
        show(verdict)
        return 1 if verdict.wrong else 0
    failed: dict[int, list[str]] = {}
    outcomes: Counter[str] = Counter()
    asked = executed = done = 0
    began = time.monotonic()
    for verdict in many(given.first, given.seeds, given.jobs):
        done += 1
        asked, executed = asked + verdict.asked, executed + verdict.executed
        outcomes.update(verdict.outcomes)
        if verdict.wrong:
            failed[verdict.seed] = verdict.wrong
            print(f"\nseed {verdict.seed}: {verdict.wrong[0]}", flush=True)
        if done % PORTION == 0 or done == given.seeds:
            print(
                f"\r{done} of {given.seeds} seeds, {len(failed)} failed", end="", file=sys.stderr, flush=True
            )
    print(file=sys.stderr)
    print(f"{done} seeds, {asked} requests, {executed} batches, {time.monotonic() - began:.0f} s")
    for outcome, number in outcomes.most_common():
        print(f"  {number:8} {outcome}")
    for seed, wrong in failed.items():
        print(f"failed: python -m tests.seeds --seed {seed}    # {wrong[0]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
