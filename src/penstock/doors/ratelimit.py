"""What a tenant with a quota is told with every answer.

RateLimit-Limit      requests in any sixty seconds
RateLimit-Remaining  of these, how many may come, as of the one that was let in last
RateLimit-Reset      seconds until some of what was used no longer counts; with a 429 the same as Retry-After
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
    """The fields for a refusal. `Retry-After` comes with every error that knows when to come back."""
    if error.limit is None:
        return ()
    return (
        ("ratelimit-limit", str(error.limit)),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", str(max(1, ceil(error.reset)))),
    )
