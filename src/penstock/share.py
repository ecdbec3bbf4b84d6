"""The words of a tenant's share of what is kept: tasks, idempotency keys, dead letters.

- All together hold at most so many things and so many bytes.
- One tenant holds at most its share of either. It may always hold one thing.
- The last fifth is kept for tenants that hold little: a 64th of all. So two or three that take all they may get
  leave room for everybody else.
- Where nobody is asked who they are there is one tenant, without a name, and it may hold everything.

A thing that has grown since it was let in (a task has an output once it is over) is measured again. Then a tenant
that holds little is let off, so that it never loses what it was promised because others hold much.

`core.shares` keeps these rules in one process, and `adapters.redis.records.holdings` over Redis, in Lua.
"""

from enum import StrEnum

from penstock.errors import Overloaded, OverQuota, Refused

OVERHEAD = 1536  # bytes of a thing besides what its tenant sent or is sent: names, times, its place in books
RESERVED = 0.2  # of all: for tenants that hold little
LITTLE = 64  # the part of all that is little


class Full(StrEnum):
    """Why there is no room."""

    TENANT = "tenant"  # it holds all of its share
    TOTAL = "total"


def refusal(full: Full, things: str, settings: str, share: float, retry_after: float) -> Refused:
    """`settings`: which say how much all may hold."""
    if full is Full.TENANT:
        return OverQuota(
            f"your {things} take all of a tenant's share: limits.tenant_share is {share:g}, {settings};"
            " fetch results, or wait until old ones have expired",
            retry_after=retry_after,
        )
    return Overloaded(f"there is no room for more {things}: {settings}", retry_after=retry_after)
