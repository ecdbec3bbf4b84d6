"""When a request that arrives now can expect to be sent, by what waits ahead of it.

The expected start is when the next worker frees, plus one gap between batches for every full batch ahead of the
request. What is ahead follows from the order of the buffer:
- In its own tier: every waiting request of its own tenant. Of each other tenant it counts as many as its own has
  waiting, plus one, because tenants take turns. So a tenant with few waiting is not refused because another has
  filled the queue.
- Under weighted tiers: the requests of its own tier, divided by that tier's part of the service.
- Under strict tiers: also every request of a better tier.
Later requests may overtake a waiting one. `slower` is the part of the service (0 to 1) that goes to them; the
expected wait is divided by 1 - `slower`.

`refusal` and `tier_gate` refuse by the forecast what would be late. A client whose request is refused because
something is full, or because the server is about to end, is told `backlog_seconds`; over a bus batchers tell it the
gateways for that. The metrics show `expected_wait`.
"""

from typing import NamedTuple

from penstock.core.batcher import Batcher
from penstock.core.estimator import GUARD, LEAST_SPREAD
from penstock.types import Request, Seconds

# The part of a request's time beyond one batch that is counted on. A long wait may turn out longer than expected,
# and a late answer is wasted.
SURE = 0.9
FEW_LANES = 16  # in more lanes than this, the turn of a tenant is not looked up in each
UNKNOWN_BACKLOG = 1.0  # seconds: what is told where nobody can say how long the backlog takes


class Forecast(NamedTuple):
    """What a request that arrives now can expect."""

    start: Seconds  # when a request arriving now can expect to be sent
    seconds: Seconds  # how long its batch should take, with guard
    drain_rate: float  # requests a second that leave at full batches


def forecast(
    batcher: Batcher, tier: int, now: Seconds, in_tier: float | None = None, slower: float = 0.0
) -> Forecast | None:
    """The forecast for a request of this tier. None if nobody can say: no worker is there, and none has said when
    it will be. `in_tier`: how many of its own tier go before it, by default all. `slower`: the part of the service
    that goes to requests that overtake it."""
    curve, fleet = batcher.curve, batcher.fleet
    size = curve.best_size
    free = fleet.next_free(curve, now)
    if free is None:
        return None
    gap = curve.best_seconds / fleet.reach
    ahead = _ahead(batcher, tier, batcher.depth.by_tier[tier] if in_tier is None else in_tier)
    seconds = curve(min(size, ahead + 1))  # as large as its batch would be if nobody else came
    if ahead >= fleet.free:  # with workers to spare, trying costs nobody anything
        seconds *= 1.0 + GUARD * max(curve.spread, LEAST_SPREAD)
    return Forecast(
        free + ahead // size * gap / (1.0 - slower),
        seconds,
        size / gap if gap > 0 else float("inf"),
    )


def backlog_seconds(batcher: Batcher, now: Seconds) -> Seconds:
    """How long what waits now will take. Returns `UNKNOWN_BACKLOG` if nobody can say."""
    expected = forecast(batcher, len(batcher.depth.by_tier) - 1, now)
    return UNKNOWN_BACKLOG if expected is None else expected.start + expected.seconds - now


def expected_wait(batcher: Batcher, now: Seconds) -> Seconds | None:
    """How long a request that arrived now would wait for a worker, in the tier where that is longest. None if
    nobody can say."""
    expected = [forecast(batcher, tier, now) for tier in range(len(batcher.depth.by_tier))]
    return max((each.start - now for each in expected if each is not None), default=None)


def _ahead(batcher: Batcher, tier: int, in_tier: float) -> float:
    """How many requests go before one of this tier that arrives now. `in_tier`: how many of its own tier do."""
    depth, retries, tiers = batcher.depth, batcher.delivery.waiting, batcher.rules.tiers
    own = depth.by_tier[tier]
    if own == depth.total:  # nobody else waits, the usual case
        return in_tier + retries
    if tiers.strict:
        return sum(depth.by_tier[:tier]) + in_tier + retries
    active = sum(weight for weight, waiting in zip(tiers.weights, depth.by_tier, strict=True) if waiting)
    if not own:
        active += tiers.weights[tier]
    return min(in_tier * active / tiers.weights[tier], depth.total - own + in_tier) + retries


def in_turn(batcher: Batcher, request: Request) -> float:
    """How many requests of its own tier go before this one. Tenants take turns between lanes as they do within one.
    If there are many lanes, everything in the other lanes is assumed to go first, because looking into each lane
    would take too long."""
    waiting, lanes = batcher.depth.by_tier[request.tier], batcher.lanes
    if not waiting:
        return 0.0
    lane = lanes.get((request.parameters, 0) if lanes.plain else lanes.key_of(request))
    if lane is not None and len(lanes) == 1:  # the usual case
        return waiting - lane.buffer.overtakes(request, lane.buffer.of_tenant(request))
    asked = lanes.values() if len(lanes) <= FEW_LANES else [lane] if lane is not None else []
    buffers = [each.buffer for each in asked if each.buffer.waiting]
    own = sum([buffer.of_tenant(request) for buffer in buffers])
    return waiting - sum([buffer.overtakes(request, own) for buffer in buffers])


def can_wait(batcher: Batcher, seconds: Seconds) -> Seconds:
    """The longest forecast wait at which a request with this much time left is still let in. A long forecast is
    less sure, so beyond one batch only the part `SURE` of the time counts."""
    batch = batcher.curve.best_seconds
    return batch + SURE * (seconds - batch) if seconds > batch else seconds
