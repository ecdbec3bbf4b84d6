"""Quantiles of latencies that were counted in buckets. The figures of the overview are made with it (`figures.py`).

A bucket of 10 ms or more is at most 5 % wider than its lower bound, and a smaller one at most 1 ms wide (see
`adapters/observe/histogram.py`). So the lower bound follows from the upper one, and nobody need know of empty
buckets.
"""

from collections.abc import Mapping

from penstock.overview.counts import MICRO

STEP = 1.05  # a bucket above `JUDGED` ends at this many times its lower bound, at most
JUDGED = 10_000  # microseconds: from here on a bucket is narrow in proportion to its bounds
WIDTH = 1_000  # microseconds: the width of the widest bucket below `JUDGED`
LONGEST = 60 * MICRO  # the last bound; what took longer counts as this


def quantiles(latency: Mapping[int, int], *shares: float) -> list[float | None]:
    """Returns the quantile of each share, in seconds; None if nothing was counted."""
    total = sum(latency.values())
    if not total:
        return [None for _ in shares]
    buckets = sorted(latency.items())
    return [_quantile(buckets, share * total) for share in shares]


def _quantile(buckets: list[tuple[int, int]], wanted: float) -> float:
    low = below = 0
    for upper, count in buckets:
        if below + count >= wanted:
            if upper > LONGEST:
                break
            low = max(low, _lower(upper))
            return (low + (upper - low) * (wanted - below) / count) / MICRO
        low, below = upper, below + count
    return LONGEST / MICRO


def _lower(upper: int) -> int:
    return int(upper / STEP) if upper > JUDGED else max(0, upper - WIDTH)
