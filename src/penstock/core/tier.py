"""The requests of one tier: its tenants take turns, each with its earliest deadline first (SPEC C1, C2).

Whose turn it is goes by virtual time (start-time fair queueing): a tenant that was served comes again when the
others have had as much, by cost, whatever each has queued. Whoever comes, or comes again, is nearly always behind
all others (always, where requests cost the same): turns are a plain queue, with a heap for the exceptions.
Most tenants have one request waiting at a time, and there are thousands: it stands for its tenant, and a queue is
made for the second one only.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from math import inf

from penstock.core.line import Line
from penstock.core.ordered import Ordered
from penstock.types import Request, Seconds

SLACK = 512  # dead entries not worth compacting for


class Backlog:
    """Of a tenant with more than one request."""

    __slots__ = ("queue", "waiting")

    def __init__(self) -> None:
        self.queue = Ordered()  # by deadline
        self.waiting = 0

    def add(self, request: Request, sequence: int) -> None:
        self.queue.push((request.deadline, sequence, request))
        self.waiting += request.waiting


Turn = tuple[float, int, Request]  # by virtual time, then in the order they came; of that request's tenant


class Tier:
    __slots__ = (
        "_clock", "_discarded", "_late", "_sequence", "_turns", "line", "start", "tenants", "virtual", "waiting",
        "weight",
    )  # fmt: skip

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.waiting = 0
        self.virtual = 0.0  # its own among the tiers: how much it has had, by its weight
        self.start = 0.0  # the same, before it was served last
        self.line = Line()
        self.tenants: dict[str, Request | Backlog] = {}  # the dead included, until their turn comes
        self._turns: deque[Turn] = deque()
        self._late: list[Turn] = []  # a heap of those that were not the last when they came
        self._clock = 0.0  # virtual time of the tenant served last
        self._sequence = 0
        self._discarded = 0  # since everything was compacted: the dead among the tenants'

    def push(self, request: Request) -> None:
        self.waiting += 1
        self.line.push(request)
        self._sequence = sequence = self._sequence + 1
        name = request.tenant
        found = self.tenants.get(name)
        if found is None:
            self.tenants[name] = request
            # One cost behind the clock: a tenant that comes back again and again with one request takes its turn
            # like the others instead of going first each time.
            self._queue((self._clock + (request.cost or 1.0), sequence, request))
            return
        if isinstance(found, Request):
            only, found = found, Backlog()
            found.add(only, sequence)
            self.tenants[name] = found
        found.add(request, sequence)

    def discard(self, request: Request) -> None:
        """It waits no longer."""
        self.waiting -= 1
        self._discarded += 1
        found = self.tenants[request.tenant]
        if isinstance(found, Backlog):
            found.waiting -= 1

    def serve(
        self, taken: list[Request], count: int, room: float, until: float, now: Seconds, ageing: Seconds
    ) -> float:
        """Add the next to `taken`, up to `count` of them and as long as this tier's virtual time is below `until`,
        if their cost fits in `room`. Gives what they cost. Something must wait. It ages with the first of them."""
        if until == inf and len(self.tenants) == 1:
            return self._serve_only(taken, count, room, now, ageing)
        tenants, turns = self.tenants, self._turns
        start = virtual = self.virtual
        step = 0.0  # of the virtual time, for each unit of cost
        before, spent = len(taken), 0.0
        last = before + self.waiting
        if last > count:
            last = count
        while len(taken) < last:
            turn = self._next() if self._late else turns.popleft()
            request = turn[2]
            found = tenants.pop(request.tenant)
            if found is not request:  # stands for a backlog
                assert isinstance(found, Backlog)
                first = found.queue.first()
                if first is None:
                    continue
                request = first[2]
            elif not request.waiting:
                continue
            cost = request.cost
            if spent + cost > room and taken:
                tenants[request.tenant] = found
                turns.appendleft(turn)  # what was next still is, and so before all others
                break
            request.waiting = False
            taken.append(request)
            spent += cost
            share = cost or 1.0  # one that costs nothing still takes a place
            self._clock = turn[0]
            if found is not request:
                found.waiting -= 1
                if found.waiting:
                    tenants[request.tenant] = found
                    self._queue((turn[0] + share, turn[1], request))
            start = virtual
            if not step:
                step = 1.0 / (self.weight * (1.0 + max(0.0, now - request.arrival) / ageing))
            virtual += share * step
            if virtual >= until:
                break
        self.start, self.virtual = start, virtual
        self.waiting -= len(taken) - before
        return spent

    def _serve_only(
        self, taken: list[Request], count: int, room: float, now: Seconds, ageing: Seconds
    ) -> float:
        """As `serve`, where all that waits is one tenant's: nobody to be fair to, and the books are kept once."""
        turn = self._next()
        name = turn[2].tenant
        found = self.tenants[name]
        spent = share = 0.0
        before = len(taken)
        for request in [found] if isinstance(found, Request) else found.queue.each():
            cost = request.cost
            if taken and (spent + cost > room or len(taken) == count):
                break
            request.waiting = False
            taken.append(request)
            spent += cost
            share += cost or 1.0
        number = len(taken) - before
        if number:
            last = taken[-1].cost or 1.0
            age = max(0.0, now - taken[before].arrival)
            weight = self.weight * (1.0 + age / ageing)
            self.virtual += share / weight
            self.start = self.virtual - last / weight
            self._clock = turn[0] + share - last
            self.waiting -= number
        if isinstance(found, Backlog):
            found.waiting -= number
        if self.waiting:
            self._queue((turn[0] + share, turn[1], turn[2]))
        else:
            del self.tenants[name]
        return spent

    def _queue(self, turn: Turn) -> None:
        turns = self._turns
        if not turns or turn[0] >= turns[-1][0]:
            turns.append(turn)
        else:
            heappush(self._late, turn)

    def _next(self) -> Turn:
        """Taken out; there must be one."""
        late, turns = self._late, self._turns
        if late and (not turns or late[0] < turns[0]):
            return heappop(late)
        return turns.popleft()

    def begin(self, clock: float) -> None:
        """Nobody has waited here until now: an absent tier saves up no claim on the past."""
        self.virtual = max(self.virtual, clock)
        self.line.clear()
        if self._discarded:
            self._discarded = 0
            self.tenants.clear()
            self._turns.clear()
            self._late.clear()

    def tidy(self) -> None:
        """Drop the dead in front; compact once the others, which stand behind the living, outnumber those."""
        self.line.drop_dead()
        if len(self.line) <= 4 * self.waiting + SLACK and self._discarded <= self.waiting + SLACK:
            return
        self._discarded = 0
        self.line.compact()
        self._turns = deque([turn for turn in self._turns if self._has_some(turn)])
        self._late = [turn for turn in self._late if self._has_some(turn)]
        heapify(self._late)
        names = [turn[2].tenant for turns in (self._turns, self._late) for turn in turns]
        self.tenants = {name: self.tenants[name] for name in names}

    def _has_some(self, turn: Turn) -> bool:
        """Whether that tenant has anything left."""
        found = self.tenants[turn[2].tenant]
        if isinstance(found, Request):
            return found.waiting
        found.queue.compact()
        return len(found.queue) > 0
