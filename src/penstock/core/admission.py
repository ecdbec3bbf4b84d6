"""Who is let in (SPEC D4, C5, B6): what cannot make its deadline is refused at the door, with a true wait.

The expected start of a new request is when the next worker frees, plus one gap between batches for every full
batch ahead of it. `ahead` counts what the order of the buffer puts before it: under strict tiers its own and
better ones; under weighted tiers its own, stretched by its share of the service.
"""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.batcher import Batcher
from penstock.core.estimator import GUARD, LEAST_SPREAD
from penstock.errors import HopelessDeadline, Overloaded, Refused, Unacceptable
from penstock.types import Request, Seconds, has_own_limit

# Of the time it has beyond one batch: a long wait may be longer than expected, and a late answer is wasted.
SURE = 0.9


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    max_queue: int = 20_000
    max_queue_bytes: int = 512 * 2**20


class Forecast(NamedTuple):
    start: Seconds  # when a request arriving now can expect to be sent
    seconds: Seconds  # how long its batch should take, with guard
    drain_rate: float  # requests a second that leave at full batches


def forecast(batcher: Batcher, tier: int, now: Seconds) -> Forecast | None:
    """None when nobody can say: no worker is there, and none has said when it will be."""
    curve, fleet = batcher.curve, batcher.fleet
    size = curve.best_size
    free = fleet.next_free(curve, now)
    if free is None:
        return None
    gap = curve.best_seconds / fleet.counted
    ahead = _ahead(batcher, tier)
    seconds = curve(min(size, ahead + 1))  # as large as its batch would be if nobody else came
    if ahead >= fleet.free:  # with workers to spare, trying costs nobody anything
        seconds *= 1.0 + GUARD * max(curve.spread, LEAST_SPREAD)
    return Forecast(
        free + ahead // size * gap,
        seconds,
        size / gap if gap > 0 else float("inf"),
    )


def _ahead(batcher: Batcher, tier: int) -> float:
    """How many requests go before one of this tier that arrives now, in effect."""
    depth, retries, tiers = batcher.depth, batcher.delivery.waiting, batcher.rules.tiers
    own = depth.by_tier[tier]
    if own == depth.total:  # nobody else waits, the usual case
        return own + retries
    if tiers.strict:
        return sum(depth.by_tier[: tier + 1]) + retries
    active = sum(weight for weight, waiting in zip(tiers.weights, depth.by_tier, strict=True) if waiting)
    if not own:
        active += tiers.weights[tier]
    return min(own * active / tiers.weights[tier], float(depth.total)) + retries


def refusal(batcher: Batcher, rules: AdmissionRules, request: Request, now: Seconds) -> Refused | None:
    """Why this request is not let in, or None if it is."""
    limit = batcher.rules.max_cost
    if request.cost > limit:
        return Unacceptable(
            f"this input costs {request.cost:g}, and max_cost of the model is {limit:g}: make it shorter"
        )
    expected = forecast(batcher, request.tier, now)
    if expected is None:
        loaded_in = batcher.fleet.loaded_in(now)
        if loaded_in is not None:
            return Overloaded("the model is still loading", retry_after=max(1.0, loaded_in))
        return Overloaded("no worker is ready yet", retry_after=1.0)
    seconds = 0.0 if batcher.in_doubt(now) else expected.seconds
    late = expected.start - now - can_wait(batcher, min(request.expires, request.deadline - seconds) - now)
    if late > 0:
        if request.deadline - now < batcher.curve.single:
            return _hopeless(request, batcher.curve.single)
        return Overloaded("the queue is too long for its deadline", retry_after=late)
    depth = batcher.depth
    if depth.total >= rules.max_queue or depth.bytes + len(request.input) > rules.max_queue_bytes:
        return Overloaded(queue_full(depth.total, rules), retry_after=depth.total / expected.drain_rate)
    if not batcher.has_room_for(request):
        return Overloaded(
            f"too many sets of parameters are waiting: limits.max_lanes is {batcher.rules.max_lanes}",
            retry_after=expected.seconds,
        )
    return None


def queue_full(waiting: int, rules: AdmissionRules) -> str:
    if waiting >= rules.max_queue:
        return f"the queue is full: limits.max_queue is {rules.max_queue}"
    return f"the queue is full: limits.max_queue_bytes is {rules.max_queue_bytes}"


def _hopeless(request: Request, batch: Seconds) -> HopelessDeadline:
    """Not even an idle server could answer it in time."""
    has = request.deadline - request.arrival
    limit = (
        f"timeout_ms was {has * 1e3:.0f}" if has_own_limit(request) else f"timeouts.request is {has:.3g} s"
    )
    return HopelessDeadline(f"one batch of this model takes about {batch * 1e3:.0f} ms; {limit}")


def can_wait(batcher: Batcher, seconds: Seconds) -> Seconds:
    """For how long it may be expected to wait, if it has so long: the further ahead, the less sure the forecast."""
    batch = batcher.curve.best_seconds
    return batch + SURE * (seconds - batch) if seconds > batch else seconds
