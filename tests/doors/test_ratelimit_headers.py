"""What a tenant with a quota is told."""

from penstock.core.ratelimit import RateLimiter
from penstock.doors import answers
from penstock.doors.ratelimit import quota_headers, quota_lines
from penstock.errors import STATUS_BY_CODE, OverQuota
from penstock.quota import Limits, over_quota
from penstock.types import Failure


def test_an_answer_says_the_limit_what_remains_and_when_more_comes() -> None:
    account = RateLimiter().account("acme", Limits(requests_per_minute=3))
    for now in (5.0, 6.0):
        assert account.take(now) is None
    told = "ratelimit-limit: 3\r\nratelimit-remaining: 1\r\nratelimit-reset: "
    assert quota_lines(account, 6.2) == f"{told}60\r\n"  # the first one counts until 65.5
    assert quota_lines(account, 62.0) == f"{told}4\r\n"
    assert quota_lines(account, 80.0) == f"{told}0\r\n"  # it has waited so long for its answer


def test_whoever_has_no_quota_is_told_nothing() -> None:
    account = RateLimiter().account("acme", Limits(in_flight=8))
    assert account.take(0.0) is None
    assert quota_lines(account, 0.0) == ""
    assert quota_headers(over_quota(0.2, None, 0.2, 8)) == []


def test_a_refusal_over_quota_is_a_429_whose_reset_is_its_retry_after() -> None:
    error = over_quota(7.5, 1000, 7.5)
    assert STATUS_BY_CODE[OverQuota.code] == 429
    status, headers, _ = answers.error(
        Failure(error.code, error.message, retry_after=error.retry_after), "r1"
    )
    assert status == 429
    assert ("retry-after", "8") in headers
    assert quota_headers(error) == [
        ("ratelimit-limit", "1000"),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", "8"),
    ]
    assert dict(quota_headers(over_quota(0.01, 10, 0.0)))["ratelimit-reset"] == "1"
