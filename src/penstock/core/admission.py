"""Which requests a batcher lets in: the queue has the first word (`refusal`), the tiers the last (`tier_gate`).

There is one `Admission` beside each model's batcher. It is asked before a new request is offered to the batcher: by
the gateway where both are one process, by the batcher's process over a bus, and by the simulator. It is not asked
about requests that a batcher inherits from another, or that share the execution of one that was let in.

Nearly always there is room for everybody. So the closer look at one request also yields a bound for those after it:
"while fewer than N wait, let in any request of this tier that has more than T seconds". The bound holds until
something changes: a batch ends, a worker comes or goes, a lane is opened. Then it is worked out anew for the next
request. Only a request beyond its tier's bound is looked at closely. The bound is on the safe side: it never lets
in what a closer look would have refused.
"""

from math import inf

from penstock.core.batcher import Batcher
from penstock.core.capacity import CapacityRules, own_capacity
from penstock.core.forecast import SURE, in_turn
from penstock.core.meters import RateMeter
from penstock.core.refusal import ROOM, AdmissionRules, refusal, refusal_apart, refusal_of_more
from penstock.core.tier_gate import LEAST_LEFT, WINDOW, TierGate
from penstock.errors import Overloaded, Refused
from penstock.types import Request, Seconds


class _Bound:
    """The bound for one tier, within which no closer look at a request is needed."""

    __slots__ = ("again", "changes", "more", "needs", "overtaken", "overtaking", "untold", "waiting")

    def __init__(self) -> None:
        # `Batcher.changes` when the bound was worked out. -1: it was not, and a closer look is due.
        self.changes = -1
        self.again = 0  # once so many wait, the bound is worth working out again
        self.waiting = 0.0  # while fewer than this wait, no closer look is needed
        self.more = 0.0  # how many requests may come before a closer look is due
        self.needs: Seconds = inf  # a request with more time than this needs no closer look
        self.untold = 0  # how many requests were let in of which the tier gate has not been told
        # The part of the capacity that goes to requests which overtake others of their tier.
        self.overtaking = RateMeter(WINDOW)
        # The part of the capacity that a request of this tier may lose while it waits: to others of its tier that
        # overtake it, to lower tiers, and to batches that are refused or set apart. It is that of the time when the
        # bound was worked out.
        self.overtaken = 0.0


