"""Which lane (requests that may share a batch) goes next where several wait, and who may open one more: tenants
share lanes as they share a queue. `sealing` asks for the order of the lanes, and the `Batcher` whether a new lane
may be opened for a request.

If urgency alone decided, a tenant that sends each request with other parameters, and with short deadlines, could
keep the workers to itself, one small batch after the other. So the lane goes first in which a tenant waits that has
had no batch for longest. Among the lanes of one tenant the most urgent goes first.
"""

from collections.abc import Iterable
from math import inf

from penstock.core.lane import ROOM, Lane
from penstock.core.queued import Sealed
from penstock.types import Request, Seconds

MOST = 10_000  # tenants that are remembered; if there are more, all are forgotten, and urgency decides once
SEEN = 16  # how many tenants of a lane are looked at: a step must stay cheap


class Turns:
    def __init__(self) -> None:
        # By tenant, when it last had a batch while there were several lanes.
        self._last: dict[str, Seconds] = {}

    def in_order(self, lanes: list[Lane], *, strict: bool) -> list[Lane]:
        """These lanes, the next one first. Under strict tiers the lane with the best tier goes first in any
        case."""
        return sorted(
            lanes,
            key=lambda lane: (lane.buffer.best_tier() if strict else 0, self._turn(lane), lane.give_up),
        )

    def _turn(self, lane: Lane) -> Seconds:
        """When the tenant of this lane that has had no batch for longest last had one."""
        last = self._last
        return min([last.get(tenant, -inf) for tenant in lane.buffer.some_tenants(SEEN)], default=inf)

    def taken(self, batch: Sealed, now: Seconds) -> None:
        """Note that the tenants in a batch have had one."""
        if len(self._last) > MOST:
            self._last.clear()
        for request in batch.requests:
            self._last[request.tenant] = now


def may_open(lanes: Iterable[Lane], request: Request, limit: int) -> bool:
    """Whether a lane may be opened for this request, if there may be `limit`. The last lanes are for tenants that
    have less than an even share. The share is counted with one tenant more than there are, since another may yet
    come."""
    taken, own, tenants = 0, 0, set[str]()
    for lane in lanes:
        if lane.buffer.waiting:
            found = lane.buffer.some_tenants(SEEN)
            taken += 1
            own += request.tenant in found
            tenants.update(found)
    return taken < limit - int(ROOM * limit) or own * (len(tenants) + 1) < limit
