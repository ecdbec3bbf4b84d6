"""What one gateway knows of one tenant's quota between two settlements with Redis."""

from math import ceil, inf

from penstock.quota import MINUTE, Limits
from penstock.types import Seconds

TICK = 0.1  # between two settlements of a tenant that runs short
PAUSE = 1.9  # between two of one that has more than three quarters of its minute left
FORGETTING = 0.5  # seconds in which an older demand loses its weight
QUIET, MINUTE_OVER = 30.0, 61.0  # without a request: forgotten with plenty left, or whatever is left
SAVED = 2.0  # seconds' worth of the share that may be saved up while Redis is away
TOLD = 0.01  # of the minute: who has used that much since it was settled is settled at the next tick
SHORT_TRUST = (
    0.01  # part of a minute let in before asking, of a tenant that is short or while nobody has been heard
)
NEWEST = 0.2  # weight of the newest gap between two answers
SHORTEST = 0.001  # wait that is worth telling


class Share:
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
        self.room = equal if trust > SHORT_TRUST else 1  # for requests in flight
        self.left = limits.requests_per_minute or 0  # of the minute, for all gateways
        self.reset_at = now + MINUTE  # when some of what was used no longer counts
        self.more_at = now  # when asking again may help
        self.part = 1.0 / gateways  # of the demand of all gateways
        self.used = 0  # and not yet reported; below nought when what was reported was refused after all
        self.asked = 0  # since it was settled last, denied ones too
        self.asked_at = now
        self.denied = False
        self.demand = 0.0  # requests a second
        self.in_flight = 0
        self.answered = now  # when one of those in flight last was, or the first of them came
        self.gap = 0.0  # between two answers, usually
        self.settled_at = -inf
        self.known_at = self.refilled = now  # met, or settled last

    def adopt(self, limits: Limits, gateways: int) -> None:
        """Other limits than before hold from now on; the allowance follows with the next settlement."""
        self.limits = limits
        self.room = max(self.room, ceil((limits.in_flight or 0) / gateways))

    @property
    def short(self) -> bool:
        limit = self.limits.requests_per_minute
        return limit is not None and 2 * (self.left - self.used) < limit

    @property
    def memory(self) -> Seconds:
        """How long without a request until it may be forgotten: not while that would give it a new allowance."""
        return MINUTE_OVER if self.short else QUIET

    def is_due(self, now: Seconds, *, sweep: bool) -> bool:
        """Whether to settle at this tick; `sweep`: at one at which all are looked at, a second after the last."""
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
        if self.more_at > now:  # nothing is left: no use to ask before there is, but for what is to report
            return self.used > 0
        if self.denied or self.short or 2.0 * self.allowance < self.granted:
            return True
        limit = limits.requests_per_minute
        return limit is not None and self.used >= TOLD * limit

    def wait_for_room(self, now: Seconds) -> Seconds:
        """As long as it usually takes until one in flight goes, or as long again as none has gone."""
        return max(self.gap, now - self.answered, SHORTEST)

    def release(self, now: Seconds, *, refused: bool) -> None:
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

    def settled(self, grant: int, left: int, reset_ms: int, part: float, room: int, now: Seconds) -> None:
        """What Redis says. What was let in while it was being asked (`used`) comes out of the new allowance."""
        self.granted = float(grant)
        self.allowance = self.granted - self.used
        self.left = left
        self.reset_at = now + reset_ms / 1e3
        self.more_at = self.reset_at if grant < 1 else now
        self.part = part
        self.settled_at = self.known_at = self.refilled = now
        self.room = room

    def refill(self, limit: int, gateways: int, now: Seconds) -> None:
        """While Redis is away: the pace of the last known share of the limit, and never nothing."""
        part = max(self.part, 1.0 / (8 * gateways))
        pace = part * limit / MINUTE
        self.allowance = min(max(1.0, SAVED * pace), self.allowance + (now - self.refilled) * pace)
        self.refilled = now
        self.more_at = now + max(0.0, 1.0 - self.allowance) / pace
        self.used = min(self.used, ceil(part * limit))  # what is more than a minute old no longer counts


def before_asking(limits: Limits, gateways: int, trust: float) -> float:
    """What may be let in of a tenant until Redis has been heard on it: `trust` of a minute, at all gateways."""
    part = trust * (limits.requests_per_minute or 0) / gateways
    if limits.burst is not None:
        part = min(part, limits.burst / 2 / gateways)
    return float(max(1, ceil(part)))
