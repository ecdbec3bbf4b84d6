"""What waits in one lane, and who goes first (SPEC C1, C2, C3, C5).

Order: tier, then tenant, then earliest deadline.
- Tiers are strict, or weighted: each tier's virtual time advances by cost / weight as it is served, and the
  tier that is furthest behind goes next. Ageing raises the weight of a tier whose oldest has waited long.
- Tenants of a tier share it evenly by the same rule (start-time fair queueing), whatever each has queued.
- A tenant's own requests go earliest deadline first.

Removal is lazy: a request that was taken, cancelled or expired has `waiting` cleared and is skipped wherever
it still stands; where the dead outnumber the living, everything is compacted. So every operation is O(log n)
amortised and memory is bounded by twice what waits.
"""

from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

from penstock.core.ordered import Ordered
from penstock.types import Request, Seconds

SLACK = 128  # dead entries not worth compacting for


@dataclass(frozen=True, slots=True)
class TierRules:
    """How tiers share a lane; index is the tier's rank, 0 served first."""

    weights: tuple[float, ...] = (8.0, 4.0, 1.0)
    strict: bool = False
    ageing: Seconds = 1.0  # a tier's weight doubles when its oldest has waited this long


class Depth:
    """How much waits in all lanes of a model; each buffer keeps its part up to date."""

    __slots__ = ("by_tier", "bytes", "total")

    def __init__(self, tiers: int) -> None:
        self.total = 0
        self.by_tier = [0] * tiers
        self.bytes = 0


