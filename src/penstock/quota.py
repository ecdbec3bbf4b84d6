"""The words of quotas: what a tenant may do, and what a limiter says to its next request.

A limiter decides at once, from what it knows: nothing waits for another machine.
"""

from dataclasses import dataclass
from typing import Protocol

from penstock.errors import OverQuota

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no such limit."""

    requests_per_minute: int | None = None  # in any sixty seconds, wherever they begin
    burst: int | None = (
        None  # requests at once; more come one by one, as the minute goes by. None: all at once
    )
    in_flight: int | None = None  # accepted and not yet answered


class Account(Protocol):
    """One tenant's, held to certain limits."""

    @property
    def remaining(self) -> int:
        """Requests of the minute, as of when one was let in last."""
        ...

    @property
    def limit(self) -> int | None:
        """Requests per minute; None where they are not counted."""
        ...

    @property
    def reset_at(self) -> float:
        """When some of what was used no longer counts, as of when one was let in last."""
        ...

    def take(self, now: float) -> OverQuota | None:
        """One more request. What is not refused is in flight until it is released."""
        ...

    def release(self, now: float, *, refused: bool = False) -> None:
        """It was answered; or refused for want of capacity, and then it does not count (not its asker's fault)."""
        ...


class Limiter(Protocol):
    """Keeps every tenant to its limits."""

    def account(self, tenant: str, limits: Limits) -> Account:
        """To be kept by whoever will ask again. All accounts of a tenant count the same requests."""
        ...


def over_quota(
    retry_after: float, limit: int | None, reset: float, in_flight: int | None = None
) -> OverQuota:
    """`limit`: requests per minute; `in_flight`: the limit on those in flight, where that is what was exceeded."""
    if in_flight is not None:
        message = f"over your quota of {in_flight} requests in flight (in_flight of your tier)"
    else:
        message = f"over your quota of {limit} requests per minute (requests_per_minute of your tier)"
    error = OverQuota(message, retry_after=retry_after)
    error.limit, error.reset, error.in_flight = limit, reset, in_flight
    return error
