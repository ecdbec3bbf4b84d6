"""What one gateway knows of one tenant's quota between two settlements with Redis: what it may still let in, and
what it has to report. The gateway's limiter (`quotas.py`) keeps one for each tenant, and says what an allowance, a
room and a settlement are. Pure: it asks nobody."""

from collections.abc import Callable
from math import ceil, inf

from penstock.errors import OverQuota
from penstock.quota import MINUTE, Limits, over_quota
from penstock.types import Seconds

TICK = 0.1  # seconds between two settlements of a tenant that runs short
STALE = 2.5  # seconds without an answer from Redis after which it counts as away
# Seconds between two settlements of a tenant that has more than three quarters of its minute left.
PAUSE = 1.9
FORGETTING = 0.5  # seconds in which an older demand loses its weight
# Seconds without a request after which a tenant is forgotten: if it has plenty left, and in any case.
QUIET, MINUTE_OVER = 30.0, 61.0
SAVED = 2.0  # while Redis is away, a tenant may save up its share of so many seconds
# A tenant that has used this part of its minute since it was settled is settled at the next tick.
TOLD = 0.01
# The part of a minute that may be let in before Redis is asked: of a tenant that is short, or while Redis is away.
SHORT_TRUST = 0.01
NEWEST = 0.2  # weight of the newest gap between two answers
SHORTEST = 0.001  # seconds: the shortest wait that is worth telling


