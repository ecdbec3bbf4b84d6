"""What a tenant with a quota is told."""

from penstock.core.ratelimit import RateLimiter
from penstock.doors.every_answer import failed
from penstock.doors.ratelimit import quota_of, refusal_fields
from penstock.errors import STATUS_BY_CODE, OverQuota
from penstock.quota import Limits, over_quota
from penstock.types import Failure


def test_an_answer_says_the_limit_what_remains_and_when_more_comes() -> None:
    account = RateLimiter().account("acme", Limits(requests_per_minute=3))
    for now in (5.0, 6.0):
        assert account.take(now) is None
    assert quota_of(account, 6.2) == (3, 1, 60)  # the first counts until 65.5
    assert quota_of(account, 62.0) == (3, 1, 4)
    assert quota_of(account, 80.0) == (3, 1, 0)  # it has waited so long


def test_whoever_has_no_quota_is_told_nothing() -> None:
    account = RateLimiter().account("acme", Limits(in_flight=8))
    assert account.take(0.0) is None
    assert quota_of(account, 0.0) is None
    assert not refusal_fields(over_quota(0.2, None, 0.2, 8))


def test_a_refusal_over_quota_is_a_429_whose_reset_is_its_retry_after() -> None:
    error = over_quota(7.5, 1000, 7.5)
    assert STATUS_BY_CODE[OverQuota.code] == 429
    answer = failed(Failure.of(error), "r1")
    assert answer.status == 429
    assert ("retry-after", "8") in answer.fields
    assert dict(refusal_fields(error)) == {
        "ratelimit-limit": "1000",
        "ratelimit-remaining": "0",
        "ratelimit-reset": "8",
    }
    assert dict(refusal_fields(over_quota(0.01, 10, 0.0)))["ratelimit-reset"] == "1"
