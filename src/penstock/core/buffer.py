"""What waits in one lane, and who goes first (SPEC C1, C2, C3, C5).

Order: tier, then tenant, then earliest deadline.
- Tiers are strict, or weighted: each tier's virtual time advances by cost / weight as it is served, and the
  tier that is furthest behind goes next. Ageing raises the weight of a tier whose oldest has waited long.
- Tenants of a tier share it evenly by the same rule (start-time fair queueing), whatever each has queued.
- A tenant's own requests go earliest deadline first.

Removal is lazy: a request that was taken, cancelled or expired has `waiting` cleared and is skipped wherever
it still stands; where the dead outnumber the living by far, everything is compacted. So every operation is O(log n)
amortised and memory is bounded by four times what waits.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from msgspec import Struct

from penstock.core.ordered import Entry, Ordered
from penstock.types import Request, Seconds

SLACK = 512  # dead entries not worth compacting for


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


class _Tenant(Struct, eq=False):
    """Most have one request waiting at a time, and there are thousands: a queue is made for the second one only."""

    name: str
    only: Entry | None
    waiting: int = 1
    several: Ordered | None = None  # by deadline; then there is no `only`

    def add(self, entry: Entry) -> None:
        self.waiting += 1
        if self.several is None:
            assert self.only is not None
            self.several = Ordered()
            self.several.push(self.only)
            self.only = None
        self.several.push(entry)

    def first(self) -> Request | None:
        if self.only is not None:
            request = self.only[2]
            return request if request.waiting else None
        assert self.several is not None
        entry = self.several.first()
        return None if entry is None else entry[2]

    def each(self) -> Iterable[Request]:
        """As `Ordered.each`."""
        if self.several is not None:
            return self.several.each()
        assert self.only is not None
        return [self.only[2]] if self.only[2].waiting else []

    def compact(self) -> bool:
        """Whether anything is left."""
        if self.several is not None:
            self.several.compact()
        return self.first() is not None


Turn = tuple[float, int, _Tenant]  # by virtual time, then in the order they came


class _Tier:
    """Tenants that may have something waiting take turns. Whoever comes, or comes again, is nearly always behind
    all others (always, where requests cost the same): turns are a plain queue, with a heap for the exceptions."""

    __slots__ = ("clock", "late", "tenants", "turns", "virtual", "waiting", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.virtual = 0.0
        self.waiting = 0
        self.clock = 0.0  # virtual time of the tenant served last
        self.tenants: dict[str, _Tenant] = {}
        self.turns: deque[Turn] = deque()
        self.late: list[Turn] = []  # a heap of those that were not the last when they came

    def queue(self, turn: Turn) -> None:
        if not self.turns or turn[0] >= self.turns[-1][0]:
            self.turns.append(turn)
        else:
            heappush(self.late, turn)

    def next(self) -> Turn:
        """Taken out; there must be one."""
        if self.late and (not self.turns or self.late[0] < self.turns[0]):
            return heappop(self.late)
        return self.turns.popleft()

    def give_back(self, turn: Turn) -> None:
        """What was next still is, and so before all others."""
        self.turns.appendleft(turn)

    def compact(self) -> None:
        """Forget the tenants of whom nothing is left."""
        self.turns = deque([turn for turn in self.turns if turn[2].compact()])
        self.late = [turn for turn in self.late if turn[2].compact()]
        heapify(self.late)
        self.tenants = {turn[2].name: turn[2] for turns in (self.turns, self.late) for turn in turns}


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
        entry = (request.deadline, sequence, request)
        tier = self._tiers[request.tier]
        if tier.waiting == 0:  # an absent tier saves up no claim on the past
            tier.virtual = max(tier.virtual, self._clock)
        tier.waiting += 1
        name = request.tenant
        tenant = tier.tenants.get(name)
        if tenant is None:
            # One cost behind the clock: a tenant that comes back again and again with one request
            # takes its turn like the others instead of going first each time.
            virtual, turns = tier.clock + (request.cost or 1.0), tier.turns
            tenant = tier.tenants[name] = _Tenant(name, entry)
            if not turns or virtual >= turns[-1][0]:  # `queue`, spelt out
                turns.append((virtual, sequence, tenant))
            else:
                heappush(tier.late, (virtual, sequence, tenant))
        else:
            tenant.add(entry)
        self._deadlines.push(entry)
        self._expiries.push((request.expires, sequence, request))
        self._arrivals.append(request)
        self.waiting += 1
        self.cost += request.cost
        depth = self._depth
        depth.total += 1
        depth.by_tier[request.tier] += 1
        depth.bytes += len(request.input)

    def discard(self, request: Request) -> None:
        """Out of the queue: it left, was cancelled, or can no longer make it."""
        request.waiting = False
        tier = self._tiers[request.tier]
        tier.tenants[request.tenant].waiting -= 1
        tier.waiting -= 1
        self._depth.by_tier[request.tier] -= 1
        self._gone(1, request.cost, len(request.input))
        self._discarded += 1
        self._tidy()

    def _gone(self, number: int, cost: float, size: int) -> None:
        """Keep the books of all that waits; those of a tier and a tenant are kept where these are known."""
        self.waiting -= number
        self.cost = self.cost - cost if self.waiting else 0.0
        self._depth.total -= number
        self._depth.bytes -= size

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
        """The best `count` that fit in `max_cost`; one that alone does not fit goes alone. Something must wait."""
        tier = self._next_tier()
        if tier.waiting == self.waiting and len(tier.tenants) == 1:
            taken = self._take_from_one(tier, count, max_cost, now)
        else:
            taken = self._take_fairly(count, max_cost, now)
        self._tidy()
        return taken

    def _take_from_one(self, tier: _Tier, count: int, max_cost: float, now: Seconds) -> list[Request]:
        """All that waits is one tenant's: nobody to be fair to, and the books are kept once."""
        virtual, sequence, tenant = tier.next()
        taken: list[Request] = []
        spent = share = 0.0
        size = 0
        for request in tenant.each():
            cost = request.cost
            if taken and (spent + cost > max_cost or len(taken) == count):
                break
            request.waiting = False
            taken.append(request)
            spent += cost
            share += cost or 1.0
            size += len(request.input)
        number = len(taken)
        last = taken[-1].cost or 1.0
        age = max(0.0, now - taken[0].arrival)
        weight = tier.weight * (1.0 + age / self._rules.ageing)
        tier.virtual += share / weight
        self._clock = tier.virtual - last / weight
        tier.clock = virtual + share - last
        tenant.waiting -= number
        tier.waiting -= number
        self._depth.by_tier[taken[0].tier] -= number
        self._gone(number, spent, size)
        if tenant.waiting:
            tier.queue((virtual + share, sequence, tenant))
        else:
            del tier.tenants[tenant.name]
        return taken

    def _take_fairly(self, count: int, max_cost: float, now: Seconds) -> list[Request]:
        """One by one, since whose turn it is may change with each."""
        ageing, by_tier, next_tier = self._rules.ageing, self._depth.by_tier, self._next_tier
        taken: list[Request] = []
        left, spent, size = self.waiting, 0.0, 0
        while left and len(taken) < count:
            tier = next_tier()
            turn = tier.next() if tier.late else tier.turns.popleft()
            virtual, sequence, tenant = turn
            only = tenant.only
            request = only[2] if only is not None else tenant.first()
            if request is None or not request.waiting:  # all that this tenant had has left
                del tier.tenants[tenant.name]
                continue
            cost = request.cost
            if taken and spent + cost > max_cost:
                tier.give_back(turn)
                break
            request.waiting = False
            taken.append(request)
            left -= 1
            spent += cost
            size += len(request.input)
            by_tier[request.tier] -= 1
            share = cost or 1.0  # one that costs nothing still takes a place
            tier.clock = virtual
            tier.waiting -= 1
            tenant.waiting -= 1
            if only is None and tenant.waiting:
                tier.queue((virtual + share, sequence, tenant))
            else:
                del tier.tenants[tenant.name]
            self._clock = tier.virtual
            age = now - request.arrival
            tier.virtual += share / (tier.weight * (1.0 + age / ageing) if age > 0.0 else tier.weight)
        self._gone(len(taken), spent, size)
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

    def _tidy(self) -> None:
        """Drop the dead in front; compact once the others, which stand behind the living, outnumber those."""
        self._deadlines.first()
        self._expiries.first()
        self.oldest()
        most = 4 * self.waiting + SLACK
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
        self._arrivals = deque([request for request in self._arrivals if request.waiting])
        for tier in self._tiers:
            tier.compact()
