"""How much each tenant may ask, where one process sees all of it: a `penstock.quota.Limiter`. The gateway of
`penstock serve` asks it about every request. Over Redis `adapters/redis/records/quotas.py` takes its place.

A minute is any sixty seconds, not one that starts on the full minute: what was let in is counted in spans of half a
second, and a span counts until its last instant is a minute old. So a minute never holds more than the limit, and a
tenant that always asks for more gets at least 60 / 60.5 of it: exact within 1 %.
A burst limit, if there is one, is a bucket that refills at the pace of the minute (the generic cell rate algorithm:
one number, the time at which the bucket will be full).

Tenants nobody has heard of for a minute are forgotten, since nothing that they did still counts. Accounts stand in
two generations: an account that is asked for moves to the younger one, and the elder is dropped as a whole. If more
tenants than `max_tenants` come within a minute, the generations change early. A tenant that was forgotten so begins
a new minute, unless somebody (an identity, a request) still holds its account.
"""

from collections import deque
from collections.abc import Mapping
from math import inf
from weakref import WeakValueDictionary

from penstock.errors import OverQuota
from penstock.quota import MINUTE, Limits, over_quota
from penstock.types import Seconds

SPANS = 2  # spans in a second
COUNTED = int(MINUTE * SPANS) + 1  # spans that count, the current one included
MEMORY = MINUTE + 1.0 / SPANS  # seconds after which nothing that a tenant did counts any more
ROUNDING = 1e-9  # seconds: covers rounding errors
SHORTEST = 0.001  # seconds: the shortest wait that is worth telling
LET_GO = 8  # idle accounts that are emptied whenever another one is remembered
UNCOUNTED = 10**9  # stands for how many requests remain if the minute is not limited
NEWEST = 0.2  # weight of the newest gap between two answers