class Allotment:
    """One tenant's quota at one gateway."""

    __slots__ = (
        "allowance",
        "answered",
        "asked",
        "asked_at",
        "demand",
        "denied",
        "gap",
        "granted",
        "in_flight",
        "known_at",
        "left",
        "limits",
        "more_at",
        "part",
        "refilled",
        "reset_at",
        "room",
        "settled_at",
        "used",
    )

    def __init__(self, limits: Limits, gateways: int, now: Seconds, *, trust: float) -> None:
        self.limits = limits
        self.allowance = self.granted = before_asking(limits, gateways, trust)
        equal = ceil((limits.in_flight or 0) / gateways)
        self.room = equal if trust > SHORT_TRUST else 1  # how many requests may be in flight
        self.left = limits.requests_per_minute or 0  # what is left of the minute, for all gateways
        self.reset_at = now + MINUTE  # when some of what was used no longer counts
        self.more_at = now  # when asking again may help
        self.part = 1.0 / gateways  # our part of the demand of all gateways
        self.used = 0  # requests let in and not yet reported; negative if reported ones were then refused
        self.asked = 0  # requests since the last settlement, denied ones included
        self.asked_at = now
        self.denied = False  # whether one was denied since the last settlement
        self.demand = 0.0  # requests a second
        self.in_flight = 0
        self.answered = now  # when a request in flight was last answered, or the first of them came
        self.gap = 0.0  # seconds between two answers, usually
        self.settled_at = -inf
        self.known_at = self.refilled = now  # when the tenant was met, and when its allowance last grew

    def adopt(self, limits: Limits, gateways: int) -> None:
        """Hold the tenant to other limits from now on. The allowance changes with the next settlement."""
        self.limits = limits
        self.room = max(self.room, ceil((limits.in_flight or 0) / gateways))

    @property
    def short(self) -> bool:
        """Whether less than half of the tenant's minute is left."""
        limit = self.limits.requests_per_minute
        return limit is not None and 2 * (self.left - self.used) < limit

    @property
    def memory(self) -> Seconds:
        """Returns after how long without a request the tenant may be forgotten: never while it would gain a new
        allowance by being forgotten."""
        return MINUTE_OVER if self.short else QUIET

    def is_due(self, now: Seconds, *, sweep: bool) -> bool:
        """Returns whether to settle at this tick. `sweep`: this tick is one at which all tenants are looked at."""
        if self.settled_at == -inf:
            return True
        age = now - self.settled_at
        if age < TICK * 0.9:
            return False
        limits = self.limits
        if limits.in_flight is not None and 2 * self.in_flight > self.room:
            return True
        if sweep:
            limit = limits.requests_per_minute
            plenty = limit is None or 4 * (self.left - self.used) > 3 * limit
            spare = limits.in_flight is not None and 4 * self.in_flight < self.room
            return age >= PAUSE or not plenty or spare
        if self.more_at > now:  # nothing is left: asking is of no use before there is, except to report
            return self.used > 0
        if self.denied or self.short or 2.0 * self.allowance < self.granted:
            return True
        limit = limits.requests_per_minute
        return limit is not None and self.used >= TOLD * limit

    def wait_for_room(self, now: Seconds) -> Seconds:
        """Returns how long to wait until a request in flight may end: the usual time between two ends, or, if none
        has ended for longer, as long again."""
        return max(self.gap, now - self.answered, SHORTEST)

    def take(self, now: Seconds, gateways: Callable[[], int]) -> OverQuota | None:
        """Count one more request. Returns why it is not let in; None if it is. `gateways`: says how many there are;
        it is only called while Redis is away."""
        self.asked += 1
        limit, most = self.limits.requests_per_minute, self.limits.in_flight
        if most is not None and self.in_flight >= self.room:
            wait = self.wait_for_room(now)
            return over_quota(wait, limit, wait, most)
        if limit is not None:
            if self.allowance < 1.0 and now - self.known_at > STALE:
                self.refill(limit, gateways(), now)
            if self.allowance < 1.0:
                self.denied = True
                wait = max(TICK, self.more_at - now)
                return over_quota(wait, limit, wait)
            self.allowance -= 1.0
            self.used += 1
        if not self.in_flight:
            self.answered = now
        self.in_flight += 1
        return None

    def release(self, now: Seconds, *, refused: bool) -> None:
        """Note that a request is no longer in flight. `refused`: whether it was refused after it was counted."""
        self.in_flight -= 1
        if refused:
            if self.limits.requests_per_minute is not None:
                self.used -= 1
                self.allowance += 1.0
        else:
            self.gap += NEWEST * (now - self.answered - self.gap)
            self.answered = now

    def measure(self, now: Seconds) -> None:
        """Take in how much was asked since the last settlement."""
        span = now - self.settled_at
        if span == inf:
            self.demand = self.asked / TICK
        else:
            self.demand += min(1.0, span / FORGETTING) * (self.asked / max(span, SHORTEST) - self.demand)
        if self.asked:
            self.asked_at = now
        self.asked = 0
        self.denied = False

    def reported(self, used: int) -> None:
        """Note that Redis has heard of so many requests that were let in."""
        self.used -= used

    def settled(self, grant: int, left: int, reset_ms: int, part: float, room: int, now: Seconds) -> None:
        """Take in what Redis answered. Requests that were let in while Redis was asked (`used`) count against the
        new allowance."""
        self.granted = float(grant)
        self.allowance = self.granted - self.used
        self.left = left
        self.reset_at = now + reset_ms / 1e3
        self.more_at = self.reset_at if grant < 1 else now
        self.part = part
        self.settled_at = self.known_at = self.refilled = now
        self.room = room

    def refill(self, limit: int, gateways: int, now: Seconds) -> None:
        """While Redis is away, let in at the pace of the last known share of the limit, and never nothing."""
        part = max(self.part, 1.0 / (8 * gateways))
        pace = part * limit / MINUTE
        self.allowance = min(max(1.0, SAVED * pace), self.allowance + (now - self.refilled) * pace)
        self.refilled = now
        self.more_at = now + max(0.0, 1.0 - self.allowance) / pace
        # What was used more than a minute ago no longer counts.
        self.used = min(self.used, ceil(part * limit))


def before_asking(limits: Limits, gateways: int, trust: float) -> float:
    """Returns how many requests of a tenant this gateway may let in until Redis has answered for it: its part of
    `trust` of a minute."""
    part = trust * (limits.requests_per_minute or 0) / gateways
    if limits.burst is not None:
        part = min(part, limits.burst / 2 / gateways)
    return float(max(1, ceil(part)))
