"""What every limiter promises, in memory and over Redis, shown with the same sequences."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quota_kit import START, Town
from redis_kit import opened

from penstock.core.ratelimit import RateLimiter
from penstock.quota import Limiter, Limits
from quota_words import Allowed, Denied, release, take
from redis_servers import VALKEY, patient

MEMORY, SHARED = "memory", "redis"
FEW = settings(max_examples=12, deadline=None)


@dataclass
class Stage:
    """A limiter, and a way to let time pass for it."""

    limiter: Limiter
    town: Town | None = None
    now: float = START

    async def wait(self, seconds: float) -> None:
        self.now += seconds
        if self.town is not None:
            await self.town.go(self.now - self.town.now, lambda now: [0.0])
            self.now = self.town.now

    def ask(self, limits: Limits, tenant: str = "acme") -> Allowed | Denied:
        return take(self.limiter, tenant, limits, self.now)

    def let_in(self, limits: Limits, times: int, tenant: str = "acme") -> int:
        """Asks so often at once, each answered at once."""
        taken = [self.ask(limits, tenant) for _ in range(times)]
        allowed = sum(isinstance(each, Allowed) for each in taken)
        for _ in range(allowed):
            release(self.limiter, tenant, self.now)
        return allowed


Play = Callable[[Stage], Awaitable[None]]


class Theatre:
    def __init__(self, kind: str, url: str) -> None:
        self._kind, self._url = kind, url

    def __call__(self, play: Play) -> None:
        asyncio.run(self._run(play))

    async def _run(self, play: Play) -> None:
        if self._kind == MEMORY:
            await play(Stage(RateLimiter()))
            return
        async with opened(patient(self._url, namespace=f"test-{uuid4().hex[:8]}")) as store:
            town = Town(store, 1, Limits())
            stage = Stage(town.limiters[0], town)
            await stage.wait(0.2)
            await play(stage)


@pytest.fixture(scope="module", params=[MEMORY, SHARED])
def theatre(request: pytest.FixtureRequest, redis_urls: dict[str, str]) -> Theatre:
    return Theatre(request.param, "" if request.param == MEMORY else redis_urls[VALKEY])


steps = st.lists(st.tuples(st.floats(0.05, 12.0), st.integers(0, 60)), min_size=3, max_size=25)


@FEW
@given(limit=st.integers(20, 300), steps=steps)
def test_no_minute_holds_more_than_a_twentieth_above_the_limit(
    theatre: Theatre, limit: int, steps: list[tuple[float, int]]
) -> None:
    async def play(stage: Stage) -> None:
        taken: list[tuple[float, int]] = []
        for pause, burst in steps:
            await stage.wait(pause)
            taken.append((stage.now, stage.let_in(Limits(limit), burst)))
        for begin, _ in taken:
            assert sum(count for now, count in taken if begin <= now < begin + 59.0) <= 1.05 * limit

    theatre(play)


@FEW
@given(limit=st.integers(20, 300), steps=steps)
def test_a_tenant_that_comes_slowly_enough_to_be_settled_gets_the_same_everywhere(
    redis_urls: dict[str, str], limit: int, steps: list[tuple[float, int]]
) -> None:
    """But for the twentieth of a minute by which gateways that share one may be off, in each minute anew."""
    totals: list[int] = []
    lasted = 0.0

    async def play(stage: Stage) -> None:
        nonlocal lasted
        total = 0
        for pause, burst in steps:
            for _ in range(burst):  # not all at once: what is allowed without asking is a part of the minute
                total += stage.let_in(Limits(limit), 1)
                await stage.wait(0.12)
            await stage.wait(pause)
        totals.append(total)
        lasted = stage.now - START

    for kind in (MEMORY, SHARED):
        Theatre(kind, redis_urls[VALKEY])(play)
    assert totals[1] == pytest.approx(totals[0], abs=0.05 * limit * ceil(lasted / 60.0) + 2)


@FEW
@given(limit=st.integers(5, 300), tenants=st.integers(1, 4))
def test_what_is_asked_for_slowly_is_never_denied_whoever_else_asks(
    theatre: Theatre, limit: int, tenants: int
) -> None:
    async def play(stage: Stage) -> None:
        for _ in range(25):
            for tenant in range(tenants):
                assert stage.let_in(Limits(limit), 1, f"t{tenant}") == 1
            await stage.wait(63.0 / limit)

    theatre(play)


@FEW
@given(limit=st.integers(1, 60), burst=st.none() | st.integers(1, 10))
def test_whoever_waits_as_long_as_it_was_told_gets_in_before_long(
    theatre: Theatre, limit: int, burst: int | None
) -> None:
    async def play(stage: Stage) -> None:
        limits, tries = Limits(limit, burst), 0
        while not isinstance(said := stage.ask(limits), Denied):
            tries += 1
            await stage.wait(0.01)
            assert tries <= 70
        for _ in range(4):  # over Redis one may be told to ask again at the next tick
            await stage.wait(said.retry_after + 0.15)
            again = stage.ask(limits)
            if isinstance(again, Allowed):
                return
            said = again
        raise AssertionError("it was told to come back, and came back, and was denied each time")

    theatre(play)


@FEW
@given(most=st.integers(1, 20), moves=st.lists(st.booleans(), max_size=60))
def test_no_more_than_the_limit_are_in_flight_and_what_is_released_makes_room(
    theatre: Theatre, most: int, moves: list[bool]
) -> None:
    async def play(stage: Stage) -> None:
        flying = 0
        for asks in moves:
            if asks:
                allowed = isinstance(stage.ask(Limits(in_flight=most)), Allowed)
                assert allowed == (flying < most)
                flying += allowed
            elif flying:
                release(stage.limiter, "acme", stage.now)
                flying -= 1
            await stage.wait(0.2)

    theatre(play)


@FEW
@given(limit=st.integers(8, 100), rounds=st.integers(1, 10))
def test_what_was_refused_for_want_of_capacity_leaves_the_quota_as_it_was(
    theatre: Theatre, limit: int, rounds: int
) -> None:
    async def play(stage: Stage) -> None:
        limits = Limits(limit, None, limit)
        for _ in range(rounds):
            for _ in range(limit // 4):
                assert isinstance(stage.ask(limits), Allowed)
            await stage.wait(0.3)
            for _ in range(limit // 4):
                release(stage.limiter, "acme", stage.now, refused=True)
            await stage.wait(0.3)
        said = stage.ask(limits)
        assert isinstance(said, Allowed)
        assert said.remaining == limit - 1

    theatre(play)
