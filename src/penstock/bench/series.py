"""Makes series of numbers for charts from a run: by second, by percentile, by latency. The report draws them
(`html.py`, `panels.py`); outcomes are only read."""

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.bench.load import Run
from penstock.bench.outcomes import REFUSALS
from penstock.load.report import at_share

_WIDTHS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600)  # of bins, in seconds: round numbers
# How many bins a chart over time has, if the widths allow.
MOST_BINS = 120
FEWEST_BINS = 24  # of a chart over time; otherwise its bins are made narrower


@dataclass(slots=True)
class Timeline:
    """Rates are per second. Latencies belong to the time a request was due, counts to the time it ended."""

    at: list[float] = field(default_factory=list)  # middle of each bin, from the start of the measured window
    offered: list[float] = field(default_factory=list)
    ok: list[float] = field(default_factory=list)
    rejected: list[float] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    p50: list[float | None] = field(default_factory=list)
    p95: list[float | None] = field(default_factory=list)
    p99: list[float | None] = field(default_factory=list)


def ok_latencies(run: Run) -> list[float]:
    """Returns the latencies of good answers, in milliseconds, sorted."""
    seen = run.outcomes
    return sorted(
        (seen.done[i] - seen.times[i]) * 1000
        for i in seen.measured(run.start, run.end)
        if seen.status[i] == 200
    )


def timeline(run: Run) -> Timeline:
    """Returns the rates and latencies of a run over time."""
    span = run.end - run.start
    width = next((w for w in _WIDTHS if w >= 1 and span / w <= MOST_BINS), _WIDTHS[-1])
    if span / width < FEWEST_BINS:
        width = next((w for w in reversed(_WIDTHS) if span / w >= FEWEST_BINS), _WIDTHS[0])
    count = max(1, round(span / width))  # the last bin takes what is over, or is a little short
    widths = [width] * (count - 1) + [span - (count - 1) * width]
    offered, ok, rejected, failed = ([0] * count for _ in range(4))
    latencies: list[list[float]] = [[] for _ in range(count)]
    seen = run.outcomes
    for i, due in enumerate(seen.times):
        done, status = seen.done[i], seen.status[i]
        if done and run.start <= due < run.end:
            index = min(int((due - run.start) / width), count - 1)
            offered[index] += 1
            if status == 200:
                latencies[index].append((done - due) * 1000)
        if run.start <= done < run.end:
            kind = ok if status == 200 else rejected if status in REFUSALS else failed
            kind[min(int((done - run.start) / width), count - 1)] += 1
    line = Timeline()
    for index, wide in enumerate(widths):
        line.at.append(index * width + wide / 2)
        line.offered.append(offered[index] / wide)
        line.ok.append(ok[index] / wide)
        line.rejected.append(rejected[index] / wide)
        line.failed.append(failed[index] / wide)
        ordered = sorted(latencies[index])
        line.p50.append(at_share(ordered, 0.5) if ordered else None)
        line.p95.append(at_share(ordered, 0.95) if ordered else None)
        line.p99.append(at_share(ordered, 0.99) if ordered else None)
    return line


def percentiles(ordered: list[float]) -> list[tuple[float, float]]:
    """Returns points (nines, latency): the latency within which this many nines of the requests were answered. One
    nine is 90 %, two are 99 %, and 0.3 is the median."""
    most, steps = math.log10(len(ordered)), 160
    axis = [most * step / steps for step in range(steps + 1)]
    return [(nines, at_share(ordered, 1 - 10**-nines)) for nines in axis]


def histogram(ordered: list[float], bins: int = 48) -> tuple[list[float], list[int]]:
    """Returns edges that are evenly apart on a log scale, and how many latencies fell between each two."""
    low, high = ordered[0], ordered[-1]
    low = max(low, high * 1e-6, 1e-6)
    if high <= low * 1.01:  # all alike: one narrow peak
        low, high = low * 0.98, high * 1.02
    step = math.log(high / low) / bins
    edges = [low * math.exp(step * index) for index in range(bins)] + [high]
    cuts = [0, *(bisect_left(ordered, edge) for edge in edges[1:-1]), len(ordered)]
    return edges, [after - before for before, after in pairwise(cuts)]