class _Tenant:
    __slots__ = ("name", "requests", "virtual", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.virtual = 0.0
        self.waiting = 0
        self.requests = Ordered()  # by deadline


class _Tier:
    __slots__ = ("clock", "queue", "tenants", "virtual", "waiting", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.virtual = 0.0
        self.waiting = 0
        self.clock = 0.0  # virtual time of the tenant served last
        self.tenants: dict[str, _Tenant] = {}
        self.queue: list[tuple[float, int, _Tenant]] = []  # tenants that may have something waiting


class Buffer:
    __slots__ = (
        "_arrivals",
        "_clock",
        "_deadlines",
        "_depth",
        "_discarded",
        "_expiries",
        "_rules",
        "_sequence",
        "_tiers",
        "cost",
        "waiting",
    )

    def __init__(self, rules: TierRules, depth: Depth) -> None:
        self._rules = rules
        self._depth = depth
        self._tiers = [_Tier(weight) for weight in rules.weights]
        self._clock = 0.0  # virtual time of the tier served last
        self._sequence = 0
        self._arrivals: deque[Request] = deque()
        # Two, because which of a request's limits binds depends on how long a batch takes at the moment.
        self._expiries = Ordered()
        self._discarded = 0  # since everything was compacted: the dead among the tenants'
        self._deadlines = Ordered()
        self.waiting = 0
        self.cost = 0.0

    def push(self, request: Request) -> None:
        request.waiting = True
        self._sequence = sequence = self._sequence + 1
        tier = self._tiers[request.tier]
        if tier.waiting == 0:  # an absent tier saves up no claim on the past
            tier.virtual = max(tier.virtual, self._clock)
        tier.waiting += 1
        tenant = tier.tenants.get(request.tenant)
        if tenant is None:
            tenant = tier.tenants[request.tenant] = _Tenant(request.tenant)
            # One cost behind the clock: a tenant that comes back again and again with one request
            # takes its turn like the others instead of going first each time.
            tenant.virtual = tier.clock + _share(request)
            heappush(tier.queue, (tenant.virtual, sequence, tenant))
        tenant.waiting += 1
        deadline = request.deadline
        tenant.requests.push(deadline, sequence, request)
        self._deadlines.push(deadline, sequence, request)
        self._expiries.push(request.expires, sequence, request)
        self._arrivals.append(request)
        self.waiting += 1
        self.cost += request.cost
        depth = self._depth
        depth.total += 1
        depth.by_tier[request.tier] += 1
        depth.bytes += len(request.input)

    def discard(self, request: Request) -> None:
        """Out of the queue: it left, was cancelled, or can no longer make it."""
        self._tiers[request.tier].tenants[request.tenant].waiting -= 1
        self._remove(request)
        self._discarded += 1
        self._tidy()

    def _remove(self, request: Request) -> None:
        request.waiting = False
        self._tiers[request.tier].waiting -= 1
        self.waiting -= 1
        self.cost = self.cost - request.cost if self.waiting else 0.0
        depth = self._depth
        depth.total -= 1
        depth.by_tier[request.tier] -= 1
        depth.bytes -= len(request.input)

    def oldest(self) -> Request | None:
        arrivals = self._arrivals
        while arrivals and not arrivals[0].waiting:
            arrivals.popleft()
        return arrivals[0] if arrivals else None

    def most_urgent(self, horizon: Seconds) -> Request | None:
        """The one whose time runs out first, if a batch takes `horizon`."""
        by_deadline, by_expiry = self._deadlines.first(), self._expiries.first()
        if by_deadline is None or by_expiry is None:
            return None
        return by_expiry[2] if by_expiry[0] < by_deadline[0] - horizon else by_deadline[2]

    def best_tier(self) -> int:
        for rank, tier in enumerate(self._tiers):
            if tier.waiting:
                return rank
        return len(self._tiers)

    def take(self, count: int, max_cost: float, now: Seconds) -> list[Request]:
        """The best `count` that fit in `max_cost`; one that alone does not fit goes alone."""
        taken: list[Request] = []
        spent = 0.0
        while len(taken) < count and self.waiting:
            tier = self._next_tier()
            if tier.waiting == self.waiting and len(tier.queue) == 1 and not taken:
                taken = self._take_from_one(tier, count, max_cost, now)
                break
            request = self._head(tier)
            spent += request.cost
            if taken and spent > max_cost:
                break
            self._serve(tier, request, now)
            taken.append(request)
        self._tidy()
        return taken

    def _take_from_one(self, tier: _Tier, count: int, max_cost: float, now: Seconds) -> list[Request]:
        """All that waits is one tenant's, the usual case: nobody to be fair to, and the books are kept once."""
        virtual, sequence, tenant = tier.queue[0]
        first = tenant.requests.first
        taken: list[Request] = []
        spent = share = 0.0
        size = 0
        while len(taken) < count and (entry := first()) is not None:
            request = entry[2]
            if taken and spent + request.cost > max_cost:
                break
            request.waiting = False
            taken.append(request)
            spent += request.cost
            share += _share(request)
            size += len(request.input)
        number = len(taken)
        last = _share(taken[-1])
        age = max(0.0, now - taken[0].arrival)
        weight = tier.weight * (1.0 + age / self._rules.ageing)
        tier.virtual += share / weight
        self._clock = tier.virtual - last / weight
        tenant.virtual = virtual + share
        tier.clock = tenant.virtual - last
        tenant.waiting -= number
        tier.waiting -= number
        self.waiting -= number
        self.cost = self.cost - spent if self.waiting else 0.0
        depth = self._depth
        depth.total -= number
        depth.by_tier[taken[0].tier] -= number
        depth.bytes -= size
        if tenant.waiting:
            tier.queue[0] = (tenant.virtual, sequence, tenant)
        else:
            tier.queue.clear()
            del tier.tenants[tenant.name]
        return taken

    def _next_tier(self) -> _Tier:
        best: _Tier | None = None
        for tier in self._tiers:
            if tier.waiting and (best is None or tier.virtual < best.virtual):
                best = tier
                if self._rules.strict:
                    break
        assert best is not None  # the caller saw that something waits
        return best

    def _head(self, tier: _Tier) -> Request:
        """The tier's next request. Tenants with nothing left are dropped on the way."""
        queue = tier.queue
        while True:
            tenant = queue[0][2]
            first = tenant.requests.first()
            if first is not None:
                return first[2]
            heappop(queue)
            del tier.tenants[tenant.name]

    def _serve(self, tier: _Tier, request: Request, now: Seconds) -> None:
        """Take the tier's next request out, and let its tenant and its tier pay for it."""
        virtual, sequence, tenant = tier.queue[0]
        share = _share(request)
        tier.clock = virtual
        tenant.waiting -= 1
        if tenant.waiting:
            tenant.virtual = virtual + share
            heapreplace(tier.queue, (tenant.virtual, sequence, tenant))
        else:
            heappop(tier.queue)
            del tier.tenants[tenant.name]
        self._clock = tier.virtual
        age = now - request.arrival
        tier.virtual += share / (tier.weight * (1.0 + age / self._rules.ageing) if age > 0.0 else tier.weight)
        self._remove(request)

    def _tidy(self) -> None:
        """Drop the dead in front; compact once the others, which stand behind the living, outnumber those."""
        self._deadlines.first()
        self._expiries.first()
        self.oldest()
        most = 2 * self.waiting + SLACK
        if (
            len(self._deadlines) <= most
            and len(self._expiries) <= most
            and len(self._arrivals) <= most
            and self._discarded <= self.waiting + SLACK
        ):
            return
        self._discarded = 0
        self._deadlines.compact()
        self._expiries.compact()
        self._arrivals = deque(request for request in self._arrivals if request.waiting)
        for tier in self._tiers:
            for tenant in list(tier.tenants.values()):
                tenant.requests.compact()
                if not tenant.requests:
                    del tier.tenants[tenant.name]
            tier.queue = [entry for entry in tier.queue if entry[2].requests]
            heapify(tier.queue)


def _share(request: Request) -> float:
    """What it uses up of its tier's and its tenant's turn. One that costs nothing still takes a place."""
    return request.cost or 1.0
