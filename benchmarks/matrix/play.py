"""Plays one cell of the matrix (one kind of traffic, load and number of workers) in the simulator: every policy,
with the same arrivals, once for each seed. `__main__` calls it for each cell, in several processes at once. All is
virtual time; a trace file is read if the cell replays one."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.matrix.cells import Cell, schedule
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.load.report import spread
from penstock.sim.kernel import Kernel, Run, Scenario

PATIENT = 1e6  # a deadline nobody misses
LEARNING = 0.3  # of a run, before anything is counted
WARM_UPS = 4  # runs of each size before the first request
HURRY = 5.0  # full batches: the deadline of each request above capacity


class Contender(NamedTuple):
    name: str
    policy: str
    max_wait: float = 0.05


OURS = Contender("paced", "paced")
RIVALS = (
    Contender("greedy", "greedy"),
    Contender("window 5", "window", 0.005),
    Contender("window 20", "window", 0.020),
    Contender("window 50", "window"),
    Contender("ewma", "ewma"),
    Contender("table", "table"),
)


class Figures(NamedTuple):
    """Milliseconds; and the part of the arrivals that was served in time."""

    mean: float
    p95: float
    p99: float
    served: float


@dataclass(frozen=True, slots=True)
class Played:
    cell: Cell
    by: dict[str, list[Figures]]  # contender → one for each seed


def play(cell: Cell, seeds: int, most: int, traces: Path | None, *, ahead: bool = False) -> Played:
    """`ahead`: whether workers take their next batch while they run one, as those of functions do."""
    by: dict[str, list[Figures]] = {}
    for seed in range(seeds):
        times = schedule(cell, seed, most, traces)
        for contender in (OURS, *RIVALS):
            kernel = warm(Kernel(scenario(cell, contender, seed, ahead=ahead)))
            run = kernel.run(times, warmup=LEARNING * times[-1])
            by.setdefault(contender.name, []).append(figures(run))
    return Played(cell, by)


def scenario(cell: Cell, contender: Contender, seed: int, *, ahead: bool = False) -> Scenario:
    limit, admission = PATIENT, None
    if cell.load > 1.0:
        limit, admission = HURRY * cell.full, AdmissionRules()
    rules = BatchingRules(
        max_batch=cell.max_batch,
        max_wait=contender.max_wait,
        policy=contender.policy,
        processing=PATIENT,
        ahead=ahead,
    )
    return Scenario(
        cell.service, cell.workers, rules, admission, queue_limit=limit, request_limit=limit, seed=seed
    )


def warm(kernel: Kernel) -> Kernel:
    """As after a warm-up: each power of two has been run a few times."""
    service, limit, rng = (
        kernel.scenario.service,
        kernel.scenario.rules.max_batch,
        Random(kernel.scenario.seed),
    )
    sizes = [1 << power for power in range(limit.bit_length()) if 1 << power < limit]
    for size in (*sizes, limit) * WARM_UPS:
        kernel.batcher.curve.observe(size, service.seconds(size, rng.gauss(0.0, 1.0)))
    return kernel


def figures(run: Run) -> Figures:
    found = spread(run.latencies)
    return Figures(
        found.mean or 0.0, found.p95 or 0.0, found.p99 or 0.0, len(run.latencies) / max(1, run.sent)
    )
