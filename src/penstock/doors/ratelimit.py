"""The header fields that tell a tenant of its quota. They stand in every answer to a tenant that has one
(`every_answer.py`), and in refusals (`data_plane.py`).

RateLimit-Limit      requests in any sixty seconds
RateLimit-Remaining  how many of these are left, as of the request that was let in last
RateLimit-Reset      seconds until some of the used ones no longer count; with a 429 the same as Retry-After
"""

from math import ceil

from penstock.edge.answer import Fields, Quota
from penstock.errors import OverQuota
from penstock.quota import Account
from penstock.types import Seconds


def quota_of(account: Account, now: Seconds) -> Quota | None:
    """What the head of an answer says; None for a tenant without a quota on requests per minute."""
    limit = account.limit
    if limit is None:
        return None
    reset = account.reset_at - now
    return limit, account.remaining, ceil(reset) if reset > 0.0 else 0


def refusal_fields(error: OverQuota) -> Fields:
    """Returns the fields for a refusal. `Retry-After` is not among them: `every_answer.py` adds it."""
    if error.limit is None:
        return ()
    return (
        ("ratelimit-limit", str(error.limit)),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", str(max(1, ceil(error.reset)))),
    )
