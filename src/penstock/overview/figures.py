"""Figures: what happened in a while, as rates and quantiles, for one model or for all. `view.py` makes them of what
is now, and of each step of the last hour; the charts of the page show them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from penstock.overview.counts import Counts, added
from penstock.overview.quantile import quantiles

K = TypeVar("K", bound=str)

SHORTEST = 0.1  # seconds: what was counted in less time is shown as if it had been this

Group = Literal["ok", "failed", "refused", "quota", "rejected", "left"]

# How an accepted request may end without being served or having failed. Every other code is a failure.
_ENDS: dict[str, Group] = {
    "SUCCESS": "ok",
    "SERVICE_OVERLOADED": "refused",
    "SERVICE_DRAINING": "refused",
    "STORE_UNAVAILABLE": "refused",
    "CLIENT_LEFT": "left",
    "CANCELLED": "left",
}
# Why a request may be refused on arrival. Every other code is a mistake of the client.
_REFUSALS: dict[str, Group] = {
    "SERVICE_OVERLOADED": "refused",
    "SERVICE_DRAINING": "refused",
    "STORE_UNAVAILABLE": "refused",
    "DEADLINE_EXCEEDED": "refused",
    "QUOTA_EXCEEDED": "quota",
    "INTERNAL": "failed",
}
# The refusals that count as load: those for want of capacity.
_OFFERED = ("SERVICE_OVERLOADED", "DEADLINE_EXCEEDED")


class Figures(Struct):
    """What happened in a while. Rates are a second. Latencies are in milliseconds; None where no request
    succeeded."""

    rates: dict[Group, float]  # requests, by what became of them
    codes: dict[str, float]  # requests that did not succeed, by error code
    p50: float | None
    p95: float | None
    p99: float | None
    queue: dict[str, int]  # requests that wait at the end, by tier
    batch: float | None  # requests in a batch, on average; None where none went
    reasons: dict[str, float]  # batches, by why they went
    load: float  # requests that wanted to be served, those that were refused for want of capacity included
    capacity: float  # requests that the workers can do; 0 where nobody knows
    hits: float | None  # the part of the requests that the cache answered; None where it was not asked
    padding: float | None  # the part of what the workers ran that was padding; None where nothing ran


def figures_of(
    parts: Sequence[tuple[Counts, float]], queue: Mapping[str, int], arrivals: float, capacity: float
) -> Figures:
    """Makes the figures of a while. `parts`: what each process has counted, and in how many seconds. `arrivals`:
    requests that batchers let in, a second; it says sooner than the requests that end how much is asked for, and is
    less even."""
    counts = added(one for one, _ in parts)
    rates: defaultdict[Group, float] = defaultdict(float)
    codes: defaultdict[str, float] = defaultdict(float)
    reasons: defaultdict[str, float] = defaultdict(float)
    ended = unserved = 0.0
    for one, seconds in parts:
        often = 1.0 / max(seconds, SHORTEST)
        for code, number in one.outcomes.items():
            rates[_ENDS.get(code, "failed")] += number * often
            codes[code] += number * often
        for code, number in one.refused.items():
            rates[_REFUSALS.get(code, "rejected")] += number * often
            codes[code] += number * often
        for reason, number in one.reasons.items():
            reasons[reason] += number * often
        refused = one.outcomes.get("SERVICE_OVERLOADED", 0)  # requests that a batcher refused
        ended += often * (sum(one.outcomes.values()) - refused)
        unserved += often * refused
        unserved += often * sum(one.refused.get(code, 0) for code in _OFFERED)
    codes.pop("SUCCESS", None)
    p50, p95, p99 = quantiles(counts.latency, 0.5, 0.95, 0.99)
    batches, asked = sum(counts.reasons.values()), counts.hits + counts.misses
    return Figures(
        rates=_rounded(rates),
        codes=_rounded(codes),
        p50=_milliseconds(p50),
        p95=_milliseconds(p95),
        p99=_milliseconds(p99),
        queue=dict(queue),
        batch=round(counts.batched / batches, 2) if batches else None,
        reasons=_rounded(reasons),
        load=round(max(arrivals, ended) + unserved, 3),
        capacity=round(capacity, 3),
        hits=round(counts.hits / asked, 4) if asked else None,
        padding=round(counts.padding / run, 4) if (run := counts.batched + counts.padding) else None,
    )


def _rounded(rates: Mapping[K, float]) -> dict[K, float]:
    return {name: round(rate, 3) for name, rate in rates.items()}


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 3)


def utilization(figures: Figures) -> float | None:
    """Returns the load over the capacity; None while nobody knows the capacity."""
    return figures.load / figures.capacity if figures.capacity else None
