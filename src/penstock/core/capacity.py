"""What the workers can do, and how much of it the lower tiers may have (SPEC D3).

    capacity = healthy workers × the throughput they have shown, at full batches

Where several tiers are in use (requests of more than one have come within a minute):
- The lowest tier is let in at up to `lowest_share` of the capacity while others wait; the rest is headroom, lent to
  it while nobody does. Those of better tiers who fit into the next batch do not count as waiting: they are the
  batch, and nothing that is let in behind them keeps them. Else one paid request now and then would idle GPUs.
- With `warning` requests waiting the lowest tier is refused, with `critical` all but the best. Both numbers are for
  a capacity of `reference` requests a second and grow and shrink with it, so what they say is a time: a queue that
  takes 0.31 s, or 1.56 s, to drain. But two, or four, full batches for each worker may always wait: while all
  workers are busy the queue is the batch, and a slow model's 0.31 s would not hold a single one.
- Who is in a hurry is late long before that. So, unless tiers are strict, all but the best are refused as well
  while one of the best that came now would spend more than half of its time in the queue. Weights alone would give
  the best tier its part of the service and no more, and refuse some of it although all of it fits.
- A tier may fill its `queue_share` of the longest queue and no more.
Elsewhere nothing is refused here, so that a single tenant can use all of its GPUs. The best tier never is.
"""

from dataclasses import dataclass
from math import inf, log
from typing import NamedTuple

from penstock.core.admission import AdmissionRules, forecast, refusal
from penstock.core.batcher import GUARD, LEAST_SPREAD, Batcher
from penstock.core.estimator import RateMeter
from penstock.errors import Overloaded, Refused
from penstock.types import Request, Seconds

IN_USE = 60.0  # seconds since two tiers were last seen, until they count as one again
WINDOW = 1.0  # over which the rate of the lowest tier is taken: what it may have follows within 2 s
WARNING_ROUNDS, CRITICAL_ROUNDS = 2.0, 4.0  # full batches for each worker
PRESSED = 0.5  # of the time that the best tier has: in the queue for longer, and it comes first altogether
NEWEST = 0.05  # weight of the newest in that time, which each client may choose for itself
SOONEST = 0.001


@dataclass(frozen=True, slots=True)
class CapacityRules:
    lowest_share: float = 0.7  # of the capacity, for the lowest tier
    warning: float = 100.0  # waiting: the lowest tier is refused
    critical: float = 500.0  # waiting: all but the best are
    reference: float = 320.0  # requests a second, the capacity both are meant for
    max_queue: int = 20_000
    queue_shares: tuple[float, ...] = ()  # of that, by tier; empty: each may fill it


class Depths(NamedTuple):
    """Numbers of waiting requests, at the capacity of the moment."""

    warning: float
    critical: float


def fleet_capacity(batcher: Batcher) -> float:
    """Requests a second that all healthy workers can do; 0 while there are none, or nothing has been seen."""
    curve = batcher.curve
    if not curve.best_seconds:
        return 0.0
    return curve.best_size / curve.best_seconds * batcher.fleet.healthy


def capacity(batcher: Batcher) -> float:
    """What of that this batcher may count on."""
    return fleet_capacity(batcher) * batcher.fleet.share


def depths(batcher: Batcher, rules: CapacityRules) -> Depths:
    scale = capacity(batcher) / rules.reference
    round_ = batcher.curve.best_size * batcher.fleet.healthy * batcher.fleet.share
    return Depths(
        max(rules.warning * scale, WARNING_ROUNDS * round_),
        max(rules.critical * scale, CRITICAL_ROUNDS * round_),
    )


