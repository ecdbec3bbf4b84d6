"""What waits in one lane (the requests that may share a batch), and who goes first. Each lane has one buffer. The
`Batcher` adds requests to it, and in the lanes of culprits `apart` does; `sealing` takes those of the next batch.

Order: tier, then tenant, then earliest deadline.
- Tiers are strict, or weighted: each tier's virtual time advances by cost / weight as it is served, and the tier
  with the least virtual time goes next. Ageing raises the weight of a tier whose next request has waited long.
- Tenants of a tier share it evenly by the same rule, whatever each has queued: see `tier`.
- A tenant's own requests go earliest deadline first.

Removal is lazy. A request that was taken, cancelled or expired no longer waits: its `waiting` is cleared, and it
counts as *dead* in the queues of this folder. It is skipped wherever it still stands. If the dead outnumber the
others by far, all of them are dropped. So every operation is O(log n) amortised, and memory is bounded by about
four times what waits. Before a request that was taken waits again, its lane must forget it
(`forget_taken`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf

from penstock.core.dearest import Dearest
from penstock.core.queued import Queued
from penstock.core.room import Room
from penstock.core.tier import Tier
from penstock.types import Request, Seconds

ROUNDS = 2  # rounds of turns in which the tiers fill most of a batch


@dataclass(frozen=True, slots=True)
class TierRules:
    """How tiers share a lane; index is the tier's rank, 0 served first."""

    weights: tuple[float, ...] = (8.0, 4.0, 1.0)
    strict: bool = False  # whether the best tier in which anything waits always goes first
    ageing: Seconds = 1.0  # a tier's weight has doubled when its next request has waited this long


class Depth:
    """How much waits in all lanes of a model; each buffer keeps its part up to date."""

    __slots__ = ("by_tier", "bytes", "total")

    def __init__(self, tiers: int) -> None:
        self.total = 0
        self.by_tier = [0] * tiers
        self.bytes = 0