class TenantAccount:
    """An `Account`, and all that is known of its tenant: there is one for each."""

    __slots__ = (
        "__weakref__", "_answered", "_before", "_burst", "_close_look_below", "_ended", "_full_at", "_gap",
        "_in_flight", "_interval", "_limiter", "_most", "_noted", "_span", "_total", "_until",
        "_waiting_since", "_window", "generation", "limit", "limits", "remaining", "reset_at", "tenant",
    )  # fmt: skip

    def __init__(self, limiter: "RateLimiter", tenant: str, limits: Limits) -> None:
        self.tenant = tenant
        self.generation = -1  # the generation in which it was last asked for
        self.remaining = 0
        self._until = -inf  # when the span in the making ends
        self.reset_at = 0.0  # when the first span that counts no longer does
        self._limiter = limiter
        # The spans before the one in the making, the oldest first: each a pair of span and count.
        self._window: deque[list[int]] = deque()
        self._span = -1  # the span in the making
        self._full_at = -inf  # when the burst bucket is full again
        self._interval = 0.0  # seconds in which the burst bucket gains one
        self._gap = 0.0  # seconds between two answers, usually, while no more may be in flight
        # What follows was true at the last close look.
        self._noted = 0  # `remaining`
        self._in_flight = 0  # requests in flight
        self._total = 0  # requests in all spans that count
        self._before = 0  # requests in the spans before the one in the making
        self._waiting_since = 0.0  # when a request in flight was last answered, or the first of them came
        # What follows has happened since the last close look.
        self._answered = 0.0  # when a request in flight was last answered
        self._ended = 0  # how many requests were answered
        self._hold_to(limits)

    def _hold_to(self, limits: Limits) -> None:
        self.limits = limits
        self.limit = limits.requests_per_minute
        self._burst = limits.burst  # how many may come at once
        self._most = inf if limits.in_flight is None else limits.in_flight  # how many may be in flight
        # The next request is looked at closely unless more than this remain.
        self._close_look_below: float = self.remaining

    def hold_to(self, limits: Limits, remaining: int) -> None:
        """Hold the tenant to these limits from now on, and say that so many remain of them until one is let in."""
        self._catch_up()
        self.remaining = self._noted = remaining
        self._hold_to(limits)

    @property
    def in_flight(self) -> int:
        return max(0, self._in_flight + self._noted - self.remaining - self._ended)

    def take(self, now: Seconds) -> OverQuota | None:
        # No limit is near: the request need only be counted.
        if self.remaining > self._close_look_below and now < self._until:
            self.remaining -= 1
            return None
        return self.take_closely(now)

    def take_closely(self, now: Seconds) -> OverQuota | None:
        """Do what `take` promises when a limit may be near."""
        self._catch_up()
        if now >= self._until:
            self._begin_span(now)
        in_flight, limit, burst = self._in_flight, self.limit, self._burst
        if not in_flight:
            self._answered = self._waiting_since = now
        room = self._most - in_flight
        if room <= 0:
            # The wait is as long as it usually takes until a request ends, or as long again as none has ended (or
            # up to half a second more, if the first of them was let in without a close look).
            wait = max(self._gap, now - self._answered, SHORTEST)
            return over_quota(wait, limit, wait, self.limits.in_flight)
        remaining = UNCOUNTED
        if limit is not None:
            remaining = limit - self._total - 1
            if remaining < 0:
                wait = self.reset_at - now
                return over_quota(wait, limit, wait)
            if burst is not None:
                self._interval = MINUTE / limit
                full_at = max(self._full_at, now)
                wait = full_at - now - (burst - 1) * self._interval
                if wait > ROUNDING:
                    return over_quota(wait, limit, wait)
                self._full_at = full_at + self._interval
                remaining = min(remaining, int(ROUNDING - wait / self._interval))
            self._total += 1
        self._in_flight = in_flight + 1
        self.remaining = self._noted = remaining
        # How many more may come before a limit is met. A bucket refills meanwhile, and is looked at each time.
        self._close_look_below = remaining if burst is not None else max(0, remaining - (room - 1))
        return None

    def release(self, now: Seconds, *, refused: bool = False) -> None:
        if refused:
            self._take_back()
        else:
            self._ended += 1
            self._answered = now

    def _take_back(self) -> None:
        if self.remaining < self._noted:  # as if one of the requests since the last look had not come
            self.remaining += 1
            return
        self._catch_up()
        if not self._in_flight:
            return
        self._in_flight -= 1
        if self.limit is not None:
            self._full_at -= self._interval
            self._give_back()
        if self.remaining > self._close_look_below:  # otherwise the next request is looked at closely anyway
            self.remaining += 1
            self._noted += 1

    def _catch_up(self) -> None:
        """Take in what came and went since the last close look."""
        came, ended = self._noted - self.remaining, self._ended
        in_flight = self._in_flight + came
        if came:
            self._noted = self.remaining
            if self.limit is not None:
                self._total += came
        if ended:
            if in_flight >= self._most:
                self._gap += NEWEST * ((self._answered - self._waiting_since) / ended - self._gap)
            self._waiting_since = self._answered
            self._ended = 0
        self._in_flight = max(0, in_flight - ended)

    def _begin_span(self, now: Seconds) -> None:
        """Begin a new span. What is older than a minute no longer counts."""
        limiter, window, span = self._limiter, self._window, int(now * SPANS)
        if self.generation != limiter.generation or now >= limiter.until:
            limiter.remember(self, now)
        if self._total > self._before:
            window.append([self._span, self._total - self._before])
        while window and window[0][0] <= span - COUNTED:
            self._total -= window.popleft()[1]
        self._before = self._total
        self._span = span
        self._until = limiter.time_of(span + 1)
        self._look_at_oldest()

    def _look_at_oldest(self) -> None:
        oldest = self._window[0][0] if self._window else self._span
        self.reset_at = self._limiter.time_of(oldest + COUNTED)

    def forget(self, now: Seconds) -> None:
        """Forget what the tenant did, if nothing of that still counts. Whoever holds the account may ask again."""
        self._catch_up()
        if now >= self._until + MEMORY and not self._in_flight:
            self._window.clear()
            self._total = self._before = 0

    def _give_back(self) -> None:
        """Note that one of the requests that were let in last does not count."""
        if self._total == self._before:
            if not self._window:
                return
            self._before -= 1
            self._window[-1][1] -= 1
            if not self._window[-1][1]:
                self._window.pop()
                self._look_at_oldest()
        self._total -= 1


