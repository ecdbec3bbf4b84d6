"""The contract of quotas: how much a tenant may ask, and who keeps it to that. The gateway asks a tenant's account
about every request; `core/ratelimit.py` implements this in one process, `adapters/redis/records/quotas.py` over
Redis.

A limiter decides at once, from what it knows: nothing waits for another machine.
"""

from dataclasses import dataclass
from typing import Protocol

from penstock.errors import OverQuota

MINUTE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Limits:
    """How much each tenant of a tier may ask. None: there is no such limit."""

    requests_per_minute: int | None = None  # requests in any sixty seconds, whenever these begin
    # Requests at once; further ones are let in one by one as the minute goes by. None: all may come at once.
    burst: int | None = None
    in_flight: int | None = None  # requests that are accepted and not yet answered


class Account(Protocol):
    """What one tenant has used, and the limits that it is held to."""

    @property
    def remaining(self) -> int:
        """How many requests of the minute remained when one was last let in."""
        ...

    @property
    def limit(self) -> int | None:
        """Requests per minute; None if they are not limited."""
        ...

    @property
    def reset_at(self) -> float:
        """When the oldest of the requests that count will no longer count, as known when one was last let in."""
        ...

    def take(self, now: float) -> OverQuota | None:
        """Count one more request, or refuse it. A request that is not refused is in flight until `release`."""
        ...

    def release(self, now: float, *, refused: bool = False) -> None:
        """Note that a request is no longer in flight. `refused`: the server refused it without any fault of its
        asker, so it does not count for the minute."""
        ...


class Limiter(Protocol):
    """Keeps every tenant to its limits."""

    def account(self, tenant: str, limits: Limits) -> Account:
        """The account of a tenant. The caller keeps it for the tenant's next requests. All accounts of a tenant
        count the same requests."""
        ...


def over_quota(
    retry_after: float, limit: int | None, reset: float, in_flight: int | None = None
) -> OverQuota:
    """The refusal of a tenant that is over its quota. `limit`: requests per minute. `in_flight`: the limit on
    requests in flight, if that is what was exceeded."""
    if in_flight is not None:
        message = f"over your quota of {in_flight} requests in flight (in_flight of your tier)"
    else:
        message = f"over your quota of {limit} requests per minute (requests_per_minute of your tier)"
    error = OverQuota(message, retry_after=retry_after)
    error.limit, error.reset, error.in_flight = limit, reset, in_flight
    return error
