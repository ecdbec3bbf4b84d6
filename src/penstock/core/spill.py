"""When work may leave its zone. A batcher's requests run on workers of its zone, which are *at home*; those of
other zones are *abroad*. The `Batcher` asks this when it is to say whether it wants one more worker, and from where
(`wants_worker`, `wants_abroad`). `sealing` looks again when the answer may change.

    no worker at home is healthy                                      it may leave
    the next worker at home is free too late for all that waits       it may leave
    otherwise                                                         it waits for a worker at home

"Too late" is a forecast: the most urgent request of a lane goes with the next batch, and its newest one behind all
that waits anywhere. Both must begin before their limits. A part of each request's time, `WAY`, is kept for asking
abroad and for the way there. Requests stay with their batcher, and only a batch with a free worker leaves. So there
is nothing to bring back: once the home can do it in time, nobody asks abroad.
"""

from math import inf

from penstock.core.parts import Parts
from penstock.types import Seconds

WAY = 0.1  # the part of a request's time that is kept for the way to another zone
RETRY_WAY = 0.05  # seconds that are kept for the way of a batch that is tried again


def late_at_home(parts: Parts, now: Seconds) -> bool:
    """Whether the workers at home cannot begin in time with all that waits."""
    if not parts.fleet.healthy:
        return True
    free = parts.fleet.next_free(parts.curve, now, at_home=True)
    return free is None or free > latest_start(parts)


def latest_start(parts: Parts) -> Seconds:
    """When the next worker at home must be free at the latest, so that all that waits begins in time there;
    infinite if nothing waits."""
    fleet, curve, delivery = parts.fleet, parts.curve, parts.delivery
    waiting = parts.depth.total + delivery.waiting
    behind = (waiting - 1) // curve.best_size * curve.best_seconds / fleet.counted
    latest = delivery.next_expiry(curve) - RETRY_WAY
    for lane in parts.lanes.values():
        oldest, newest = lane.buffer.oldest(), lane.buffer.newest()
        if oldest is None or newest is None:
            continue
        limit = min(newest.expires, newest.deadline - lane.horizon)
        first, last = _earlier(lane.give_up, oldest.arrival), _earlier(limit, newest.arrival)
        latest = min(latest, first, last - behind)
    return latest


def _earlier(limit: Seconds, arrival: Seconds) -> Seconds:
    """A limit, less what is kept for the way."""
    return limit - WAY * (limit - arrival) if limit < inf else inf
