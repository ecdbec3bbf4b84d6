"""Quotas that gateways keep together: exact within 5 %, whoever the load comes to."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from uuid import uuid4

import pytest
from quota_kit import START, Load, Town, in_a_minute
from redis_kit import opened

from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records.quotas import SharedLimiter
from penstock.quota import Limits
from quota_words import UNCOUNTED, Allowed, Denied, left, release, take
from redis_servers import VALKEY, patient

LIMIT = 1000
PACE = LIMIT / 60.0


def over(settings: RedisSettings, body: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        async with opened(settings) as store:
            await body(store)

    asyncio.run(run())


@pytest.fixture
def valkey(redis_urls: dict[str, str]) -> RedisSettings:
    """One kind of server does where the script is not what is tested."""
    return patient(redis_urls[VALKEY], namespace=f"test-{uuid4().hex[:8]}")


def even(times: float, gateways: int) -> Load:
    return lambda now: [PACE * times / gateways] * gateways


def uneven(times: float, gateways: int) -> Load:
    return lambda now: [PACE * times * 0.97, *[PACE * times * 0.03 / (gateways - 1)] * (gateways - 1)]


def moving(times: float, gateways: int, every: float) -> Load:
    return lambda now: [PACE * times if int(now / every) % gateways == n else 0.0 for n in range(gateways)]


LOADS: dict[str, Callable[[int], Load]] = {
    "even, a little too much": lambda n: even(1.1, n),
    "even, twice too much": lambda n: even(2.0, n),
    "uneven": lambda n: uneven(2.0, n),
    "at one only": lambda n: moving(2.0, n, 1e9),
    "moving every second": lambda n: moving(3.0, n, 1.0),
    "moving every ten seconds": lambda n: moving(3.0, n, 10.0),
    "moving, ten times too much": lambda n: moving(10.0, n, 35.0),
}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("gateways", [2, 4])
def test_a_tenant_gets_its_limit_within_five_percent_however_its_load_is_spread(
    valkey: RedisSettings, gateways: int, load: str
) -> None:
    async def body(store: Store) -> None:
        town = Town(store, gateways, Limits(LIMIT))
        await town.go(180.0, LOADS[load](gateways))
        assert max(in_a_minute(town.let_in)) <= 1.05 * LIMIT
        for minutes in (1, 2, 3):
            so_far = sum(now < START + 60.0 * minutes for now in town.let_in)
            assert so_far == pytest.approx(LIMIT * minutes, rel=0.05)

    over(valkey, body)


@pytest.mark.parametrize("seconds", [30.0, 12.0, 7.5])
@pytest.mark.parametrize("gateways", [1, 2, 4])
def test_any_minute_of_a_tenant_that_spends_its_own_in_seconds_is_within_five_percent(
    valkey: RedisSettings, gateways: int, seconds: float
) -> None:
    async def body(store: Store) -> None:
        town = Town(store, gateways, Limits(LIMIT))
        await town.go(1.0, lambda now: [0.0] * gateways)
        await town.go(185.0, even(60.0 / seconds, gateways))
        for minute in in_a_minute(town.let_in, after=1.0, step=0.1):
            assert minute == pytest.approx(LIMIT, rel=0.05)

    over(valkey, body)


@pytest.mark.parametrize("gateways", [2, 4])
def test_a_tenant_below_its_limit_is_never_denied(valkey: RedisSettings, gateways: int) -> None:
    async def body(store: Store) -> None:
        town = Town(store, gateways, Limits(LIMIT))
        await town.go(1.0, lambda now: [0.0] * gateways)
        await town.go(100.0, moving(0.9, gateways, 3.0))
        assert len(town.let_in) == pytest.approx(0.9 * PACE * 100.0, abs=gateways)

    over(valkey, body)


def test_small_demand_is_not_starved_by_large(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        town = Town(store, 2, Limits(LIMIT))
        await town.go(240.0, uneven(2.0, 2))
        assert (
            town.by_gateway[1] >= 0.25 * 0.03 * 2.0 * PACE * 240.0
        )  # of what it asked for: half would be fair

    over(valkey, body)


def test_a_few_requests_a_minute_are_counted_across_gateways_too(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        town = Town(store, 4, Limits(12))
        await town.go(1.0, lambda now: [0.0] * 4)
        await town.go(300.0, lambda now: [0.5] * 4)
        assert max(in_a_minute(town.let_in)) <= 12 + 4  # before each gateway has asked, one
        assert len(town.let_in) == pytest.approx(12 * 5, abs=4)

    over(valkey, body)


def test_a_burst_limit_holds_for_all_gateways_together(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        town = Town(store, 2, Limits(600, burst=20))
        await town.go(1.0, lambda now: [0.0] * 2)
        await town.go(60.0, lambda now: [20.0] * 2)
        for first in range(len(town.let_in) - 1):
            within = sum(town.let_in[first] <= now < town.let_in[first] + 1.0 for now in town.let_in)
            assert within <= 20 + 10 + 2
        assert len(town.let_in) == pytest.approx(600, rel=0.05)

    over(valkey, body)


def test_the_script_runs_on_every_kind_of_server(redis_settings: RedisSettings) -> None:
    async def body(store: Store) -> None:
        limiter = SharedLimiter(store, "g0", monotonic, lambda: 2)
        other = SharedLimiter(store, "g1", monotonic, lambda: 2)
        began = monotonic()
        await limiter.settle()
        limits = Limits(100, burst=100, in_flight=10)
        first = take(limiter, "acme", limits, monotonic())
        assert isinstance(first, Allowed)
        await limiter.settle()
        again = take(limiter, "acme", limits, monotonic())
        assert isinstance(again, Allowed)
        assert again.remaining < 98
        assert 55.0 - (monotonic() - began) < again.reset <= 61.0
        take(other, "acme", limits, monotonic())
        take(other, "zeta", limits, monotonic())
        await other.settle()
        last = take(other, "acme", limits, monotonic())
        assert isinstance(last, Allowed)

    over(redis_settings, body)


def test_what_one_gateway_spent_another_that_never_met_the_tenant_hears_of(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        town = Town(store, 2, Limits(LIMIT))
        await town.go(20.0, lambda now: [PACE * 10, 0.0])
        other = town.limiters[1]
        said = [take(other, "acme", town.limits, town.now) for _ in range(200)]  # at once, before it can ask
        assert sum(isinstance(each, Allowed) for each in said) <= 0.01 * LIMIT

    over(valkey, body)


@pytest.mark.parametrize("gateways", [2, 4])
def test_a_minute_spent_in_an_instant_is_not_had_again_at_gateways_that_know_nothing_yet(
    valkey: RedisSettings, gateways: int
) -> None:
    async def body(store: Store) -> None:
        town = Town(store, gateways, Limits(LIMIT))
        await town.go(1.0, lambda now: [0.0] * gateways)
        await town.go(0.4, lambda now: [20_000.0, *[0.0] * (gateways - 1)])
        total = len(town.let_in)
        for other in town.limiters[1:]:  # all at once: nobody has had time to hear of it
            said = [take(other, "acme", town.limits, town.now) for _ in range(LIMIT)]
            total += sum(isinstance(each, Allowed) for each in said)
        assert LIMIT <= total <= 1.05 * LIMIT

    over(valkey, body)


def test_a_gateway_that_dies_takes_nothing_with_it_for_long(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        town = Town(store, 2, Limits(LIMIT))
        await town.go(5.0, even(0.5, 2))
        town.limiters.pop()
        await town.go(55.0, lambda now: [PACE * 3])
        assert len(town.let_in) == pytest.approx(LIMIT, rel=0.05)

    over(valkey, body)


def test_idle_tenants_are_forgotten_here_and_in_redis(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        town = Town(store, 1, Limits(LIMIT))
        limiter = town.limiters[0]
        for number in range(300):
            take(limiter, f"t{number}", town.limits, town.now)
            release(limiter, f"t{number}", town.now)
        await town.go(1.0, lambda now: [0.0])
        assert len(limiter) == 300
        await town.go(250.0, lambda now: [1.0 if now > 10.0 else 0.0])
        assert len(limiter) == 1
        kept = [
            await store.commands.execute_command("HLEN", f"{{{store.settings.namespace}:quota}}:{turn}")
            for turn in (0, 1)
        ]
        assert max(kept) <= 2  # the one that came since, and the turn
        assert left(take(limiter, "t1", town.limits, town.now)) > 0

    over(valkey, body)


def test_no_more_tenants_are_remembered_than_allowed(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        limiter = SharedLimiter(store, "g0", lambda: 0.0, lambda: 0, max_tenants=10)
        for number in range(100):
            take(limiter, f"t{number}", Limits(LIMIT), 0.0)
            assert len(limiter) <= 10
        release(limiter, "t0", 0.0)  # forgotten: nothing happens
        await limiter.settle()

    over(valkey, body)


def test_requests_in_flight_are_bounded_for_all_gateways_and_go_where_the_demand_is(
    valkey: RedisSettings,
) -> None:
    async def body(store: Store) -> None:
        town = Town(store, 2, Limits(in_flight=20))
        one, two = town.limiters
        flying = [0, 0]
        for _ in range(20):  # all at the first: it gets what the other does not use
            for limiter in town.limiters:
                await limiter.settle()
            while take(one, "acme", town.limits, town.now) == UNCOUNTED:
                flying[0] += 1
            town.now += 0.1
        assert 19 <= flying[0] <= 20
        assert (
            take(two, "acme", town.limits, town.now) == UNCOUNTED
        )  # one is always possible, or more if it was new
        for _ in range(flying[0]):
            release(one, "acme", town.now)
        town.now += 0.1
        for limiter in (one, two, one):
            await limiter.settle()
        assert take(one, "acme", town.limits, town.now) == UNCOUNTED

    over(valkey, body)


@pytest.mark.parametrize("gateways", [2, 3])
def test_rooms_for_requests_in_flight_never_add_up_to_more_than_the_limit_and_all_are_used(
    valkey: RedisSettings, gateways: int
) -> None:
    async def body(store: Store) -> None:
        town = Town(store, gateways, Limits(in_flight=40))
        for limiter in town.limiters:
            await limiter.settle()
        flying = 0
        for _ in range(20):  # each takes all it can get, before and after anybody has been asked
            for limiter in town.limiters:
                while take(limiter, "acme", town.limits, town.now) == UNCOUNTED:
                    flying += 1
                await limiter.settle()
            assert flying <= 40 + gateways
            town.now += 0.1
        assert flying >= 40

    over(valkey, body)


def test_over_the_limit_in_flight_the_wait_is_what_answers_take(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        limiter, limits = SharedLimiter(store, "g0", monotonic, lambda: 1), Limits(in_flight=1)
        assert take(limiter, "acme", limits, 10.0) == UNCOUNTED
        assert take(limiter, "acme", limits, 12.0) == Denied(2.0, None, 2.0, 1)
        release(limiter, "acme", 12.5)
        assert take(limiter, "acme", limits, 12.5) == UNCOUNTED
        said = take(limiter, "acme", Limits(in_flight=2), 12.5)  # other limits hold at once
        assert said == UNCOUNTED

    over(valkey, body)


def test_what_was_refused_for_want_of_capacity_does_not_count(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        town = Town(store, 1, Limits(100))
        limiter = town.limiters[0]
        await limiter.settle()
        for _ in range(50):
            for _ in range(10):
                assert isinstance(take(limiter, "acme", town.limits, town.now), Allowed)
            await limiter.settle()
            for _ in range(10):
                release(limiter, "acme", town.now, refused=True)
            town.now += 0.2
            await limiter.settle()
        said = take(limiter, "acme", town.limits, town.now)
        assert left(said) == 99
        unlimited = Limits(in_flight=5)
        take(limiter, "zeta", unlimited, town.now)
        release(limiter, "zeta", town.now, refused=True)
        release(limiter, "zeta", town.now)

    over(valkey, body)
