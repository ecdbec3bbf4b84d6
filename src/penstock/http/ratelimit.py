"""What a tenant with a quota is told with every answer (SPEC D2, A10).

RateLimit-Limit      requests in any sixty seconds
RateLimit-Remaining  of these, how many may come now
RateLimit-Reset      seconds until some of what was used no longer counts; with a 429 the same as Retry-After
"""

from math import ceil

from penstock.errors import OverQuota
from penstock.quota import Allowed


def quota_lines(allowed: Allowed) -> str:
    """Lines for the head of an answer; none for those without a quota on requests per minute."""
    if allowed.limit is None:
        return ""
    return (
        f"ratelimit-limit: {allowed.limit}\r\nratelimit-remaining: {allowed.remaining}\r\n"
        f"ratelimit-reset: {ceil(allowed.reset)}\r\n"
    )


def quota_headers(error: OverQuota) -> list[tuple[str, str]]:
    """For a refusal. Retry-After comes with every error that knows when to come back."""
    if error.limit is None:
        return []
    return [
        ("ratelimit-limit", str(error.limit)),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", str(max(1, ceil(error.reset)))),
    ]
