"""How far quantiles that Prometheus works out from the buckets are from the exact ones."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.observe.histogram import COARSE, FINE, Histogram

NUMBER = 20_000
QUANTILES = (0.5, 0.95, 0.99)
# The bounds that the metrics have always had: rules of operators may name them.
OLD = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 4.0, 10.0
)  # fmt: skip


def as_prometheus_says(histogram: Histogram, quantile: float) -> float:
    """`histogram_quantile` of Prometheus: linear within the bucket in which the rank falls."""
    rank, below, low = quantile * sum(histogram.counts), 0, 0.0
    for bound, count in zip((*histogram.bounds, inf), histogram.counts, strict=True):
        if below + count >= rank and count:
            return low if bound == inf else low + (bound - low) * (rank - below) / count
        below, low = below + count, bound
    raise AssertionError("nothing was observed")


def exact(values: Sequence[float], quantile: float) -> float:
    """The value at the rank that Prometheus takes, of values in order."""
    return values[max(0, -int(-quantile * len(values) // 1) - 1)]


def constant(random: Random) -> float:
    return 0.1057  # just above a bound, where interpolation does worst


def uniform(random: Random) -> float:
    return random.uniform(0.02, 0.4)


def exponential(random: Random) -> float:
    return 0.02 + random.expovariate(1 / 0.15)


def lognormal(random: Random) -> float:
    return random.lognormvariate(-2.0, 0.6)


def paced(random: Random) -> float:
    """A wait for the next batch, and one of a few batch times."""
    return random.uniform(0.0, 0.1) + random.choice([0.1, 0.1, 0.1, 0.13])


def two_humps(random: Random) -> float:
    """Most from a fast path, a few from a slow one: the 99th percentile is in the gap's far side."""
    return random.gauss(0.03, 0.002) if random.random() < 0.97 else random.gauss(0.9, 0.05)


def heavy(random: Random) -> float:
    return min(9.0, 0.03 * random.paretovariate(1.3))


@pytest.mark.parametrize(
    "draw",
    [constant, uniform, exponential, lognormal, paced, two_humps, heavy],
    ids=lambda draw: draw.__name__,
)
def test_quantiles_from_the_buckets_are_within_five_percent_of_the_exact_ones(
    draw: Callable[[Random], float],
) -> None:
    random = Random(7)
    values = sorted(draw(random) for _ in range(NUMBER))
    histogram = Histogram(FINE)
    histogram.observe_all(values)
    for quantile in QUANTILES:
        assert as_prometheus_says(histogram, quantile) == pytest.approx(exact(values, quantile), rel=0.05)


@given(
    st.lists(st.floats(0.01, 10.0), min_size=1, max_size=200).map(sorted),
    st.sampled_from([*QUANTILES, 0.001, 0.25, 0.999]),
)
def test_no_distribution_between_ten_milliseconds_and_ten_seconds_is_told_worse(
    values: list[float], quantile: float
) -> None:
    histogram = Histogram(FINE)
    histogram.observe_all(values)
    assert as_prometheus_says(histogram, quantile) == pytest.approx(exact(values, quantile), rel=0.05001)


def test_no_bucket_is_wider_than_promised_and_none_of_the_old_bounds_is_gone() -> None:
    for bounds, widest in ((FINE, 1.05), (COARSE, 1.34)):
        assert list(bounds) == sorted(set(bounds))
        assert set(OLD) <= set(bounds)
        judged = [bound for bound in bounds if 0.01 <= bound <= 10.0]
        assert max(high / low for low, high in pairwise(judged)) <= widest
    assert max(high - low for low, high in pairwise(FINE[: bisect_left(FINE, 0.01) + 1])) <= 0.00101
