"""How much each tenant may ask, where one process sees all of it (SPEC D2).

A minute is any sixty seconds, not one that starts on the full minute: what was let in is counted in slots of half a
second, and a slot counts until its last instant is a minute old. So a minute never holds more than the limit, and a
tenant that always asks for more gets at least 60 / 60.5 of it: exact within 1 %.
A burst limit, if there is one, is a bucket that refills at the pace of the minute (the generic cell rate algorithm:
one number, the time at which the bucket will be full).
Tenants nobody has heard of for a minute are forgotten: nothing they did still counts. They stand in two
generations, and the elder goes as a whole; one that is asked for moves to the younger. If more tenants than
`max_tenants` come within a minute, the generations change early, and those forgotten begin a new minute.
"""

from collections import deque
from math import inf

from penstock.quota import MINUTE, UNCOUNTED, Allowed, Denied, Limits
from penstock.types import Seconds

SLOTS = 2  # a second
COUNTED = int(MINUTE * SLOTS) + 1  # slots that count, the one in the making included
MEMORY = MINUTE + 1.0 / SLOTS
ROUNDING = 1e-9
SHORTEST = 0.001  # wait that is worth telling
NEWEST = 0.2  # weight of the newest gap between two answers


class _Tenant:
    __slots__ = (
        "answered", "count", "ends", "full_at", "gap", "in_flight", "interval", "leaves", "slot", "total", "window",
    )  # fmt: skip

    def __init__(self, now: Seconds) -> None:
        self.window: deque[list[int]] = deque()  # [slot, how many] of those before, the oldest first
        self.slot = -1  # the one in the making
        self.ends = -inf  # when it does
        self.leaves = 0.0  # when the first that counts no longer does
        self.count = 0  # in this slot
        self.total = 0  # in all that count
        self.full_at = -inf  # when the burst bucket is full again
        self.interval = 0.0  # in which it gains one
        self.in_flight = 0
        self.answered = now  # when one of those in flight last was, or the first of them came
        self.gap = 0.0  # between two answers, usually

    def turn(self, slot: int) -> None:
        """A new slot begins; what is older than a minute no longer counts."""
        window = self.window
        if self.count:
            window.append([self.slot, self.count])
            self.count = 0
        while window and window[0][0] <= slot - COUNTED:
            self.total -= window.popleft()[1]
        self.slot = slot
        self.ends = (slot + 1) / SLOTS
        self._look_at_oldest()

    def _look_at_oldest(self) -> None:
        oldest = self.window[0][0] if self.window else self.slot
        self.leaves = (oldest + COUNTED) / SLOTS

    def give_back(self) -> None:
        """One of those that were let in last does not count."""
        if self.count:
            self.count -= 1
        elif self.window:
            self.window[-1][1] -= 1
            if not self.window[-1][1]:
                self.window.pop()
                self._look_at_oldest()
        else:
            return
        self.total -= 1


class RateLimiter:
    def __init__(self, max_tenants: int = 100_000) -> None:
        self._most = max(1, max_tenants // 2)  # of each generation
        self._young: dict[str, _Tenant] = {}
        self._old: dict[str, _Tenant] = {}
        self._until = -inf  # when the younger generation will have had its minute

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def take(self, tenant: str, limits: Limits, now: Seconds) -> Allowed | Denied:
        known = self._young.get(tenant)
        if known is None or now >= self._until:
            known = self._remember(tenant, now)
        most, in_flight = limits.in_flight, known.in_flight
        if not in_flight:
            known.answered = now
        if most is not None and in_flight >= most:
            # As long as it usually takes until one goes, or as long again as none has gone.
            wait = max(known.gap, now - known.answered, SHORTEST)
            return Denied(wait, limits.requests_per_minute, 0, wait, most)
        limit = limits.requests_per_minute
        if limit is None:
            known.in_flight = in_flight + 1
            return UNCOUNTED
        if now >= known.ends:
            known.turn(int(now * SLOTS))
        remaining = limit - known.total - 1
        if remaining < 0:
            wait = known.leaves - now
            return Denied(wait, limit, 0, wait)
        if limits.burst is not None:
            known.interval = MINUTE / limit
            full_at = max(known.full_at, now)
            wait = full_at - now - (limits.burst - 1) * known.interval
            if wait > ROUNDING:
                return Denied(wait, limit, 0, wait)
            known.full_at = full_at + known.interval
            remaining = min(remaining, int(ROUNDING - wait / known.interval))
        known.total += 1
        known.count += 1
        known.in_flight = in_flight + 1
        return Allowed(limit, remaining, known.leaves - now)

    def release(self, tenant: str, now: Seconds, *, refused: bool = False) -> None:
        known = self._young.get(tenant) or self._old.get(tenant)
        if known is None or not known.in_flight:  # forgotten when there were too many
            return
        known.in_flight -= 1
        if refused:
            known.full_at -= known.interval
            known.give_back()
        else:
            known.gap += NEWEST * (now - known.answered - known.gap)
            known.answered = now

    def _remember(self, tenant: str, now: Seconds) -> _Tenant:
        if now >= self._until or len(self._young) >= self._most:
            # Whoever waits for an answer is not idle, but must not keep the others from being forgotten.
            elder = {name: each for name, each in self._old.items() if each.in_flight}
            self._old, self._young = self._young, dict(list(elder.items())[: self._most // 2])
            self._until = now + MEMORY
        known = self._young.get(tenant) or self._old.pop(tenant, None) or _Tenant(now)
        self._young[tenant] = known
        return known
