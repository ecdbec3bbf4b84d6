"""Quotas that many gateways keep together. Each gateway decides at once, by the allowance that Redis gave it. The
gateway asks the `SharedLimiter` about every request, as it asks `core/ratelimit.py` where it is alone. `records.py`
makes the limiter.

A gateway lets in as many requests of a tenant as its allowance for the tenant covers. A loop in the background
settles with Redis (`quota_script.py`): it reports what was used, and gets the next allowance. Tenants with plenty
left are settled every two seconds, those that run short at every tick.

How exact a minute is: use is dated half-way between two reports. Reports come at every tick for a tenant that uses
more than a hundredth of its minute in one tick. So a minute may hold about 1 % too much, wherever it begins. A
tenant that spends its minute in a few seconds gets the next one up to 0.3 s late, once.

Until Redis has been asked about a tenant, all gateways together let in `trust` of its minute, and each at least one
request. If the tenant has used more than half of its minute, they let in a hundredth; every gateway hears of such
tenants twice a second. A small `trust` has a price: a tenant that was away for half a minute, and then sends more
than `trust` allows at once, is denied for the few milliseconds until Redis has answered.

Requests in flight: each gateway has room for its part, by demand, of what is free, and always for one. A gateway
that has not asked Redis yet has room for its equal part, or for one if another gateway has more than that. So the
limit is exceeded by at most one for each gateway, and by what a gateway takes in while its room is being made
smaller.

While Redis is away, allowances grow by the gateway's last known part of the limit, and use is reported later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Protocol

from redis.exceptions import RedisError

from penstock.adapters.redis.link.connect import Client, Patience, Store
from penstock.adapters.redis.link.scripts import Argument
from penstock.adapters.redis.records.allotment import SHORT_TRUST, STALE, TICK, Allotment
from penstock.adapters.redis.records.quota_script import SETTLE, SHARE
from penstock.errors import OverQuota
from penstock.ports import Clock
from penstock.quota import Limits
from penstock.types import Seconds

LISTEN = 0.5  # seconds between two calls at most, to hear which tenants are short
SWEEP = 1.0  # seconds between two looks at all tenants, also those without new requests
EAGER = 0.005  # seconds between two settlements at least; for a new tenant we do not wait for the tick
SILENCE_MS = 5_000  # milliseconds of a gateway's silence after which what it holds is free again
MARK = 81.0  # seconds that a tenant counts as short once it was marked
OVERLAP_MS = 1_000  # each call asks again for the marks of these last milliseconds, so that none is missed
UNLIMITED = 10**9  # the minute of tenants that have only a limit on requests in flight
# `trust` of the only gateway: no other lets requests in, and a tenant with less than half left would be marked
# short.
LONE_TRUST = 0.5
MOST = 100  # tenants settled with one call; Redis does nothing else meanwhile, for a millisecond or two


class Settle(Protocol):
    """The script that settles, as it is called. Tests use another function."""

    def __call__(self, client: Client, keys: Sequence[str], args: Sequence[Argument]) -> Awaitable[Any]: ...


class SharedAccount:
    """Implements `quota.Account`, shared with other gateways. The limiter may forget its tenant and meet it anew
    meanwhile, so the account looks the tenant up for each request."""

    __slots__ = ("_limiter", "_limits", "_tenant", "limit", "remaining", "reset_at")

    def __init__(self, limiter: "SharedLimiter", tenant: str, limits: Limits) -> None:
        self._limiter, self._tenant, self._limits = limiter, tenant, limits
        self.limit = limits.requests_per_minute
        self.remaining = 0
        self.reset_at = 0.0

    def take(self, now: Seconds) -> OverQuota | None:
        limits, limiter = self._limits, self._limiter
        allotment = limiter.allotment(self._tenant, limits, now)
        refusal = allotment.take(now, limiter.gateways)
        if refusal is None and self.limit is not None:
            remaining = allotment.left - allotment.used
            if limits.burst is not None:
                remaining = min(remaining, int(allotment.allowance))
            self.remaining = max(0, remaining)
            self.reset_at = allotment.reset_at
        return refusal

    def release(self, now: Seconds, *, refused: bool = False) -> None:
        allotment = self._limiter.known(self._tenant)
        if allotment is not None and allotment.in_flight:
            allotment.release(now, refused=refused)


class SharedLimiter:
    """Implements `ports.records.Quotas`: a `quota.Limiter` shared with other gateways. `run` must be running. Until
    it has reached Redis, all tenants count as short."""

    def __init__(
        self,
        store: Store,
        me: str,
        clock: Clock,
        gateways: Callable[[], int],
        *,
        settle: Settle = SETTLE,
        trust: float = 0.04,  # part of a minute that all gateways together may let in before Redis was asked
        max_tenants: int = 20_000,
    ) -> None:
        self._store, self._me, self._clock, self._settle = store, me, clock, settle
        self._members = gateways
        self._trust, self._most = trust, max_tenants
        self._keys = [f"{{{store.settings.namespace}:quota}}:{part}" for part in ("0", "1", "short")]
        self._allotments: dict[str, Allotment] = {}
        self._asking: dict[str, Allotment] = {}  # the tenants with requests since they were settled last
        self._short: dict[str, Seconds] = {}  # by tenant, until when it counts as short
        self._since: Argument = "-inf"  # marks after this time, on Redis' clock, are still to be heard
        self._heard = self._swept = -inf  # when Redis last answered, and when all tenants were last looked at
        self._new = asyncio.Event()  # set when a tenant has come that Redis has not been asked about

    def __len__(self) -> int:
        return len(self._allotments)

    # ---- deciding ----------------------------------------------------------------------------------------

    def account(self, tenant: str, limits: Limits) -> SharedAccount:
        return SharedAccount(self, tenant, limits)

    def allotment(self, tenant: str, limits: Limits, now: Seconds) -> Allotment:
        """Returns what is known of this tenant, of which a request has come."""
        allotment = self._allotments.get(tenant) or self._meet(tenant, limits, now)
        if not allotment.asked:
            self._asking[tenant] = allotment
        if allotment.limits is not limits:
            allotment.adopt(limits, self.gateways())
        return allotment

    def known(self, tenant: str) -> Allotment | None:
        return self._allotments.get(tenant)

    def _meet(self, tenant: str, limits: Limits, now: Seconds) -> Allotment:
        if len(self._allotments) >= self._most:
            # The tenant that was met first is forgotten; with its next request it is met anew.
            self._drop(next(iter(self._allotments)))
        gateways = self.gateways()
        if now - self._heard > STALE or self._short.get(tenant, -inf) > now:
            trust = min(self._trust, SHORT_TRUST)
        elif gateways == 1:
            trust = max(self._trust, LONE_TRUST)
        else:
            trust = self._trust
        allotment = self._allotments[tenant] = Allotment(limits, gateways, now, trust=trust)
        self._new.set()
        return allotment

    def _drop(self, tenant: str) -> None:
        del self._allotments[tenant]
        self._asking.pop(tenant, None)

    def gateways(self) -> int:
        return max(1, self._members())

    # ---- settling ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Settle until cancelled, whatever Redis does."""
        patience = Patience(f"The quotas of {self._me}")
        while True:
            try:
                await self.settle()
            except (RedisError, OSError, RuntimeError) as error:
                await asyncio.sleep(patience.failed(error))
                continue
            patience.succeeded()
            await asyncio.sleep(EAGER)
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK - EAGER if self._asking else LISTEN):
                    await self._new.wait()

    async def settle(self) -> None:
        """Settle once with every tenant that is due, in a few calls."""
        now = self._clock()
        self._new.clear()
        sweep = now - self._swept >= SWEEP
        candidates = self._allotments if sweep else self._asking
        due = [
            (name, allotment) for name, allotment in candidates.items() if allotment.is_due(now, sweep=sweep)
        ]
        if not due and now - self._heard < LISTEN:
            return
        for first in range(0, max(1, len(due)), MOST):
            await self._settle_some(due[first : first + MOST], now)
        if sweep:
            self._swept = now
            self._short = {name: until for name, until in self._short.items() if until > now}

    async def _settle_some(self, some: Sequence[tuple[str, Allotment]], now: Seconds) -> None:
        gateways = self.gateways()
        arguments: list[Argument] = [self._me, gateways, self._since, SILENCE_MS]
        reports: list[tuple[str, Allotment, int, bool]] = []
        for name, allotment in some:
            stays = (
                allotment.in_flight > 0 or allotment.asked > 0 or now - allotment.asked_at < allotment.memory
            )
            allotment.measure(now)
            limits, demand = allotment.limits, int(allotment.demand * 1000)
            limit = UNLIMITED if limits.requests_per_minute is None else limits.requests_per_minute
            arguments += (name, limit, limits.burst or 0, allotment.used, demand, allotment.in_flight)
            arguments += (limits.in_flight or 0, int(stays))
            reports.append((name, allotment, allotment.used, stays))
            self._asking.pop(name, None)
        told, marks, *answers = await self._settle(self._store.commands, self._keys, arguments)
        self._since, self._heard = told - OVERLAP_MS, now
        for mark in marks:
            self._short[mark.decode(errors="replace")] = now + MARK
        for (name, allotment, used, stays), answer in zip(reports, answers, strict=True):
            grant, left, reset, part, room, *unreadable = answer
            if unreadable:
                why = "what was counted of this tenant could not be read"
                self._store.aside.add("quota", name, why, unreadable[0])
            allotment.reported(used)
            allotment.settled(grant, left, reset, part / SHARE, room, now)
            if not stays and not allotment.asked and self._allotments.get(name) is allotment:
                self._drop(name)
