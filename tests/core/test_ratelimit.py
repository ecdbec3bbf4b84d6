"""How much a tenant may ask of one process."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.ratelimit import RateLimiter, TenantAccount
from penstock.errors import OverQuota
from penstock.quota import Limits, over_quota
from quota_words import UNCOUNTED, Allowed, Denied, left, release, take

TEN = Limits(requests_per_minute=10)


def let_in(limiter: RateLimiter, limits: Limits, times: list[float], tenant: str = "a") -> list[float]:
    return [now for now in times if isinstance(take(limiter, tenant, limits, now), Allowed)]


def denied(limiter: RateLimiter, limits: Limits, now: float, tenant: str = "a") -> Denied:
    said = take(limiter, tenant, limits, now)
    assert isinstance(said, Denied)
    return said


def most_in_a_minute(times: list[float]) -> int:
    most, window = 0, deque[float]()
    for now in times:
        window.append(now)
        while window[0] <= now - 60.0:
            window.popleft()
        most = max(most, len(window))
    return most


def test_a_minute_holds_as_many_as_the_limit_says_and_a_tenant_is_told_how_many_are_left() -> None:
    limiter = RateLimiter()
    said = [take(limiter, "a", TEN, 5.0) for _ in range(11)]
    assert [left(each) for each in said] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]
    assert said[0] == Allowed(10, 9, 60.5)
    assert said[10] == Denied(60.5, 10, 60.5)


def test_whoever_waits_as_long_as_it_was_told_is_let_in() -> None:
    limiter = RateLimiter()
    let_in(limiter, TEN, [1.0, 1.2] * 5)
    wait = denied(limiter, TEN, 30.3).retry_after
    assert isinstance(take(limiter, "a", TEN, 30.2 + wait), Denied)
    assert isinstance(take(limiter, "a", TEN, 30.3 + wait), Allowed)


def test_one_tenant_does_not_use_up_what_is_anothers() -> None:
    limiter = RateLimiter()
    let_in(limiter, TEN, [0.0] * 20, "a")
    assert len(let_in(limiter, TEN, [0.0] * 20, "b")) == 10


def test_a_changed_limit_holds_for_the_next_request() -> None:
    limiter = RateLimiter()
    let_in(limiter, TEN, [0.0] * 10)
    assert take(limiter, "a", Limits(requests_per_minute=12), 1.0) == Allowed(12, 1, 59.5)
    assert denied(limiter, Limits(requests_per_minute=5), 1.0).limit == 5


@given(
    limit=st.integers(1, 400),
    gaps=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=400),
    start=st.floats(0.0, 1e6),
)
def test_no_minute_ever_holds_more_than_the_limit(limit: int, gaps: list[float], start: float) -> None:
    times = [start := start + gap for gap in gaps]
    taken = let_in(RateLimiter(), Limits(requests_per_minute=limit), times)
    assert most_in_a_minute(taken) <= limit


@settings(deadline=None)
@given(limit=st.integers(1, 2000), ratio=st.floats(1.05, 20.0), start=st.floats(0.0, 1e5))
def test_whoever_always_asks_for_more_gets_the_limit_within_a_hundredth(
    limit: int, ratio: float, start: float
) -> None:
    gap = 60.0 / (limit * ratio)
    asked = min(int(180.0 / gap), 20_000)
    taken = let_in(
        RateLimiter(), Limits(requests_per_minute=limit), [start + gap * number for number in range(asked)]
    )
    minutes = asked * gap / 60.0
    assert len(taken) <= limit * (int(minutes) + 1)
    assert len(taken) >= limit * int(minutes / (60.5 / 60.0)) * 0.99 - 1


@given(
    limit=st.integers(1, 600),
    burst=st.integers(1, 50),
    gaps=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=300),
)
def test_a_burst_limit_bounds_what_comes_at_once_and_lets_the_whole_minute_through(
    limit: int, burst: int, gaps: list[float]
) -> None:
    now = 0.0
    times = [now := now + gap for gap in gaps]
    taken = let_in(RateLimiter(), Limits(limit, burst), times)
    for first in range(len(taken)):
        for last in range(first, min(first + 60, len(taken))):
            assert last - first + 1 <= burst + (taken[last] - taken[first]) * limit / 60.0 + 1e-6


def test_a_steady_tenant_with_a_burst_limit_gets_its_whole_minute() -> None:
    limits = Limits(requests_per_minute=60, burst=2)
    assert len(let_in(RateLimiter(), limits, [number * 1.02 for number in range(120)])) == 120


def test_past_the_burst_the_wait_is_one_interval_and_the_rest_is_what_may_still_come_at_once() -> None:
    limiter, limits = RateLimiter(), Limits(requests_per_minute=60, burst=3)
    said = [take(limiter, "a", limits, 0.0) for _ in range(4)]
    assert [left(each) for each in said] == [2, 1, 0, 0]
    assert said[3] == Denied(1.0, 60, 1.0)
    assert isinstance(take(limiter, "a", limits, 1.0), Allowed)


def test_requests_in_flight_are_bounded_until_one_is_released() -> None:
    limiter, limits = RateLimiter(), Limits(in_flight=2)
    assert [take(limiter, "a", limits, 0.0) for _ in range(2)] == [UNCOUNTED, UNCOUNTED]
    assert denied(limiter, limits, 4.0) == Denied(4.0, None, 4.0, 2)  # as long again as nothing has gone
    release(limiter, "a", 5.0)
    assert take(limiter, "a", limits, 5.0) == UNCOUNTED
    assert denied(limiter, limits, 5.0).retry_after == pytest.approx(1.0)  # a fifth of the gap seen
    assert denied(RateLimiter(), Limits(in_flight=0), 0.0).retry_after > 0.0


def test_what_is_denied_counts_neither_as_in_flight_nor_in_the_minute() -> None:
    limiter = RateLimiter()
    limits = Limits(requests_per_minute=2, in_flight=1)
    assert isinstance(take(limiter, "a", limits, 0.0), Allowed)
    assert denied(limiter, limits, 0.0).in_flight == 1
    release(limiter, "a", 0.1)
    assert isinstance(take(limiter, "a", limits, 0.2), Allowed)
    release(limiter, "a", 0.3)
    assert denied(limiter, limits, 0.4).in_flight is None
    release(limiter, "a", 0.5)  # nothing is in flight: nothing happens
    assert denied(limiter, limits, 0.6).in_flight is None


def test_what_was_refused_for_want_of_capacity_does_not_count() -> None:
    limiter, limits = RateLimiter(), Limits(requests_per_minute=2, burst=2, in_flight=5)
    for now in (0.0, 0.1, 0.2, 0.3):
        assert left(take(limiter, "a", limits, now)) == 1
        release(limiter, "a", now, refused=True)
    assert len(let_in(limiter, limits, [0.4] * 5)) == 2
    release(limiter, "a", 0.4, refused=True)
    assert len(let_in(limiter, limits, [0.4] * 5)) == 1
    unlimited = Limits(in_flight=1)
    take(limiter, "b", unlimited, 0.0)
    release(limiter, "b", 0.0, refused=True)
    assert take(limiter, "b", unlimited, 0.0) == UNCOUNTED


moves = st.lists(
    st.tuples(st.sampled_from("ttttra"), st.floats(0.0, 0.4) | st.floats(0.0, 40.0)), max_size=150
)


@settings(max_examples=300)
@given(
    limits=st.builds(
        Limits,
        requests_per_minute=st.none() | st.integers(1, 60),
        burst=st.none() | st.integers(1, 20),
        in_flight=st.none() | st.integers(0, 20),
    ),
    moves=moves,
)
def test_whoever_asks_only_when_a_limit_may_be_near_is_told_what_one_that_always_asks_is(
    limits: Limits, moves: list[tuple[str, float]]
) -> None:
    asks, saves = RateLimiter(), RateLimiter()
    now, flying = 0.0, 0
    for move, pause in moves:
        now += pause
        if move == "t":
            said = take(asks, "a", limits, now, always_ask=True)
            same = take(saves, "a", limits, now)
            if isinstance(said, Denied) and said.in_flight is not None:  # how long that takes is a guess
                assert isinstance(same, Denied)
                assert same.in_flight == said.in_flight
                assert same.retry_after > 0.0
            else:
                assert same == said
                flying += isinstance(said, Allowed)
        elif flying:
            flying -= 1
            for limiter in (asks, saves):
                release(limiter, "a", now, refused=move == "r")
        assert account_of(asks, limits).in_flight == account_of(saves, limits).in_flight == flying


def account_of(limiter: RateLimiter, limits: Limits) -> TenantAccount:
    account = limiter.account("a", limits)
    assert isinstance(account, TenantAccount)
    return account


def test_how_long_until_one_in_flight_goes_is_learned_from_those_that_went() -> None:
    limiter, limits = RateLimiter(), Limits(in_flight=4)
    for _ in range(4):
        take(limiter, "a", limits, 0.0)
    for now in (1.0, 2.0, 3.0):
        release(limiter, "a", now)
    for _ in range(3):
        take(limiter, "a", limits, 3.0)
    assert denied(limiter, limits, 3.0).retry_after == pytest.approx(0.2)  # a fifth of a second each
    assert denied(limiter, limits, 3.5).retry_after == pytest.approx(0.5)
    for now in (4.0, 5.0, 6.0, 7.0):
        release(limiter, "a", now)
    for _ in range(4):
        take(limiter, "a", limits, 7.0)
    assert denied(limiter, limits, 7.0).retry_after == pytest.approx(0.36)
    for _ in range(4):
        release(limiter, "a", 7.0)
    for _ in range(4):
        take(limiter, "a", limits, 100.0)
    assert denied(limiter, limits, 102.0).retry_after == pytest.approx(2.0)  # not all the time nobody asked


def test_what_a_tenant_asks_with_one_key_counts_for_the_other_without_a_closer_look_too() -> None:
    limiter, ten, twenty = RateLimiter(), Limits(requests_per_minute=10), Limits(requests_per_minute=20)
    said = [take(limiter, "a", limits, 0.0) for limits in (ten, ten, ten, twenty, twenty, twenty, ten, ten)]
    assert [left(each) for each in said] == [9, 8, 7, 16, 15, 14, 3, 2]
    assert len(let_in(limiter, ten, [0.1] * 10)) == 2
    assert len(let_in(limiter, twenty, [0.1] * 20)) == 10


def test_idle_tenants_are_forgotten_and_those_that_wait_for_answers_are_not() -> None:
    limiter, limits = RateLimiter(), Limits(requests_per_minute=10, in_flight=1)
    for number in range(100):
        take(limiter, f"t{number}", limits, 0.0)
        if number:
            release(limiter, f"t{number}", 0.0)
    for minute in range(1, 5):
        take(limiter, "busy", limits, minute * 61.0)
        release(limiter, "busy", minute * 61.0)
    assert len(limiter) == 2
    assert isinstance(take(limiter, "t0", limits, 400.0), Denied)
    release(limiter, "t0", 400.0)


@settings(max_examples=30)
@given(names=st.lists(st.integers(0, 300), max_size=400), most=st.integers(1, 40))
def test_no_more_tenants_are_remembered_than_allowed(names: list[int], most: int) -> None:
    limiter = RateLimiter(max_tenants=most)
    for now, name in enumerate(names):
        take(limiter, str(name), TEN, now * 0.01)
        assert len(limiter) <= max(2, most)
        release(limiter, str(name), now * 0.01)


def test_a_tenant_that_keeps_coming_is_remembered_across_generations() -> None:
    limiter = RateLimiter()
    times = [number * 0.5 for number in range(1000)]
    taken = let_in(limiter, TEN, times)
    assert most_in_a_minute(taken) <= 10
    assert len(taken) >= 80


def test_the_error_says_which_quota_and_when_to_come_back() -> None:
    error = over_quota(2.5, 10, 2.5)
    assert isinstance(error, OverQuota)
    assert (error.message, error.retry_after) == (
        "over your quota of 10 requests per minute (requests_per_minute of your tier)",
        2.5,
    )
    assert (error.limit, error.reset, error.status) == (10, 2.5, 429)
    assert over_quota(0.1, None, 0.1, 3).message == (
        "over your quota of 3 requests in flight (in_flight of your tier)"
    )


def test_what_is_refused_for_want_of_capacity_does_not_count_however_long_that_took_to_find_out() -> None:
    limiter = RateLimiter()
    three = Limits(requests_per_minute=3)
    for now in (0.0, 0.1, 1.2):
        assert isinstance(take(limiter, "a", three, now), Allowed)
    assert isinstance(take(limiter, "a", three, 1.3), Denied)
    for _ in range(2):  # of the last, and then of those in the span before
        release(limiter, "a", 1.3, refused=True)
    assert take(limiter, "a", three, 1.3) == Allowed(3, 1, 59.2)
    for _ in range(2):
        release(limiter, "a", 1.3, refused=True)
    assert take(limiter, "a", three, 1.3) == Allowed(3, 2, 60.2)
    release(limiter, "a", 1.3, refused=True)
    release(limiter, "a", 1.3, refused=True)  # one more than were taken
    assert take(limiter, "a", three, 1.3) == Allowed(3, 2, 60.2)


def test_what_one_key_of_a_tenant_has_refused_gives_nothing_back_to_another_where_it_was_not_counted() -> (
    None
):
    limiter, ten, several = RateLimiter(), Limits(requests_per_minute=10), Limits(in_flight=1000)
    counted, uncounted = limiter.account("a", ten), limiter.account("a", several)
    for number in range(10):
        assert counted.take(0.01 * number) is None
    for _ in range(20):
        assert uncounted.take(1.0) is None
        uncounted.release(1.0, refused=True)
    assert counted.take(1.0) is not None
    counted.release(1.0, refused=True)
    assert counted.take(1.0) is None
    assert counted.take(1.0) is not None
    assert limiter.account("b", several).take(1.0) is None
    limiter.account("b", ten).release(1.0, refused=True)  # of another key than took it: nothing was counted
    assert limiter.account("b", ten).take(1.0) is None


def test_what_is_refused_opens_no_way_past_a_limit_that_another_key_of_the_tenant_has_used_up() -> None:
    limiter, one, ten = RateLimiter(), Limits(100, in_flight=1), Limits(100, in_flight=10)
    assert take(limiter, "a", one, 0.0) == Allowed(100, 99, 60.5)
    for _ in range(5):
        assert isinstance(take(limiter, "a", ten, 0.0), Allowed)
    account_of(limiter, one).release(0.0, refused=True)
    assert denied(limiter, one, 0.0).in_flight == 1
    for number in range(5):
        assert isinstance(take(limiter, "b", ten, 0.0), Allowed), number
    for _ in range(5):
        release(limiter, "b", 0.0, refused=True)
        assert left(take(limiter, "b", ten, 0.1)) == 95


def test_accounts_that_somebody_holds_count_on_when_they_were_forgotten_and_hold_nothing_once_idle() -> None:
    limiter, limits = RateLimiter(), Limits(requests_per_minute=100)
    held = [limiter.account(f"t{number}", limits) for number in range(50)]
    for now in range(30):
        for account in held:
            assert account.take(float(now)) is None
            account.release(float(now))
    for number in range(100):
        busy = limiter.account(f"busy{number}", limits)
        busy.take(100.0 + 3 * number)
        busy.release(100.0 + 3 * number)
    assert all(isinstance(account, TenantAccount) and not account._window for account in held)
    assert held[0].take(500.0) is None
    assert held[0].remaining == 99
    assert limiter.account("t0", limits) is held[0]


def test_other_limits_hold_at_once_and_what_was_used_counts() -> None:
    limiter, before, after = RateLimiter(), Limits(requests_per_minute=10), Limits(requests_per_minute=3)
    account = limiter.account("acme", before)
    for _ in range(3):
        assert account.take(0.0) is None
    limiter.hold_to({before: after})
    again = limiter.account("acme", after)
    assert again is account
    assert again.take(0.1) is not None
    limiter.hold_to({after: Limits(requests_per_minute=5)})
    assert [account.take(0.2) is None for _ in range(3)] == [True, True, False]
    limiter.hold_to({before: after})
    assert account.limit == 5
