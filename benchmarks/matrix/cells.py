"""The matrix that `python -m benchmarks.matrix` plays: workers × service curves × jitter × loads × traffic.

A load is a share of what the workers can do at their best batch. That of a day's swing is the load at its peak.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import pi, sin
from pathlib import Path
from random import Random

from penstock.load import arrivals
from penstock.service_model import ServiceModel, parse_service

WORKERS = (1, 2, 4, 8, 32)
CURVES = {  # what a batch takes, and the largest one
    "flat": ("100ms", 32),
    "knee": ("a=20ms,knee=16", 128),
    "line": ("a=50ms,b=1ms", 32),
    "stairs": ("a=10ms,knee=16,pad=powers", 128),
}
JITTERS = (0.0, 0.05, 0.15)  # of the service time
LOADS = (0.05, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)  # parts of the capacity
OVERLOADS = (1.2, 2.0)  # times the capacity
TRACES = {"code": "azure_llm_2023_code.csv", "conversation": "azure_llm_2023_conv.csv"}
# A run is as long as its slowest figure needs: so many full batches for each worker, but no fewer and no more
# requests than these.
ROUNDS, FEWEST = 120, 4_000


@dataclass(frozen=True, slots=True)
class Cell:
    workers: int
    curve: str
    jitter: float
    load: float
    traffic: str

    @property
    def service(self) -> ServiceModel:
        return replace(parse_service(CURVES[self.curve][0]), jitter=self.jitter)

    @property
    def max_batch(self) -> int:
        return CURVES[self.curve][1]

    @property
    def full(self) -> float:
        """Seconds of the largest batch."""
        return self.service.seconds(self.max_batch)

    @property
    def rate(self) -> float:
        service = self.service
        best = max(size / service.seconds(size) for size in range(1, self.max_batch + 1))
        return self.load * self.workers * best

    def __str__(self) -> str:
        return f"{self.workers} × {self.curve} ±{self.jitter:.0%}, {self.load:.0%} {self.traffic}"


def schedule(cell: Cell, seed: int, most: int, traces: Path | None) -> "array[float]":
    """The same for every policy."""
    rate, most = cell.rate, most * max(1, cell.workers // 16)
    seconds = min(max(FEWEST / rate, ROUNDS * cell.full), most / rate)
    if cell.traffic in TRACES:
        assert traces is not None
        return arrivals.trace(traces / TRACES[cell.traffic], rate).times[: 2 * most]
    return TRAFFIC[cell.traffic](rate, seconds, cell.full, Random(f"{cell}/{seed}"))


def _poisson(rate: float, seconds: float, full: float, rng: Random) -> "array[float]":
    return arrivals.poisson(rate, seconds, rng)


def _bursts(rate: float, seconds: float, full: float, rng: Random) -> "array[float]":
    """On and off by the clock: half of all requests come in a sixth of the time."""
    return arrivals.bursty(rate, seconds, 3.0, 20.0 * full, rng)


def _clumps(rate: float, seconds: float, full: float, rng: Random) -> "array[float]":
    """As the coding trace: clumps of some hundred requests at four times the rate, then silence."""
    times, now = array("d"), 0.0
    while now < seconds:
        for _ in range(1 + int(rng.expovariate(1 / 100))):
            now += rng.expovariate(4.0 * rate)
            times.append(now)
        now += rng.expovariate(rate / 75.0)
    return times


def _day(rate: float, seconds: float, full: float, rng: Random) -> "array[float]":
    """From a tenth of the peak to the peak and back, once."""
    times = arrivals.poisson(rate, seconds, rng)
    return array("d", (at for at in times if rng.random() < 0.1 + 0.9 * sin(pi * at / seconds) ** 2))


TRAFFIC: dict[str, Callable[[float, float, float, Random], "array[float]"]] = {
    "poisson": _poisson,
    "bursts": _bursts,
    "clumps": _clumps,
    "day": _day,
}


def matrix(*, quick: bool, traces: Path | None) -> Iterator[Cell]:
    kinds = [*TRAFFIC, *(TRACES if traces is not None else ())]
    workers = (1, 4, 8) if quick else WORKERS
    jitters = (0.05,) if quick else JITTERS
    loads = (0.25, 0.7, 0.9) if quick else LOADS
    for cell in (
        Cell(number, curve, jitter, load, traffic)
        for traffic in kinds
        for number in workers
        for curve in CURVES
        for jitter in jitters
        for load in (*loads, *(OVERLOADS if traffic == "poisson" and not quick else ()))
    ):
        if not quick or (cell.traffic == "poisson") or (cell.load == 0.7 and cell.workers != 4):
            yield cell
