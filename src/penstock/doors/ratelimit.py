"""What a tenant with a quota is told with every answer.

RateLimit-Limit      requests in any sixty seconds
RateLimit-Remaining  of these, how many may come, as of the one that was let in last
RateLimit-Reset      seconds until some of what was used no longer counts; with a 429 the same as Retry-After
"""

from math import ceil

from penstock.errors import OverQuota
from penstock.quota import Account
from penstock.types import Seconds


class _Beginnings(dict[int, str]):
    """Of those lines, by the limit: there are as many as the tiers have."""

    def __missing__(self, limit: int) -> str:
        beginning = self[limit] = f"ratelimit-limit: {limit}\r\nratelimit-remaining: "
        return beginning


_beginnings = _Beginnings()


def quota_lines(account: Account, now: Seconds) -> str:
    """Lines for the head of an answer; none for those without a quota on requests per minute."""
    limit = account.limit
    if limit is None:
        return ""
    reset = account.reset_at - now
    seconds = ceil(reset) if reset > 0.0 else 0
    return f"{_beginnings[limit]}{account.remaining}\r\nratelimit-reset: {seconds}\r\n"


def quota_headers(error: OverQuota) -> list[tuple[str, str]]:
    """For a refusal. Retry-After comes with every error that knows when to come back."""
    if error.limit is None:
        return []
    return [
        ("ratelimit-limit", str(error.limit)),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", str(max(1, ceil(error.reset)))),
    ]
