"""What waits in one lane, and who goes first (SPEC C1, C2, C3, C5).

Order: tier, then tenant, then earliest deadline.
- Tiers are strict, or weighted: each tier's virtual time advances by cost / weight as it is served, and the
  tier that is furthest behind goes next. Ageing raises the weight of a tier whose oldest has waited long.
- Tenants of a tier share it evenly by the same rule (start-time fair queueing), whatever each has queued.
- A tenant's own requests go earliest deadline first.

Removal is lazy: a request that was taken, cancelled or expired has `waiting` cleared and is skipped wherever
it still stands; when the dead outnumber the living, everything is compacted. So every operation is O(log n)
amortised and memory is bounded by twice what waits.
"""

from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

from penstock.types import Request, Seconds


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
    __slots__ = ("heap", "name", "virtual")

    def __init__(self, name: str) -> None:
        self.name = name
        self.virtual = 0.0
        self.heap: list[tuple[float, int, Request]] = []


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
        self._deadlines: list[tuple[float, int, Request]] = []
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
            tenant.virtual = tier.clock + request.cost
            heappush(tier.queue, (tenant.virtual, sequence, tenant))
        heappush(tenant.heap, (request.deadline, sequence, request))
        heappush(self._deadlines, (min(request.expires, request.deadline), sequence, request))
        self._arrivals.append(request)
        self.waiting += 1
        self.cost += request.cost
        depth = self._depth
        depth.total += 1
        depth.by_tier[request.tier] += 1
        depth.bytes += len(request.input)

    def discard(self, request: Request) -> None:
        """Out of the queue: it left, was cancelled, or can no longer make it."""
        self._remove(request)
        if len(self._deadlines) > 2 * self.waiting + 64:
            self._compact()

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

    def most_urgent(self) -> Request | None:
        """The one whose time runs out first."""
        deadlines = self._deadlines
        while deadlines and not deadlines[0][2].waiting:
            heappop(deadlines)
        return deadlines[0][2] if deadlines else None

    def best_tier(self) -> int:
        for rank, tier in enumerate(self._tiers):
            if tier.waiting:
                return rank
        return len(self._tiers)

    def take(
        self, count: int, max_cost: float, horizon: Seconds, now: Seconds
    ) -> tuple[list[Request], list[Request]]:
        """The best `count` that fit in `max_cost`, and those met on the way that `horizon` makes too late."""
        taken: list[Request] = []
        late: list[Request] = []
        spent = 0.0
        while len(taken) < count and self.waiting:
            tier = self._next_tier()
            request = self._head(tier)
            if taken and spent + request.cost > max_cost:
                break
            self._pop(tier, now)
            if now > request.expires or now > request.deadline - horizon:
                late.append(request)
                continue
            taken.append(request)
            spent += request.cost
        if len(self._deadlines) > 2 * self.waiting + 64:
            self._compact()
        return taken, late

    def _next_tier(self) -> _Tier:
        ready = [tier for tier in self._tiers if tier.waiting]
        if self._rules.strict or len(ready) == 1:
            return ready[0]
        return min(ready, key=lambda tier: tier.virtual)

    def _head(self, tier: _Tier) -> Request:
        """The tier's next request. Tenants with nothing left are dropped on the way."""
        queue = tier.queue
        while True:
            tenant = queue[0][2]
            heap = tenant.heap
            while heap and not heap[0][2].waiting:
                heappop(heap)
            if heap:
                return heap[0][2]
            heappop(queue)
            del tier.tenants[tenant.name]

    def _pop(self, tier: _Tier, now: Seconds) -> None:
        virtual, sequence, tenant = tier.queue[0]
        request = heappop(tenant.heap)[2]
        tier.clock = virtual
        tenant.virtual = virtual + request.cost
        if tenant.heap:
            heapreplace(tier.queue, (tenant.virtual, sequence, tenant))
        else:
            heappop(tier.queue)
            del tier.tenants[tenant.name]
        self._clock = tier.virtual
        age = max(0.0, now - request.arrival)
        tier.virtual += request.cost / (tier.weight * (1.0 + age / self._rules.ageing))
        self._remove(request)

    def _compact(self) -> None:
        self._deadlines = [entry for entry in self._deadlines if entry[2].waiting]
        heapify(self._deadlines)
        self._arrivals = deque(request for request in self._arrivals if request.waiting)
        for tier in self._tiers:
            for tenant in list(tier.tenants.values()):
                tenant.heap = [entry for entry in tenant.heap if entry[2].waiting]
                heapify(tenant.heap)
                if not tenant.heap:
                    del tier.tenants[tenant.name]
            tier.queue = [entry for entry in tier.queue if entry[2].heap]
            heapify(tier.queue)