class Admission:
    """Lets requests in to one batcher, or says why not."""

    __slots__ = ("_batcher", "_bounds", "_gate", "_max_bytes", "_max_cost", "_max_queue", "_rules")

    def __init__(self, batcher: Batcher, rules: AdmissionRules, capacity_rules: CapacityRules) -> None:
        self._batcher = batcher
        self._max_cost = batcher.rules.max_cost
        self._gate = TierGate(batcher, capacity_rules)
        self._bounds = [_Bound() for _ in batcher.depth.by_tier]
        self._take(rules)

    def _take(self, rules: AdmissionRules) -> None:
        self._rules = rules
        # Beyond these two limits the tenant matters: the room that is left is for those with less than their share.
        self._max_queue = (1.0 - ROOM) * rules.max_queue
        self._max_bytes = (1.0 - ROOM) * rules.max_queue_bytes

    def follow(self, rules: AdmissionRules, capacity_rules: CapacityRules) -> None:
        """Go by these rules from now on. Call this after `Batcher.follow`."""
        self._take(rules)
        self._gate.follow(capacity_rules)
        self._forget_bounds()

    def refusal(self, request: Request, now: Seconds) -> Refused | None:
        """Why this request is not let in, or None if it is."""
        batcher, bound = self._batcher, self._bounds[request.tier]
        if batcher.apart.known and batcher.apart.holds(request, now):
            refused = refusal_apart(batcher, self._rules, request, now)
            batcher.refused[request.tier] += refused is not None
            return refused
        if bound.changes != batcher.changes and bound.changes >= 0:
            self._renew_bound(bound, request, now)
        depth, needs = batcher.depth, bound.needs
        if (
            depth.total < bound.waiting
            and bound.untold < bound.more
            and request.expires - now > needs
            and request.deadline - now > needs
            and request.cost <= self._max_cost
            and depth.bytes + len(request.input) <= self._max_bytes
        ):
            bound.untold += 1
            return None
        return self._look_closer(request, now)

    def let_in(self, like: Request, most: int) -> int:
        """Let in up to `most` requests that come right after a request that was let in, and differ from it in
        nothing but their times. Returns how many: as many as need no closer look."""
        batcher, bound = self._batcher, self._bounds[like.tier]
        depth, time = batcher.depth, min(like.expires, like.deadline) - like.arrival
        if batcher.apart.known or bound.changes != batcher.changes or time <= bound.needs:
            return 0
        bytes_left = self._max_bytes - depth.bytes
        number = min(
            float(most), bound.waiting - depth.total, bound.more - bound.untold, bytes_left // len(like.input)
        )
        number = max(0, int(number))
        bound.untold += number
        return number

    def refusal_of_more(self, request: Request, number: int, now: Seconds) -> Overloaded | None:
        """Returns why `number` more requests like this one, which was let in, cannot all be let in. None if that is
        not sure: then the caller asks for each request."""
        batcher = self._batcher
        if batcher.apart.known and batcher.apart.holds(request, now):
            return None
        refused = refusal_of_more(batcher, self._rules, request, number, now)
        if refused is not None:
            batcher.refused[request.tier] += number
            if request.tier == 0:
                self._gate.turned_away(now)
        return refused

    def _renew_bound(self, bound: _Bound, request: Request, now: Seconds) -> None:
        """Work out a bound again, since something has changed since it was worked out."""
        self._tell_gate(now)
        if request.tier == 0:
            self._gate.note_patience(request, now)
        self._work_out_bound(bound, request.tier, now)

    def _look_closer(self, request: Request, now: Seconds) -> Refused | None:
        self._tell_gate(now)
        was_mixed = self._gate.is_mixed(now)
        bound = self._bounds[request.tier]
        refused: Refused | None = refusal(self._batcher, self._rules, request, now, bound.overtaken)
        if refused is None:
            refused = self._gate.refusal(request, now)
        elif request.tier == 0 and isinstance(refused, Overloaded):
            self._gate.turned_away(now)
        self._mind_tiers(was_mixed, now)
        if refused is not None:
            self._batcher.refused[request.tier] += 1
            return refused
        self._note_overtaking(bound, request, now)
        bound.more -= 1
        if bound.changes < 0 or self._batcher.depth.total >= bound.again:
            self._work_out_bound(bound, request.tier, now)
        return None

    def _note_overtaking(self, bound: _Bound, request: Request, now: Seconds) -> None:
        """Measure how much of the queue of its tier this request goes before."""
        waiting, rate = self._batcher.depth.by_tier[request.tier], own_capacity(self._batcher)
        if waiting and rate:
            before = 1.0 - in_turn(self._batcher, request) / waiting
            if before > 0.0:
                bound.overtaking.add(now, before / rate)

    def _tell_gate(self, now: Seconds) -> None:
        """Tell the tier gate of the requests that were let in without asking it."""
        was_mixed = self._gate.is_mixed(now)
        for tier, bound in enumerate(self._bounds):
            if bound.untold:
                self._gate.let_in(tier, bound.untold, now)
                bound.more -= bound.untold
                bound.untold = 0
        self._mind_tiers(was_mixed, now)

    def _mind_tiers(self, was_mixed: bool, now: Seconds) -> None:
        """Drop all bounds once several tiers are in use. They were worked out while only one was, without the rules
        among tiers."""
        if not was_mixed and self._gate.is_mixed(now):
            self._forget_bounds()

    def _forget_bounds(self) -> None:
        for bound in self._bounds:
            bound.changes, bound.waiting = -1, 0.0

    def _work_out_bound(self, bound: _Bound, tier: int, now: Seconds) -> None:
        """Work out the bound for a tier."""
        batcher, gate = self._batcher, self._gate
        curve, fleet = batcher.curve, batcher.fleet
        bound.changes = batcher.changes
        # The bound is worked out for twice as many as wait now: the more may wait, the more time each must have.
        bound.again = 2 * (batcher.waiting + curve.best_size)
        bound.waiting = 0.0
        before = bound.overtaking.rate(now) + gate.kept_from(tier, now) + batcher.used_up(now)
        bound.overtaken = min(1.0 - LEAST_LEFT, before)
        if not (fleet.healthy or fleet.loan) or batcher.lanes.crowded:
            return
        most, bound.more = gate.room(tier, now)
        waiting = min(bound.again, most, self._max_queue)
        # A request with this much time is in time even behind everything that waits, if all workers just started.
        rate = curve.best_size * fleet.reach * (1.0 - bound.overtaken)
        last = curve.worst + curve.best_seconds * waiting / (rate * SURE)
        bound.needs = max(last, gate.needs(tier, waiting, now))
        bound.waiting = waiting - batcher.delivery.waiting