class _OtherLimits:
    """An `Account` of a tenant that was met with other limits before: it has keys of two tiers, or is of another
    tier than it was. What it uses counts for both."""

    __slots__ = ("_account", "_limits", "limit", "remaining", "reset_at")

    def __init__(self, account: TenantAccount, limits: Limits) -> None:
        self._account, self._limits = account, limits
        self.limit = limits.requests_per_minute
        self.remaining = 0
        self.reset_at = 0.0

    def take(self, now: Seconds) -> OverQuota | None:
        account = self._account
        limits, remaining = account.limits, account.remaining
        account.hold_to(self._limits, self.remaining)
        denied = account.take(now)
        self.remaining, self.reset_at = account.remaining, account.reset_at
        account.hold_to(limits, remaining)
        return denied

    def release(self, now: Seconds, *, refused: bool = False) -> None:
        account = self._account
        limits, remaining = account.limits, account.remaining
        account.hold_to(self._limits, self.remaining)
        account.release(now, refused=refused)
        account.hold_to(limits, remaining)


class RateLimiter:
    """A `Limiter` for one process, which sees all requests of a tenant."""

    def __init__(self, max_tenants: int = 100_000) -> None:
        self._most = max(1, max_tenants // 2)  # tenants of each generation
        # Every account that one of the generations below holds, or an identity or a request.
        self._all: WeakValueDictionary[str, TenantAccount] = WeakValueDictionary()
        # The two generations, each by tenant.
        self._young: dict[str, TenantAccount] = {}
        self._old: dict[str, TenantAccount] = {}
        # Accounts that are forgotten here; what they hold is let go little by little.
        self._idle: list[TenantAccount] = []
        self._times: dict[int, Seconds] = {}  # by span, when it begins
        self.generation = 0  # the number of the younger generation
        self.until = -inf  # when the younger generation will have had its minute

    def __len__(self) -> int:
        """The tenants that are remembered, whether or not somebody holds their accounts."""
        return len(self._young) + len(self._old)

    def account(self, tenant: str, limits: Limits) -> TenantAccount | _OtherLimits:
        account = self._all.get(tenant)
        if account is None:
            account = self._all[tenant] = TenantAccount(self, tenant, limits)
        return account if account.limits == limits else _OtherLimits(account, limits)

    def hold_to(self, limits: Mapping[Limits, Limits]) -> None:
        """Hold tenants to other limits from now on, by the limits that they had. What they have used counts. A
        tenant of other limits than these may be met with new ones too, which only takes a little longer."""
        for account in list(self._all.values()):
            now = limits.get(account.limits)
            if now is not None:
                account.hold_to(now, 0)

    def time_of(self, span: int) -> Seconds:
        """When a span begins: one number for thousands of tenants, who are all in the same spans."""
        time = self._times.get(span)
        if time is None:
            if len(self._times) > 2 * COUNTED:
                self._times.clear()
            time = self._times[span] = span / SPANS
        return time

    def remember(self, account: TenantAccount, now: Seconds) -> None:
        """Remember an account that is asked for: for a minute at least it is not forgotten."""
        if now >= self.until or len(self._young) >= self._most:
            # An account with requests in flight is not idle, but must not keep the others from being forgotten.
            elder = {name: each for name, each in self._old.items() if each.in_flight}
            self._idle += self._old.values()
            self._old, self._young = self._young, dict(list(elder.items())[: self._most // 2])
            self.generation += 1
            self.until = now + MEMORY
            for each in self._young.values():
                each.generation = self.generation
        for _ in range(min(LET_GO, len(self._idle))):
            self._idle.pop().forget(now)
        self._old.pop(account.tenant, None)
        self._young[account.tenant] = account
        account.generation = self.generation
