"""How much each tenant may ask, where one process sees all of it (SPEC D2).

A minute is any sixty seconds, not one that starts on the full minute: what was let in is counted in slots of half a
second, and a slot counts until its last instant is a minute old. So a minute never holds more than the limit, and a
tenant that always asks for more gets at least 60 / 60.5 of it: exact within 1 %.
A burst limit, if there is one, is a bucket that refills at the pace of the minute (the generic cell rate algorithm:
one number, the time at which the bucket will be full).
Tenants nobody has heard of for a minute are forgotten: nothing they did still counts. They stand in two
generations, and the elder goes as a whole; one that is asked for moves to the younger. If more tenants than
`max_tenants` come within a minute, the generations change early, and those forgotten begin a new minute; unless
somebody holds an account of theirs, who has what they used.
"""

from collections import deque
from math import inf
from weakref import WeakValueDictionary

from penstock.quota import MINUTE, Denied, Limits
from penstock.types import Seconds

SLOTS = 2  # a second
COUNTED = int(MINUTE * SLOTS) + 1  # slots that count, the one in the making included
MEMORY = MINUTE + 1.0 / SLOTS
ROUNDING = 1e-9
SHORTEST = 0.001  # wait that is worth telling
NEWEST = 0.2  # weight of the newest gap between two answers


class _Use:
    """What a tenant has used, whatever its limits."""

    __slots__ = (
        "__weakref__", "answered", "before", "ends", "full_at", "gap", "generation", "in_flight", "interval",
        "leaves", "slot", "tenant", "total", "window",
    )  # fmt: skip

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.generation = -1  # in which it was last asked for
        self.window: deque[list[int]] = deque()  # [slot, how many] of those before, the oldest first
        self.slot = -1  # the one in the making
        self.ends = -inf  # when it does
        self.leaves = 0.0  # when the first that counts no longer does
        self.total = 0  # in all slots that count,
        self.before = 0  # and in those before this one
        self.full_at = -inf  # when the burst bucket is full again
        self.interval = 0.0  # in which it gains one
        self.in_flight = 0
        self.answered = 0.0  # when one of those in flight last was, or the first of them came
        self.gap = 0.0  # between two answers, usually

    def turn(self, slot: int) -> None:
        """A new slot begins; what is older than a minute no longer counts."""
        window = self.window
        if self.total > self.before:
            window.append([self.slot, self.total - self.before])
        while window and window[0][0] <= slot - COUNTED:
            self.total -= window.popleft()[1]
        self.before = self.total
        self.slot = slot
        self.ends = (slot + 1) / SLOTS
        self._look_at_oldest()

    def _look_at_oldest(self) -> None:
        oldest = self.window[0][0] if self.window else self.slot
        self.leaves = (oldest + COUNTED) / SLOTS

    def give_back(self) -> None:
        """One of those that were let in last does not count."""
        if self.total == self.before:
            if not self.window:
                return
            self.before -= 1
            self.window[-1][1] -= 1
            if not self.window[-1][1]:
                self.window.pop()
                self._look_at_oldest()
        self.total -= 1


class TenantAccount:
    """An `Account`."""

    __slots__ = ("_limiter", "_limits", "_most", "_use", "limit", "remaining", "reset_at")

    def __init__(self, limiter: "RateLimiter", use: _Use, limits: Limits) -> None:
        self._limiter, self._use, self._limits = limiter, use, limits
        self._most = inf if limits.in_flight is None else limits.in_flight
        self.limit = limits.requests_per_minute
        self.remaining = 0
        self.reset_at = 0.0

    def take(self, now: Seconds) -> Denied | None:
        use, limiter = self._use, self._limiter
        if use.generation != limiter.generation or now >= limiter.until:
            limiter.remember(use, now)
        in_flight = use.in_flight
        if not in_flight:
            use.answered = now
        if in_flight >= self._most:
            # As long as it usually takes until one goes, or as long again as none has gone.
            wait = max(use.gap, now - use.answered, SHORTEST)
            return Denied(wait, self.limit, wait, self._limits.in_flight)
        limit = self.limit
        if limit is not None:
            if now >= use.ends:
                use.turn(int(now * SLOTS))
            remaining = limit - use.total - 1
            if remaining < 0:
                wait = use.leaves - now
                return Denied(wait, limit, wait)
            burst = self._limits.burst
            if burst is not None:
                use.interval = MINUTE / limit
                full_at = max(use.full_at, now)
                wait = full_at - now - (burst - 1) * use.interval
                if wait > ROUNDING:
                    return Denied(wait, limit, wait)
                use.full_at = full_at + use.interval
                remaining = min(remaining, int(ROUNDING - wait / use.interval))
            use.total += 1
            self.remaining = remaining
            self.reset_at = use.leaves
        use.in_flight = in_flight + 1
        return None

    def release(self, now: Seconds, *, refused: bool = False) -> None:
        use = self._use
        if not use.in_flight:
            return
        use.in_flight -= 1
        if refused:
            use.full_at -= use.interval
            use.give_back()
        else:
            use.gap += NEWEST * (now - use.answered - use.gap)
            use.answered = now


class RateLimiter:
    """A `Limiter`."""

    def __init__(self, max_tenants: int = 100_000) -> None:
        self._most = max(1, max_tenants // 2)  # of each generation
        self._all: WeakValueDictionary[str, _Use] = WeakValueDictionary()  # held below, or by an account
        self._young: dict[str, _Use] = {}
        self._old: dict[str, _Use] = {}
        self.generation = 0
        self.until = -inf  # when the younger generation will have had its minute

    def __len__(self) -> int:
        """Tenants that are remembered whether somebody holds an account or not."""
        return len(self._young) + len(self._old)

    def account(self, tenant: str, limits: Limits) -> TenantAccount:
        use = self._all.get(tenant)
        if use is None:
            use = self._all[tenant] = _Use(tenant)
        return TenantAccount(self, use, limits)

    def remember(self, use: _Use, now: Seconds) -> None:
        """It is asked for: for a minute at least it is not forgotten."""
        if now >= self.until or len(self._young) >= self._most:
            # Whoever waits for an answer is not idle, but must not keep the others from being forgotten.
            elder = {name: each for name, each in self._old.items() if each.in_flight}
            self._old, self._young = self._young, dict(list(elder.items())[: self._most // 2])
            self.generation += 1
            self.until = now + MEMORY
            for each in self._young.values():
                each.generation = self.generation
        self._old.pop(use.tenant, None)
        self._young[use.tenant] = use
        use.generation = self.generation
