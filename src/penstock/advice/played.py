"""Simulates one setting and says what came of it. `side_by_side.py` calls `play`, mostly in several processes at
once; `search.py` compares what comes back. No server takes part."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from penstock.advice.setting import Setting, with_setting
from penstock.advice.trial import latency_at
from penstock.sim.kernel import Kernel, Scenario
from penstock.types import Outcome, Reply, Seconds

MEAN, P95, P99 = "mean", "p95", "p99"
QUANTILES = {P95: 0.95, P99: 0.99}


@dataclass(frozen=True, slots=True)
class Game:
    """What every setting is tried on."""

    scenario: Scenario
    times: "array[float]"  # when requests arrive
    costs: "array[int] | None"  # what each request costs, where batches are limited by cost
    warmup: Seconds
    tier: int | None = None  # the rank of the tier whose latency counts; None: everybody's counts


@dataclass(frozen=True, slots=True)
class Latency:
    """The latency of all requests that were sent, in seconds. A request that got no answer in time counts with its
    whole time limit, so that no setting looks better for refusing."""

    mean: Seconds
    p95: Seconds
    p99: Seconds

    def at(self, name: str) -> Seconds:
        found: Seconds = getattr(self, name)
        return found


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one setting."""

    setting: Setting
    latency: Latency
    halves: tuple[Latency, Latency]  # the latency in the first and in the second half of the time
    answered: float  # the part of the requests that was answered in time
    gpu_seconds: float  # the seconds of GPUs that a thousand answers took
    batch: float  # the mean size of a batch
    busy: float  # the part of the GPUs' time in which they ran batches


def play(game: Game, setting: Setting) -> Played:
    """Simulate one setting."""
    scenario = with_setting(game.scenario, setting)
    arrivals, latencies = array("d"), array("d")

    def note(now: Seconds, reply: Reply) -> None:
        request = reply.request
        counts = request.arrival >= game.warmup and game.tier in (None, request.tier)
        if counts and reply.outcome is Outcome.SUCCESS and now <= request.deadline:
            arrivals.append(request.arrival)
            latencies.append(now - request.arrival)

    run = Kernel(scenario, on_reply=note).run(game.times, game.costs, game.warmup)
    middle = (game.warmup + game.times[-1]) / 2
    sent = run.sent if game.tier is None else run.sent_by_tier[game.tier]
    before, half = bisect_left(game.times, game.warmup), bisect_left(game.times, middle)
    limit = _limit(scenario, game.tier)
    early = [took for arrival, took in zip(arrivals, latencies, strict=True) if arrival < middle]
    late = [took for arrival, took in zip(arrivals, latencies, strict=True) if arrival >= middle]
    # Tiers are drawn at random, so that both halves have about the same part of each.
    early_sent = max(len(early), round((half - before) * sent / max(1, run.sent)))
    available = scenario.workers * (run.ended - game.warmup)
    return Played(
        setting,
        _latency(latencies, sent, limit),
        (_latency(early, early_sent, limit), _latency(late, max(len(late), sent - early_sent), limit)),
        len(latencies) / sent if sent else 1.0,
        1000.0 * run.busy_seconds / len(run.latencies) if run.latencies else inf,
        run.batched / run.batches if run.batches else 0.0,
        run.busy_seconds / available if available > 0 else 0.0,
    )


def _limit(scenario: Scenario, tier: int | None) -> Seconds:
    """The longest that a request may take."""
    if scenario.tier_limits:
        return (
            scenario.tier_limits[tier][1]
            if tier is not None
            else max(whole for _, whole in scenario.tier_limits)
        )
    return scenario.request_limit


def _latency(latencies: Sequence[float], sent: int, limit: Seconds) -> Latency:
    ordered = sorted(latencies)
    if not sent:
        return Latency(0.0, 0.0, 0.0)
    mean = (sum(ordered) + limit * (sent - len(ordered))) / sent
    found = (latency_at(ordered, sent, quantile) for quantile in (QUANTILES[P95], QUANTILES[P99]))
    p95, p99 = (limit if each is None else each for each in found)
    return Latency(mean, p95, p99)