def tier_refusal(
    batcher: Batcher, rules: CapacityRules, request: Request, lowest_rate: float
) -> Overloaded | None:
    """Why this request's tier is not let in now, or None. `lowest_rate`: at which the lowest tier was, of late."""
    tier = request.tier
    rate = capacity(batcher)
    if tier == 0 or not rate:  # nobody is healthy, or nobody knows yet: the forecast has the say
        return None
    by_tier, waiting = batcher.depth.by_tier, batcher.waiting
    lowest = tier == len(by_tier) - 1
    warning, critical = depths(batcher, rules)
    limit = warning if lowest else critical
    if waiting >= limit:
        return Overloaded(
            "the queue is too long to let this tier in", retry_after=_drain(waiting - limit, rate)
        )
    if rules.queue_shares:
        over = by_tier[tier] - rules.queue_shares[tier] * rules.max_queue
        if over >= 0:
            message = "this tier has filled its share of the queue"
            return Overloaded(message, retry_after=_drain(over, rate * _service(batcher, tier)))
    better = batcher.depth.total - by_tier[tier]
    size = batcher.curve.best_size
    if lowest and better >= size and lowest_rate >= rules.lowest_share * rate:
        lent = _drain(better - size, rate)  # until those that wait are one batch
        share = rules.lowest_share * rate
        slowed = WINDOW * log(lowest_rate / share) if share else inf
        return Overloaded(
            "this tier has used its share of the capacity", retry_after=max(SOONEST, min(lent, slowed))
        )
    return None


def best_pressed(batcher: Batcher, patience: Seconds, now: Seconds) -> Seconds:
    """For how long the best tier needs all there is: until one of it that comes would wait only half its time."""
    if not batcher.depth.by_tier[0] or batcher.rules.tiers.strict:  # then nobody else keeps it waiting
        return 0.0
    expected = forecast(batcher, 0, now)
    return 0.0 if expected is None else expected.start - now - PRESSED * patience


def _drain(excess: float, rate: float) -> Seconds:
    """Until one more than the excess has gone."""
    return (excess + 1.0) / rate


def _service(batcher: Batcher, tier: int) -> float:
    """The part of the service a tier gets while it waits, and those wait that do now."""
    tiers, by_tier = batcher.rules.tiers, batcher.depth.by_tier
    if tiers.strict:
        own = by_tier[tier] or 1
        return own / (own + sum(by_tier[:tier]))  # behind all better ones
    active = sum(weight for rank, weight in enumerate(tiers.weights) if by_tier[rank] or rank == tier)
    return tiers.weights[tier] / active


class TierGate:
    """Asked about every request that the forecast would let in: the last word."""

    __slots__ = ("_batcher", "_latest", "_lowest", "_meter", "_mixed_until", "_patience", "rules")

    def __init__(self, batcher: Batcher, rules: CapacityRules) -> None:
        self.rules = rules
        self._batcher = batcher
        self._lowest = len(batcher.depth.by_tier) - 1
        self._meter = RateMeter(WINDOW)  # of what was let in of the lowest tier
        self._latest = -1  # the tier seen last
        self._mixed_until = -inf
        self._patience = inf  # how long those of the best tier can wait for a worker, as a rule

    def refusal(self, request: Request, now: Seconds) -> Overloaded | None:
        tier = request.tier
        if tier != self._latest:
            if self._latest >= 0:
                self._mixed_until = now + IN_USE
            self._latest = tier
        if now >= self._mixed_until:
            return None
        if tier == 0:
            self._note_patience(request, now)
            return None
        pressed = best_pressed(self._batcher, self._patience, now)
        if pressed > 0.0:
            return Overloaded("a better tier needs the whole capacity", retry_after=max(SOONEST, pressed))
        lowest = tier == self._lowest
        refused = tier_refusal(self._batcher, self.rules, request, self._meter.rate(now) if lowest else 0.0)
        if refused is None and lowest:
            self._meter.add(now)
        return refused

    def _note_patience(self, request: Request, now: Seconds) -> None:
        curve, known = self._batcher.curve, self._patience
        guarded = curve.full * (1.0 + GUARD * max(curve.spread, LEAST_SPREAD))
        seconds = min(request.expires, request.deadline - guarded) - now
        self._patience = seconds if known == inf else known + NEWEST * (seconds - known)


class Door:
    """Who is let in: the queue has the first word, the tiers the last."""

    __slots__ = ("_admission", "_batcher", "_gate")

    def __init__(self, batcher: Batcher, admission: AdmissionRules, rules: CapacityRules) -> None:
        self._batcher = batcher
        self._admission = admission
        self._gate = TierGate(batcher, rules)

    def refusal(self, request: Request, now: Seconds) -> Refused | None:
        refused = refusal(self._batcher, self._admission, request, now)
        return refused if refused is not None else self._gate.refusal(request, now)