class Buffer:
    """The requests that wait in one lane."""

    __slots__ = ("_clock", "_dearest", "_depth", "_rules", "_tiers", "cost", "waiting")

    def __init__(self, rules: TierRules, depth: Depth, *, padded: bool = False) -> None:
        """`padded`: a batch costs rows × its dearest request, and not the sum of them."""
        self._rules = rules
        self._dearest = Dearest() if padded else None
        self._depth = depth
        self._tiers = [Tier(weight) for weight in rules.weights]
        self._clock = 0.0  # virtual time of the tier served last
        self.waiting = 0
        self.cost = 0.0

    def follow(self, rules: TierRules) -> None:
        """Go by these rules from now on. There are as many tiers as before."""
        self._rules = rules
        for tier, weight in zip(self._tiers, rules.weights, strict=True):
            tier.weight = weight

    def push(self, request: Queued) -> None:
        """Take in a request."""
        request.waiting = True
        rank, depth = request.tier, self._depth
        tier = self._tiers[rank]
        if not tier.waiting:
            tier.begin(self._clock)
        tier.push(request)
        self.waiting += 1
        self.cost += request.cost
        if self._dearest is not None:
            self._dearest.push(request)
        depth.total += 1
        depth.by_tier[rank] += 1
        depth.bytes += len(request.input)

    def extend(self, requests: Sequence[Queued]) -> None:
        """Take in more requests of a tenant and a tier that has one waiting. They are in the order of their
        deadlines, and of the limits of their waits."""
        number, rank, depth, size = len(requests), requests[0].tier, self._depth, 0
        for request in requests:
            request.waiting = True
            self.cost += request.cost
            size += len(request.input)
            if self._dearest is not None:
                self._dearest.push(request)
        self._tiers[rank].extend(requests)
        self.waiting += number
        depth.total += number
        depth.by_tier[rank] += number
        depth.bytes += size

    def discard(self, request: Queued) -> None:
        """Take a request out of the queue: it left, was cancelled, or can no longer make its deadline."""
        request.waiting = False
        tier = self._tiers[request.tier]
        tier.discard()
        self._depth.by_tier[request.tier] -= 1
        self._gone(1, request.cost, len(request.input))
        tier.tidy()
        if self._dearest is not None:
            self._dearest.tidy(self.waiting)

    def _gone(self, number: int, cost: float, size: int) -> None:
        self.waiting -= number
        self.cost = self.cost - cost if self.waiting else 0.0
        self._depth.total -= number
        self._depth.bytes -= size

    @property
    def together(self) -> float:
        """What all that wait would cost in one batch."""
        return self.cost if self._dearest is None else self.waiting * self._dearest.cost

    def of_tenant(self, request: Request) -> int:
        """How many requests of this one's tenant wait here, in its tier."""
        return self._tiers[request.tier].of_tenant(request.tenant)

    def overtakes(self, request: Request, own: int) -> float:
        """How many requests of its own tier this request would overtake here, if it came now. `own`: how many its
        tenant has waiting, here and in other lanes. Something must wait."""
        size = (request.cost or 1.0) * self.waiting / (self.cost or self.waiting)
        return self._tiers[request.tier].overtakes(request.tenant, size, own)

    def shared_by(self, request: Request) -> tuple[int, int]:
        """How many requests a request's tenant has here, in its tier; and how many tenants wait, in all tiers."""
        return self._tiers[request.tier].of_tenant(request.tenant), self.tenants

    @property
    def tenants(self) -> int:
        """How many tenants wait, in all tiers."""
        return sum([len(tier.tenants) for tier in self._tiers])

    def oldest(self) -> Queued | None:
        """The request that came first of those that wait; None if none does."""
        found: Queued | None = None
        for tier in self._tiers:
            if tier.waiting:
                oldest = tier.by_urgency.oldest()
                assert oldest is not None
                if found is None or oldest.arrival < found.arrival:
                    found = oldest
        return found

    def newest(self) -> Queued | None:
        """The request that came last of those that wait."""
        found = [tier.by_urgency.newest() for tier in self._tiers if tier.waiting]
        return max(found, key=_arrival, default=None)

    def most_urgent(self, horizon: Seconds) -> Queued | None:
        """The request whose time runs out first, if a batch takes `horizon`."""
        found: Queued | None = None
        first = inf
        for tier in self._tiers:
            if tier.waiting:
                urgent = tier.by_urgency.most_urgent(horizon)
                assert urgent is not None
                limit = urgent.deadline - horizon
                if urgent.expires < limit:
                    limit = urgent.expires
                if found is None or limit < first:
                    found, first = urgent, limit
        return found

    def best_tier(self) -> int:
        """The best tier in which anything waits; the number of tiers if nothing does."""
        for rank, tier in enumerate(self._tiers):
            if tier.waiting:
                return rank
        return len(self._tiers)

    def some_tenants(self, most: int) -> list[str]:
        """Tenants that wait, up to so many of each tier."""
        return [name for tier in self._tiers if tier.waiting for name in islice(tier.tenants, most)]

    def take(self, count: int, room: Room | None, now: Seconds) -> list[Queued]:
        """Take the best `count` requests for which there is room (None: there always is). Something must wait."""
        taken: list[Queued] = []
        spent, ageing, by_tier = 0.0, self._rules.ageing, self._depth.by_tier
        left = self.waiting if self.waiting < count else count
        while left:
            rank, until, in_a_row = self._next_tier(left)
            tier, before = self._tiers[rank], len(taken)
            spent += tier.serve(taken, before + in_a_row, count, room, until, now, ageing)
            served = len(taken) - before
            if not served:  # the next request does not fit
                break
            self._clock = tier.start
            by_tier[rank] -= served
            left -= served
        self._gone(len(taken), spent, sum([len(request.input) for request in taken]))
        for tier in self._tiers:
            tier.tidy()
        if self._dearest is not None:
            self._dearest.tidy(self.waiting)
        return taken

    def forget_taken(self) -> None:
        """Drop all that were taken, those that stand behind others too. Called before any of them waits again, in
        another lane: here it would look as if it still waited in this one."""
        for tier in self._tiers:
            tier.by_urgency.compact()
        if self._dearest is not None:
            self._dearest.compact()

    def _next_tier(self, left: int) -> tuple[int, float, int]:
        """Returns the tier whose turn it is, the virtual time at which another has its turn, and how many requests
        of the first go in a row even beyond that. `left`: how many requests are still to be taken. While these are
        many, the other tiers catch up before the batch is full, so the turn need not be asked for each request."""
        best, least, until, weights = -1, inf, inf, 0.0
        for rank, tier in enumerate(self._tiers):
            if tier.waiting:
                weights += tier.weight
                if best < 0 or tier.virtual < least:
                    best, least, until = rank, tier.virtual, least
                    if self._rules.strict:
                        break
                elif tier.virtual < until:
                    until = tier.virtual
        return best, until, int(left * self._tiers[best].weight / (ROUNDS * weights))


def _arrival(request: Queued) -> Seconds:
    return request.arrival
