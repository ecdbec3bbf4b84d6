"""The loop that settles quotas with Redis, and what holds while Redis is away."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from quota_kit import STEP, Town
from redis.exceptions import ConnectionError as RedisConnectionError
from redis_kit import opened, running, until

from penstock.adapters.redis.link.connect import Client, RedisSettings, Store
from penstock.adapters.redis.link.scripts import Argument
from penstock.adapters.redis.records.quotas import SharedLimiter
from penstock.quota import Limits
from quota_words import Allowed, Denied, left, take
from redis_servers import VALKEY, Server, patient, redis_server

LIMIT = 1000


def over(settings: RedisSettings, body: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        async with opened(settings) as store:
            await body(store)

    asyncio.run(run())


@pytest.fixture
def valkey(redis_urls: dict[str, str]) -> RedisSettings:
    return patient(redis_urls[VALKEY], namespace=f"test-{uuid4().hex[:8]}")


def test_with_redis_away_everybody_goes_on_at_the_pace_of_the_share_they_had(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        town = Town(store, 2, Limits(LIMIT))
        await town.go(30.0, lambda now: [2.0 * LIMIT / 60.0] * 2)
        before, limiter = len(town.let_in), town.limiters[0]
        unmet = let_in = 0
        for _ in range(round(120.0 / STEP)):
            town.now += STEP
            let_in += isinstance(take(limiter, "acme", town.limits, town.now), Allowed)
            unmet += isinstance(take(limiter, "new", town.limits, town.now), Allowed)
        assert before <= LIMIT
        assert let_in == pytest.approx(LIMIT, rel=0.1)  # two minutes of one half
        assert 0.9 * LIMIT < unmet <= 1.05 * LIMIT
        later = take(limiter, "acme", Limits(1, None, None), town.now + 0.1)
        assert isinstance(later, Denied)
        assert later.retry_after >= 0.1
        take(limiter, "free", Limits(in_flight=1), town.now)
        await limiter.settle()  # and what was used meanwhile is told

    over(valkey, body)


def test_the_loop_settles_new_tenants_at_once_and_outlives_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    async def body(server: Server) -> None:
        async with opened(patient(server.url)) as store:
            limiter, limits = SharedLimiter(store, "g0", monotonic, lambda: 1), Limits(LIMIT)

            def allowance_given() -> bool:
                """What may be let in before asking is a hundredth here: Redis has never been heard."""
                return isinstance(take(limiter, "acme", limits, monotonic()), Allowed)

            assert sum(allowance_given() for _ in range(50)) == LIMIT / 100
            async with running(limiter.run()):
                await until(allowance_given)
                server.kill()
                await until(lambda: "cannot reach Redis" in caplog.text)
                assert left(take(limiter, "new", limits, monotonic())) > 0
                server.restart()
                await until(lambda: "reaches Redis again" in caplog.text)
                await until(lambda: left(take(limiter, "new", limits, monotonic())) < LIMIT - 10)

    with redis_server() as server:
        asyncio.run(body(server))


def test_two_gateways_with_their_loops_running_give_a_tenant_its_minute_and_no_more(
    valkey: RedisSettings,
) -> None:
    async def body(store: Store) -> None:
        limiters = [SharedLimiter(store, f"g{n}", monotonic, lambda: 2) for n in range(2)]
        limits, let_in = Limits(600), 0

        async with running(*(limiter.run() for limiter in limiters)):
            began = had = monotonic()
            while monotonic() < had + 1.5:  # when it has its minute: whether it gets more
                for limiter in limiters:
                    let_in += isinstance(take(limiter, "acme", limits, monotonic()), Allowed)
                await asyncio.sleep(0.001)
                if let_in < 0.95 * 600 and monotonic() < began + 30.0:
                    had = monotonic()
        assert let_in == pytest.approx(600, rel=0.05)

    over(valkey, body)


def test_a_mistake_of_ours_ends_the_loop_and_is_not_hidden(valkey: RedisSettings) -> None:
    async def body(store: Store) -> None:
        async def broken(client: Client, keys: Sequence[str], args: Sequence[Argument]) -> Any:
            raise ValueError("wrong")

        async def away(client: Client, keys: Sequence[str], args: Sequence[Argument]) -> Any:
            raise RedisConnectionError("gone")

        with pytest.raises(ValueError, match="wrong"):
            await SharedLimiter(store, "g0", monotonic, lambda: 1, settle=broken).run()
        with pytest.raises(RedisConnectionError):
            await SharedLimiter(store, "g0", monotonic, lambda: 1, settle=away).settle()

    over(valkey, body)
