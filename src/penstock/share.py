"""The rules of a tenant's share of a store that is bounded: the stores of tasks, idempotency keys and dead letters.

- All tenants together hold at most so many things and so many bytes.
- One tenant holds at most its share of either. It may always hold one thing.
- The last fifth is kept for tenants that hold little: at most a 64th of all. So two or three tenants that take as
  much as they can leave room for everybody else.
- Where nobody is asked who they are there is one tenant, without a name, and it may hold everything.

A thing that has grown since it was let in (a task has an output once it is over) is measured again. Then a tenant
that holds little is not refused, so that it never loses what it was promised because others hold much.

`core.shares` implements these rules in one process, and `adapters.redis.records.holdings` over Redis, in Lua.
"""

from enum import StrEnum

from penstock.errors import Overloaded, OverQuota, Refused

OVERHEAD = 1536  # bytes that a thing counts for besides input and output: names, times, entries in indexes
RESERVED = 0.2  # the part of all that is kept for tenants that hold little
LITTLE = 64  # one part in so many of all is little


class Full(StrEnum):
    """Why there is no room."""

    TENANT = "tenant"  # the tenant holds all of its share
    TOTAL = "total"  # all tenants together hold all that there is for this one


def refusal(full: Full, things: str, settings: str, share: float, retry_after: float) -> Refused:
    """The refusal of one more thing. `settings`: the settings that say how much all may hold, in words."""
    if full is Full.TENANT:
        return OverQuota(
            f"your {things} take all of a tenant's share: limits.tenant_share is {share:g}, {settings};"
            " fetch results, or wait until old ones have expired",
            retry_after=retry_after,
        )
    return Overloaded(f"there is no room for more {things}: {settings}", retry_after=retry_after)
