"""Why the queue of a model refuses a request: it would be late, it costs too much, or there is no room for it.

`Admission` asks this first, before it asks which part of the capacity a tier may have. A request that cannot make
its deadline is refused when it arrives, and told after which time it could. The last part of the longest queue,
`ROOM`, is for tenants that have less than an even share of it. The rules among tiers are in `tier_gate`, which uses
`is_full` and `too_long` of this file. Over a bus `cluster/gateway_room.py` keeps the same `ROOM` at each gateway.
"""

from dataclasses import dataclass

from penstock.core.apart import QUEUE
from penstock.core.batcher import Batcher
from penstock.core.forecast import backlog_seconds, can_wait, forecast, in_turn
from penstock.errors import HopelessDeadline, Overloaded, Refused, Unacceptable
from penstock.types import Request, Seconds, has_own_limit

ROOM = 0.1  # the part of the longest queue for tenants with less than their share
SOON = 0.1  # the shortest `Retry-After` that a request of a tenant set apart is given, in seconds
SET_APART = (
    "requests like this one have made their batches fail, so they run apart for a while, and too many of them"
    " wait: send fewer, and find in the dead letters which inputs fail"
)


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """How much may wait at one batcher."""

    max_queue: int = 20_000
    max_queue_bytes: int = 512 * 2**20


def refusal(
    batcher: Batcher, rules: AdmissionRules, request: Request, now: Seconds, overtaken: float = 0.0
) -> Refused | None:
    """Why this request is not let in, or None if it is. `overtaken`: the part of the service that goes to requests
    which overtake the last one of its tier."""
    limit = batcher.rules.max_cost
    if request.cost > limit:
        return _too_dear(request, limit)
    depth, in_tier = batcher.depth, in_turn(batcher, request)
    slower = overtaken * in_tier / (depth.by_tier[request.tier] or 1)
    expected = forecast(batcher, request.tier, now, in_tier, slower)
    if expected is None:
        loaded_in = batcher.fleet.loaded_in(now)
        if loaded_in is not None:
            return Overloaded("the model is still loading", retry_after=max(1.0, loaded_in))
        return Overloaded("no worker is ready yet", retry_after=1.0)
    seconds = 0.0 if batcher.parts.in_doubt(now) else expected.seconds
    wait, had = expected.start - now, min(request.expires, request.deadline - seconds) - now
    late = wait - can_wait(batcher, had)
    if late > 0:
        if request.deadline - now < batcher.curve.single:
            return _hopeless(request, batcher.curve.single, now)
        return too_long("the queue is too long for its deadline", late, wait, had)
    size = len(request.input)
    total, held = depth.total + batcher.apart.depth.total, depth.bytes + batcher.apart.depth.bytes
    if is_full(batcher, request, rules.max_queue, total):
        return _full("limits.max_queue", rules.max_queue, depth.total / expected.drain_rate)
    if is_full(batcher, request, rules.max_queue_bytes - size + 1, held, size):
        return _full("limits.max_queue_bytes", rules.max_queue_bytes, depth.total / expected.drain_rate)
    if not batcher.has_room_for(request):
        return Overloaded(
            f"too many sets of parameters are waiting: limits.max_lanes is {batcher.rules.max_lanes}",
            retry_after=expected.seconds,
        )
    return None


def refusal_of_more(
    batcher: Batcher, rules: AdmissionRules, request: Request, number: int, now: Seconds
) -> Overloaded | None:
    """Why the last of `number` more requests is sure not to be let in, if all are like this one, which waits
    already. None: each must be asked for. The requests before the last one only make the queue longer. So what is
    refused here would also be refused one by one. This holds where all requests cost the same."""
    before = number - 1
    expected = None
    if len(batcher.lanes) == 1:  # among several lanes it may overtake more than this one does
        expected = forecast(batcher, request.tier, now, in_turn(batcher, request) + before)
    if expected is not None:
        seconds = 0.0 if batcher.parts.in_doubt(now) else expected.seconds
        wait, had = expected.start - now, min(request.expires, request.deadline - seconds) - now
        late = wait - can_wait(batcher, had)
        if late > 0:
            return too_long("the queue is too long for its deadline", late, wait, had)
    total = batcher.depth.total + batcher.apart.depth.total
    if is_full(batcher, request, rules.max_queue, total, more=before):
        return _full("limits.max_queue", rules.max_queue, backlog_seconds(batcher, now))
    return None


def refusal_apart(batcher: Batcher, rules: AdmissionRules, request: Request, now: Seconds) -> Refused | None:
    """Why a request of a culprit that is set apart is not let in, or None if it is. Such requests may fill only a
    small part of the queue."""
    limit = batcher.rules.max_cost
    if request.cost > limit:
        return _too_dear(request, limit)
    apart = batcher.apart
    if not apart.lanes.has_room_for(request):
        return Overloaded(SET_APART, retry_after=1.0)
    workers = batcher.parts.workers_apart(now)
    apart.renew(workers, now)
    late = apart.wait(request, batcher.curve.single, workers, now) - (
        min(request.expires, request.deadline - batcher.curve.single) - now
    )
    full = (
        apart.depth.total >= QUEUE * rules.max_queue
        or apart.depth.bytes + len(request.input) > QUEUE * rules.max_queue_bytes
    )
    return Overloaded(SET_APART, retry_after=max(late, SOON)) if full or late > 0.0 else None


def _too_dear(request: Request, limit: float) -> Unacceptable:
    return Unacceptable(
        f"this input costs {request.cost:g}, and max_cost of the model is {limit:g}: make it shorter"
    )


def _full(setting: str, limit: int, drains_in: Seconds) -> Overloaded:
    return Overloaded(f"the queue is full: {setting} is {limit}", retry_after=drains_in)


def too_long(why: str, late: Seconds, wait: Seconds, had: Seconds) -> Overloaded:
    """The refusal of a request that would wait for `wait`, and has `had` for that. `late`: how much later it would
    have to come to be let in."""
    refused = Overloaded(why, retry_after=late)
    refused.needed, refused.had = wait, had
    return refused


def _hopeless(request: Request, batch: Seconds, now: Seconds) -> HopelessDeadline:
    """The refusal of a request that not even an idle server could answer in time."""
    has = request.deadline - request.arrival
    limit = (
        f"timeout_ms was {has * 1e3:.0f}" if has_own_limit(request) else f"timeouts.request is {has:.3g} s"
    )
    refused = HopelessDeadline(f"one batch of this model takes about {batch * 1e3:.0f} ms; {limit}")
    refused.needed, refused.had = batch, request.deadline - now
    return refused


def is_full(
    batcher: Batcher, request: Request, limit: float, waiting: float, each: float = 1.0, more: int = 0
) -> bool:
    """Whether a queue has no room for this request. `waiting`: how much is in the queue. `each`: how much a request
    of this tenant takes. `more`: how many more of the tenant's requests are to count as waiting. The last part of
    the queue is kept for tenants with less than an even share."""
    waiting += more * each
    if waiting >= limit:
        return True
    if waiting < limit - int(ROOM * limit):
        return False
    own, tenants = more, 0
    for lane in batcher.lanes.values():
        here, others = lane.buffer.shared_by(request)
        own, tenants = own + here, tenants + others
    return is_beyond_share(own * each, tenants, limit)


def is_beyond_share(own: float, tenants: int, limit: float) -> bool:
    """Whether a tenant has no less than an even share of a limit. `own`: what the tenant has. `tenants`: how many
    wait. The share is counted with one tenant more, since another may yet come."""
    return own * (tenants + 1) >= limit
