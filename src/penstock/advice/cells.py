"""What limits an installation over one Redis as it grows, and into how many cells it is divided then. A cell is a
whole installation: gateways, batchers, workers and one Redis, with its part of the traffic. Pure: numbers in,
numbers out. `penstock sim --cells` shows it (`cli/sim_cells.py`).

The costs were measured (docs/benchmarks.md, over Redis: throughput, and the registry). Redis does its work on one
core, so what it spends on requests, on heartbeats and on the lines of idle slots adds up to a part of that core.
Every heartbeat reads all others. So the registry grows with the square of the number of processes, and the rest
only with the traffic.
"""

from dataclasses import dataclass
from math import ceil

from penstock.advice.arithmetic import BATCHER, GATEWAY, STORE, WELL_USED
from penstock.types import Seconds

GPU_LOAD = 0.7  # the part of what the GPUs can do at full batches that is planned with
SLOTS = 8  # GPUs of one worker process
HEARTBEAT: Seconds = 0.25  # from one heartbeat to the next
# Seconds of Redis: for a heartbeat, and more for each process and each slot that is there; for a batch's slot to
# enter the line and leave it.
BEAT, PROCESS, SLOT, LINE = 20e-6, 0.85e-6, 0.45e-6, 8e-6
REQUESTS, REGISTRY, LINES = "requests", "registry", "lines"


@dataclass(frozen=True, slots=True)
class Site:
    """An installation over one Redis. What Redis spends is given as parts of one core, and may be more than 1."""

    rate: float  # requests a second
    gpus: int
    gateways: int
    batchers: int
    workers: int  # worker processes
    requests: float  # the part of Redis's core that requests take
    registry: float  # the part of it that heartbeats take
    lines: float  # the part of it that the lines of idle slots take

    @property
    def processes(self) -> int:
        return self.gateways + self.batchers + self.workers

    @property
    def redis(self) -> float:
        """The part of Redis's core that all of this takes."""
        return self.requests + self.registry + self.lines

    @property
    def fits(self) -> bool:
        return self.redis <= WELL_USED

    @property
    def limit(self) -> str:
        """What takes most of Redis, if Redis has too much to do; otherwise empty."""
        parts = {REQUESTS: self.requests, REGISTRY: self.registry, LINES: self.lines}
        return "" if self.fits else max(parts, key=parts.__getitem__)


def site_of(rate: float, each: float, batch: float) -> Site:
    """What an installation of this rate has. `each`: requests a second of one GPU at full batches. `batch`: how
    many requests such a batch has."""
    gpus = ceil(rate / each / GPU_LOAD)
    gateways = max(2, ceil(rate * GATEWAY / WELL_USED))
    batchers = max(2, ceil(rate * BATCHER / WELL_USED))
    workers = ceil(gpus / SLOTS)
    processes = gateways + batchers + workers
    beat = BEAT + processes * PROCESS + gpus * SLOT
    return Site(
        rate,
        gpus,
        gateways,
        batchers,
        workers,
        rate * STORE,
        processes / HEARTBEAT * beat,
        rate / batch * LINE,
    )


def cells_of(rate: float, each: float, batch: float) -> int:
    """The fewest cells of equal size whose Redis is well used and not more."""
    cells = 1
    while not site_of(rate / cells, each, batch).fits:
        cells += 1
    return cells
