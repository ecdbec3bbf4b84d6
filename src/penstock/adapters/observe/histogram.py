"""Histograms: how many values fell into each bucket. The counters of requests and batches (`metrics.py`) and of
pauses (`pauses.py`) have some. The metrics page shows them (`exposition.py`, `text.py`), and the overview counts by
them (`sampling.py`). Pure.

Prometheus knows of a value only in which bucket it was, so a quantile may be wrong by the width of its bucket.
Where latency is judged, from 10 ms to 10 s, no bucket of `FINE` is wider than 5 %. So no quantile there is wrong by
more, whatever the distribution. Below 10 ms it is wrong by at most a millisecond.

A bucket is a series of each model for Prometheus, and an integer here. Values are observed a batch at a time, so
the number of buckets costs a request next to nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, log

STEP = 1.05  # the widest bucket where latency is judged: its upper bound divided by its lower bound
# Round numbers that are bounds in each power of ten. Rules of operators may name them.
ROUND = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0)
DECADES = (0.01, 0.1, 1.0)  # seconds: latency is judged from the first, up to ten times the last


def _bounds(first: Iterable[float], steps: Iterable[float], last: Iterable[float]) -> tuple[float, ...]:
    """Returns bounds, in seconds: those before the decades, `steps` in each decade, and those after."""
    within = (float(f"{decade * step:.4g}") for decade in DECADES for step in steps)
    return (*first, *within, *last)


def _fine_steps() -> list[float]:
    """Returns bounds between 1 and 10, evenly spaced between the round numbers."""
    steps = []
    for low, high in pairwise(ROUND):
        number = ceil(log(high / low) / log(STEP))
        steps += [low * (high / low) ** (part / number) for part in range(number)]
    return steps


# For latencies: of requests, and of batches on their workers.
FINE = _bounds(
    (0.001, 0.002, 0.0025, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008, 0.009),
    _fine_steps(),
    (10.0, 15.0, 20.0, 30.0, 60.0),
)
# For waits, which are a part of a latency and not judged by themselves.
COARSE = _bounds(
    (0.001, 0.002, 0.0025, 0.003, 0.004, 0.005, 0.006, 0.0075),
    (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.5),
    (10.0,),
)
SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)  # requests of a batch


class Histogram:
    """How many values fell into each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds`: the upper bounds of the buckets, in ascending order. One more bucket is without a bound."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: Sequence[float]) -> None:
        """Observe values in ascending order, at least one. Each bucket is looked for once, and not each value."""
        counts, bounds, at = self.counts, self.bounds, 0
        first, last = bisect_left(bounds, values[0]), bisect_left(bounds, values[-1])
        for bucket in range(first, last):
            end = bisect_right(values, bounds[bucket], at)
            counts[bucket] += end - at
            at = end
        counts[last] += len(values) - at
        self.total += sum(values)
