"""A10: what a tenant with a quota is told."""

from penstock.errors import STATUS_BY_CODE, OverQuota
from penstock.http import answers
from penstock.http.ratelimit import quota_headers, quota_lines
from penstock.quota import UNCOUNTED, Allowed, Denied, over_quota
from penstock.types import Failure


def test_an_answer_says_the_limit_what_remains_and_when_more_comes() -> None:
    assert quota_lines(Allowed(1000, 12, 3.2)) == (
        "ratelimit-limit: 1000\r\nratelimit-remaining: 12\r\nratelimit-reset: 4\r\n"
    )


def test_whoever_has_no_quota_is_told_nothing() -> None:
    assert quota_lines(UNCOUNTED) == ""
    assert quota_headers(over_quota(Denied(0.2, None, 0, 0.2, 8))) == []


def test_a_refusal_over_quota_is_a_429_whose_reset_is_its_retry_after() -> None:
    error = over_quota(Denied(7.5, 1000, 0, 7.5))
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
    assert dict(quota_headers(over_quota(Denied(0.01, 10, 0, 0.0))))["ratelimit-reset"] == "1"
