"""What a limiter says to one request, in a form that tests can compare."""

from typing import NamedTuple

from penstock.core.ratelimit import TenantAccount
from penstock.quota import Limiter, Limits


class Denied(NamedTuple):
    retry_after: float
    limit: int | None
    reset: float
    in_flight: int | None = None  # the limit on those, where that is what was exceeded


class Allowed(NamedTuple):
    limit: int | None
    remaining: int
    reset: float


UNCOUNTED = Allowed(None, 0, 0.0)


_held_to: dict[tuple[int, str], Limits] = {}  # by limiter and tenant: what they were asked with last


def take(
    limiter: Limiter, tenant: str, limits: Limits, now: float, *, always_ask: bool = False
) -> Allowed | Denied:
    """`always_ask`: without the short way, which an account takes while no limit is near."""
    _held_to[id(limiter), tenant] = limits
    account = limiter.account(tenant, limits)
    ask = account.take_closely if always_ask and isinstance(account, TenantAccount) else account.take
    error = ask(now)
    if error is not None:
        assert error.retry_after is not None
        return Denied(error.retry_after, error.limit, error.reset, error.in_flight)
    if account.limit is None:
        return UNCOUNTED
    return Allowed(account.limit, account.remaining, account.reset_at - now)


def release(limiter: Limiter, tenant: str, now: float, *, refused: bool = False) -> None:
    limiter.account(tenant, _held_to[id(limiter), tenant]).release(now, refused=refused)


def left(said: Allowed | Denied) -> int:
    return said.remaining if isinstance(said, Allowed) else 0
