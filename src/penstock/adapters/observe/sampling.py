"""What this process has counted and how its models stand, in the words of the overview.
`runtime/own_overview.py` asks for a sample, which takes about 0.1 ms.

Each figure comes from the role that sees it whole, as on the metrics page.
"""

from collections.abc import Mapping
from math import isinf

from penstock.adapters.observe.catalogue import ASKED, BATCHING
from penstock.adapters.observe.histogram import Histogram
from penstock.adapters.observe.metrics import Metrics, ModelMetrics
from penstock.gauges import BatchingGauges, CacheCounts, DeskGauges, ModelGauges, ServerGauges
from penstock.overview.counts import MICRO, Counts
from penstock.overview.reports import Promise, Sample, Standing


def sample_of(metrics: Metrics, gauges: ServerGauges, role: str) -> Sample:
    counts, standings = _counts_of(metrics, gauges, role), _standings_of(gauges)
    return Sample(counts, standings, _promises_of(gauges.desks), gauges.waiting_clients)


def _counts_of(metrics: Metrics, gauges: ServerGauges, role: str) -> dict[str, Counts]:
    found = {name: Counts() for name in metrics.models}
    if role in ASKED:
        for name, model in metrics.models.items():
            _asked(found[name], model, gauges.caches.get(name))
        for (name, code), number in metrics.refusals.items():
            refused = found.setdefault(name, Counts()).refused
            refused[code] = number
    if role in BATCHING:
        for name, model in metrics.models.items():
            _batched(found[name], name, model, gauges)
    return found


def _asked(counts: Counts, model: ModelMetrics, cache: CacheCounts | None) -> None:
    counts.outcomes = (
        {"SUCCESS": model.succeeded, **model.outcomes} if model.succeeded else dict(model.outcomes)
    )
    counts.latency = _by_bound(model.latency, MICRO)
    if cache is not None:
        counts.hits, counts.misses, counts.collapsed = cache.hits, cache.misses, cache.collapsed


def _batched(counts: Counts, name: str, model: ModelMetrics, gauges: ServerGauges) -> None:
    counts.reasons = {str(reason): number for reason, number in model.reasons.items()}
    counts.sizes = _by_bound(model.batch_size, 1)
    counts.batched, counts.padding = model.batched_requests, model.padding
    counts.letters = gauges.dead_letters.get(name, 0)
    stands = gauges.models.get(name)
    if stands is not None and stands.batching is not None:
        counts.refused_tiers = {tier: number for tier, number in stands.batching.refused.items() if number}


def _by_bound(histogram: Histogram, factor: int) -> dict[int, int]:
    """Returns how many values are in each bucket that is not empty, by the bucket's upper bound times `factor`. The
    last bucket has no bound, so it gets one beyond the others."""
    bounds = histogram.bounds
    return {
        round(bounds[index] * factor) if index < len(bounds) else round(bounds[-1] * factor) + 1: count
        for index, count in enumerate(histogram.counts)
        if count
    }


def _standings_of(gauges: ServerGauges) -> dict[str, Standing]:
    return {
        name: _standing(model, model.batching)
        for name, model in gauges.models.items()
        if model.batching is not None
    }


def _standing(model: ModelGauges, batching: BatchingGauges) -> Standing:
    wait, depths = batching.expected_wait, batching.refusal_depths
    return Standing(
        queue=dict(model.queue_depth),
        queue_limit=batching.queue_limit,
        expected_wait=None if wait is None or isinf(wait) else round(wait, 4),
        warning_depth=depths.get("warning"),
        critical_depth=depths.get("critical"),
        arrivals=round(batching.arrivals, 3),
        capacity=round(model.capacity, 3),
        curve=[(size, round(seconds, 6)) for size, seconds in batching.curve],
        best_batch=batching.best_batch,
        max_batch=batching.max_batch,
        policy=batching.policy,
        retry_budget=round(batching.retry_budget, 3),
    )


def _promises_of(desks: Mapping[str, DeskGauges]) -> dict[str, Promise]:
    return {name: Promise(desk.objective, desk.queue_timeout) for name, desk in desks.items()}
