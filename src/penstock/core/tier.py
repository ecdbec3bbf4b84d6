"""The requests of one tier that wait in one lane: its tenants take turns, each with its earliest deadline first.
The lane's `buffer` has one `Tier` for each tier, and asks it whose request is next.

Whose turn it is goes by virtual time (start-time fair queueing): a tenant that was served comes again when the
others have had as much, by cost, whatever each has queued. A tenant that comes, or comes again, nearly always has
its turn after all others (always, where requests cost the same). So the turns are a plain queue, with a heap for
the exceptions.

There may be thousands of tenants, and most have one request waiting at a time. That request stands for its tenant;
a queue for the tenant is made only when a second one comes.

A request that was taken, cancelled or expired no longer waits (`Queued.waiting`), and is called dead. It may stand
here until its turn comes, or until `tidy` drops all the dead.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import ceil, inf

from penstock.core.by_urgency import ByUrgency
from penstock.core.ordered import Ordered
from penstock.core.queued import Queued
from penstock.core.room import Room
from penstock.types import Seconds

SLACK = 512  # dead entries: fewer are not worth compacting for
ROUNDING = 1e-9  # covers rounding errors of virtual times

# A turn that came out of order: its virtual time, a number that breaks ties, and the request whose turn it is.
Late = tuple[float, int, Queued]


class Tier:
    __slots__ = (
        "_clock", "_discarded", "_late", "_sequence", "_turns", "by_urgency", "start", "tenants", "virtual",
        "waiting", "weight",
    )  # fmt: skip

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.waiting = 0
        self.virtual = 0.0  # how much this tier has had, by its weight: its virtual time among the tiers
        self.start = 0.0  # the virtual time of this tier when it was served last
        self.by_urgency = ByUrgency()
        # By tenant: its only request, or a queue of its requests. The dead are included until their turn comes.
        self.tenants: dict[str, Queued | Ordered] = {}
        # The requests that stand for their tenants, by the virtual time of their turn (`Queued.turn`). A turn is
        # given for as much as its request costs.
        self._turns: deque[Queued] = deque()
        self._late: list[Late] = []  # a heap of the turns that came out of that order
        self._clock = 0.0  # the virtual time of the tenant served last
        self._sequence = 0  # numbers requests and turns, to break ties
        self._discarded = 0  # requests that were discarded since `tidy` last dropped all the dead

    def push(self, request: Queued) -> None:
        """Take in a request."""
        self.waiting += 1
        self.by_urgency.push(request)
        name = request.tenant
        found = self.tenants.setdefault(name, request)
        if found is request:
            # A tenant's first turn comes later than the clock by what its request costs. A tenant that comes back
            # again and again with one request then takes its turn like the others, instead of going first each
            # time.
            request.turn = turn = self._clock + (request.cost or 1.0)
            turns = self._turns
            if not turns or turn >= turns[-1].turn:  # `_queue`, spelt out for the usual case
                turns.append(request)
            else:
                self._queue(request, turn)
            return
        if not isinstance(found, Ordered):
            found = self._several(found)
        self._sequence = sequence = self._sequence + 1
        found.push((request.deadline, sequence, request))

    def extend(self, requests: Sequence[Queued]) -> None:
        """Take in more requests of a tenant that has one waiting. They are in the order of their deadlines, and of
        the limits of their waits."""
        number, before = len(requests), self._sequence
        self.waiting += number
        self.by_urgency.extend(requests)
        found = self.tenants[requests[0].tenant]
        if not isinstance(found, Ordered):
            found = self._several(found)
        self._sequence = last = before + number
        deadlines = [request.deadline for request in requests]
        found.extend(list(zip(deadlines, range(before + 1, last + 1), requests, strict=True)))

    def _several(self, only: Queued) -> Ordered:
        """Make a queue for a tenant that has had one request here until now."""
        self.tenants[only.tenant] = found = Ordered()
        found.push((only.deadline, self._sequence, only))
        return found

    def discard(self) -> None:
        """Note that one of the requests here waits no longer."""
        self.waiting -= 1
        self._discarded += 1

    def of_tenant(self, tenant: str) -> int:
        """How many requests of a tenant wait. Some of the dead may be counted too."""
        found = self.tenants.get(tenant)
        return 0 if found is None else len(found) if isinstance(found, Ordered) else 1

    def overtakes(self, tenant: str, size: float, own: int) -> float:
        """How many requests here would go after one more of this tenant. Before its turn, each of the other tenants
        has as many turns as this tenant has requests (`own`), and one more. `size`: the request's cost as a
        multiple of what the others' requests cost."""
        here = self.of_tenant(tenant)
        others = len(self.tenants) - (here > 0)
        before = self.waiting - here - others * (own + 1) * size
        return before if before > 0.0 else 0.0

    def serve(
        self,
        taken: list[Queued],
        enough: int,
        count: int,
        room: Room | None,
        until: float,
        now: Seconds,
        ageing: Seconds,
    ) -> float:
        """Add the next requests to `taken`. Stop when `taken` has `count` requests; or when it has `enough` and
        this tier's virtual time has reached `until`; or when the next request does not fit in `room`. Returns what
        the added ones cost. Something must wait. For ageing, the tier is as old as the first request added."""
        if until == inf and len(self.tenants) == 1:
            return self._serve_only(taken, count, room, now, ageing)
        before, virtual = len(taken), self.virtual
        spent = counted = step = 0.0
        last = min(count, before + self.waiting)
        bound = last if until == inf else min(last, max(enough, before + 1))
        while True:
            spent_now, counted_now = self._take_turns(taken, bound, room)
            if len(taken) == before:
                return 0.0
            spent, counted = spent + spent_now, counted + counted_now
            if not step:  # worked out once: the step in virtual time for each unit of cost
                step = 1.0 / (self.weight * (1.0 + max(0.0, now - taken[before].arrival) / ageing))
            virtual = self.virtual + counted * step
            if len(taken) < bound or bound == last or virtual >= until:
                break
            # How many more bring the tier to `until`, if they cost what those before them did.
            more = (until - virtual) * (bound - before) / (counted * step)
            bound = last if more > last - bound else bound + max(1, ceil(more - ROUNDING))
        self.start, self.virtual = virtual - _counted(taken[-1]) * step, virtual
        self.waiting -= len(taken) - before
        return spent

    def _take_turns(self, taken: list[Queued], bound: int, room: Room | None) -> tuple[float, float]:
        """Add requests whose turn it is to `taken`, until that has `bound` requests or the next does not fit in
        `room`. That many must wait. Returns what the added ones cost, and what they count for (`_counted`)."""
        tenants, turns, late = self.tenants, self._turns, self._late
        spent, for_nothing, wanted = 0.0, 0, bound - len(taken)
        while wanted:
            token = self._next() if late else turns.popleft()
            request, found = token, tenants.pop(token.tenant)
            if found is not token:  # its tenant has several requests waiting
                assert isinstance(found, Ordered)
                first = found.first()
                if first is None:
                    continue
                request = first[2]
                more = _counted(request) - _counted(token)
                if more > 0.0:  # it costs more than this turn was given for, so its turn is yet to come
                    tenants[request.tenant] = found
                    self._queue(request, token.turn + more)
                    continue
            elif not token.waiting:
                continue
            cost = request.cost
            if room is not None and not room.takes(cost):
                tenants[request.tenant] = found
                turns.appendleft(token)  # what was next still is, and so goes before all others
                break
            request.waiting = False
            taken.append(request)
            spent += cost
            if not cost:
                for_nothing += 1
            self._clock = token.turn
            if found is not token:
                assert isinstance(found, Ordered)
                self._come_again(found, token.turn)
            wanted -= 1
        return spent, spent + for_nothing

    def _serve_only(
        self, taken: list[Queued], count: int, room: Room | None, now: Seconds, ageing: Seconds
    ) -> float:
        """Serve as `serve` does, where all that waits is one tenant's: there is nobody to be fair to, so virtual
        times are updated once for all."""
        token = self._next()
        found = self.tenants.pop(token.tenant)
        if isinstance(found, Ordered):
            served = found.take(count - len(taken), room)
        else:
            served = [found] if room is None or room.takes(found.cost) else []
            found.waiting = not served
        if not served:  # the next request does not fit, and its tenant keeps its turn
            self.tenants[token.tenant] = found
            self._turns.appendleft(token)
            return 0.0
        taken += served
        costs = [request.cost for request in served]
        spent = sum(costs)
        counted = spent + costs.count(0.0)
        age = max(0.0, now - served[0].arrival)
        weight = self.weight * (1.0 + age / ageing)
        self.virtual += counted / weight
        self.start = self.virtual - _counted(served[-1]) / weight
        self.waiting -= len(served)
        self._clock = token.turn + counted - _counted(token)
        if isinstance(found, Ordered):
            self._come_again(found, self._clock)
        return spent

    def _come_again(self, found: Ordered, virtual: float) -> None:
        """Give a tenant that was served its next turn, when the others have had as much as its next request
        costs."""
        first = found.first()
        if first is not None:
            request = first[2]
            self.tenants[request.tenant] = found
            self._queue(request, virtual + _counted(request))

    def _queue(self, token: Queued, turn: float) -> None:
        """Give a tenant its turn at this virtual time. `token`: the request that stands for it."""
        token.turn = turn
        turns = self._turns
        if not turns or turn >= turns[-1].turn:
            turns.append(token)
        else:
            self._sequence += 1
            heappush(self._late, (turn, self._sequence, token))

    def _next(self) -> Queued:
        """Take out the request that stands for the tenant whose turn it is. There must be one."""
        late, turns = self._late, self._turns
        if late and (not turns or late[0][0] < turns[0].turn):
            return heappop(late)[2]
        return turns.popleft()

    def begin(self, clock: float) -> None:
        """Begin again, since nothing has waited here until now. A tier has no claim to service for the time in
        which it had no requests."""
        self.virtual = max(self.virtual, clock)
        self.by_urgency.clear()
        if self._discarded:
            self._discarded = 0
            self.tenants.clear()
            self._turns.clear()
            self._late.clear()

    def tidy(self) -> None:
        """Drop the dead in front. Drop all of them once `by_urgency` is more than four times as long as what waits,
        or more were discarded than wait, by `SLACK` in either case."""
        self.by_urgency.drop_dead()
        if len(self.by_urgency) <= 4 * self.waiting + SLACK and self._discarded <= self.waiting + SLACK:
            return
        self._discarded = 0
        self.by_urgency.compact()
        self._turns = deque([token for token in self._turns if self._has_some(token.tenant)])
        self._late = [late for late in self._late if self._has_some(late[2].tenant)]
        heapify(self._late)
        names = [token.tenant for token in (*self._turns, *(late[2] for late in self._late))]
        self.tenants = {name: self.tenants[name] for name in names}

    def _has_some(self, tenant: str) -> bool:
        """Whether that tenant has any request left that waits."""
        found = self.tenants[tenant]
        if isinstance(found, Ordered):
            found.compact()
            return len(found) > 0
        return found.waiting


def _counted(request: Queued) -> float:
    """What a request counts for in virtual time: its cost, or 1 if it costs nothing, since it fills a batch too."""
    return request.cost or 1.0
