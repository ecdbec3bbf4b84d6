"""What tenants hold in Redis: bounded for each, given back by what ends or expires, right again after harm."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
from redis_kit import ask, named, opened, until

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records import holdings
from penstock.adapters.redis.records.idempotency import RedisClaims
from penstock.adapters.redis.records.task_endings import RedisEndings
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.errors import NotFound, Overloaded, OverQuota
from penstock.idempotency import Keyed
from penstock.ports.tasks import Ended
from penstock.runtime.collapse.passenger import Passenger
from penstock.share import OVERHEAD
from penstock.types import Outcome, TaskStatus
from penstock.words.messages import task_name
from redis_servers import KINDS, VALKEY, patient, redis_server

KIB = 1024
numbers = count()


@pytest.fixture(params=KINDS)
def settings(request: pytest.FixtureRequest, redis_urls: dict[str, str]) -> RedisSettings:
    """One server: in a cluster each place has books of its own."""
    return patient(redis_urls[request.param], namespace=f"holdings-{next(numbers)}")


class Kit:
    """A gateway with small bounds, and one who knows how things end."""

    def __init__(
        self,
        store: Store,
        *,
        number: int = 1000,
        size: int = 100 * KIB,
        ttl: float = 60.0,
        limit: float = 10.0,
    ) -> None:
        self.store, self._limit = store, limit
        post = Post(store)
        self.tasks = RedisTasks(store, "here", post, ttl, holdings.tasks(number, size, 0.4))
        self._claims = RedisClaims(store, post, ttl, ttl, holdings.keyed(size, 0.4))
        self._outcomes = RedisEndings(store, post)

    async def new(self, tenant: str, size: int = 10) -> Passenger:
        request = ask(b"x" * size, task=True)
        request.tenant = tenant
        await self.tasks.create(request, self._limit)
        return request

    async def ends(self, request: Passenger, size: int) -> None:
        await self._outcomes.settle([Ended(named(request), Outcome.SUCCESS, b"x" * size)])

    async def claim(self, tenant: str, key: str, size: int = 10) -> bool:
        """With an Idempotency-Key: whether it is to be executed."""
        request = ask(b"x" * size, task=True)
        keyed = Keyed(f"~{tenant}-{key}", tenant, "fingerprint")
        claim = await self._claims.claim(keyed, request, "asker", self._limit)
        if claim.ours:
            name = task_name(tenant, keyed.id)
            await self._outcomes.settle([Ended(name, Outcome.SUCCESS, b"x" * size)])
        return claim.ours

    async def held(self, tenant: str) -> tuple[int, int]:
        totals = self.store.keys.held("tenant/task")[0]
        number, size = await self.store.commands.execute_command(
            "HMGET", totals, f"n:{tenant}", f"b:{tenant}"
        )
        return int(number or 0), int(size or 0)


@asynccontextmanager
async def kit(settings: RedisSettings, **bounds: float) -> AsyncIterator[Kit]:
    async with opened(settings) as store:
        yield Kit(store, **bounds)  # type: ignore[arg-type]


async def is_there(redis: Kit, request: Passenger) -> bool:
    try:
        await redis.tasks.find(request.request_id, request.tenant)
    except NotFound:
        return False
    return True


@pytest.mark.parametrize(("size", "fit"), [(10, 20), (9 * KIB, 3)])
def test_a_tenant_beyond_its_share_is_refused_and_the_others_are_not(
    settings: RedisSettings, size: int, fit: int
) -> None:
    async def body() -> None:
        async with kit(settings, number=50) as redis:
            for _ in range(fit):
                await redis.new("greedy", size)
            with pytest.raises(OverQuota, match=r"limits\.tenant_share is 0\.4, limits\.max_tasks is 50 and"):
                await redis.new("greedy", size)
            await redis.new("modest", size)
            assert await redis.held("greedy") == (fit, fit * (OVERHEAD + size))

    asyncio.run(body())


def test_what_has_no_tenant_may_take_all_the_room_and_then_everybody_is_refused(
    settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with kit(settings, number=5) as redis:
            for _ in range(5):
                await redis.new("")
            with pytest.raises(Overloaded, match=r"limits\.max_tasks is 5"):
                await redis.new("anna")

    asyncio.run(body())


def test_a_result_that_was_read_makes_room_and_one_that_nobody_has_read_is_kept(
    settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with kit(settings, number=10) as redis:
            first, second, third, _ = [await redis.new("anna") for _ in range(4)]
            for request in (first, second, third):
                await redis.ends(request, 10)
            with pytest.raises(OverQuota):
                await redis.new("anna")
            await redis.tasks.peek(first.request_id, "anna")  # by people who look after the server
            assert (await redis.tasks.find(second.request_id, "anna")).status is TaskStatus.SUCCESS
            await redis.new("anna")
            with pytest.raises(NotFound, match="has made room"):
                await redis.tasks.find(second.request_id, "anna")
            await redis.tasks.wait(third.request_id, "anna", 0.0)
            await redis.new("anna")
            assert (await redis.tasks.find(first.request_id, "anna")).status is TaskStatus.SUCCESS

    asyncio.run(body())


def test_an_input_counts_until_its_task_is_over_and_then_its_output(settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(settings) as redis:
            request = await redis.new("anna", 9 * KIB)
            assert await redis.held("anna") == (1, OVERHEAD + 9 * KIB)
            for _ in range(2):  # whoever settles twice changes nothing
                await redis.ends(request, 5 * KIB)
                assert await redis.held("anna") == (1, OVERHEAD + 5 * KIB)
            cancelled = await redis.new("anna", 9 * KIB)
            await redis.tasks.cancel(cancelled.request_id, "anna")
            told = len("cancelled by its asker")
            assert await redis.held("anna") == (2, 2 * OVERHEAD + 5 * KIB + told)
            for each in (request, cancelled):
                await redis.tasks.forget(each.request_id, "anna")
            assert await redis.held("anna") == (0, 0)

    asyncio.run(body())


def test_outputs_beyond_a_share_push_out_the_oldest_of_their_own_tenant(settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(settings) as redis:
            other = await redis.new("modest")
            await redis.ends(other, 10)
            mine = [await redis.new("greedy") for _ in range(6)]
            for request in mine:
                await redis.ends(request, 11 * KIB)
            kept = [request for request in mine if await is_there(redis, request)]
            assert len(kept) == 3
            assert kept[-1] is mine[-1]
            assert await redis.held("greedy") == (3, 3 * (OVERHEAD + 11 * KIB))
            assert (await redis.tasks.find(other.request_id, "modest")).status is TaskStatus.SUCCESS

    asyncio.run(body())


def test_a_result_larger_than_all_may_be_is_not_kept_and_its_task_says_so(settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(settings) as redis:
            for tenant in ("", "anna"):
                request = await redis.new(tenant)
                await redis.new(tenant)
                await redis.ends(request, 101 * KIB)
                record = await redis.tasks.find(request.request_id, tenant)
                assert record.answer is not None
                assert record.answer.failure is not None
                assert (record.status, record.answer.output) == (TaskStatus.FAILED, b"")
                assert "limits.max_task_bytes" in record.answer.failure.message

    asyncio.run(body())


def test_what_expires_gives_its_room_back(settings: RedisSettings) -> None:
    async def body() -> None:
        # The shortest that a server surely takes for time that passes: both the pending and the kept expire.
        async with kit(settings, number=10, ttl=0.02, limit=0.02) as redis:
            requests = [await redis.new("anna") for _ in range(4)]
            await redis.ends(requests[0], 10)

            async def accepted() -> bool:
                try:
                    await redis.new("anna")
                except OverQuota:
                    return False
                return True

            for _ in range(8):
                await until(accepted)
            assert (await redis.held("anna"))[0] <= 4

    asyncio.run(body())


def test_books_that_were_harmed_are_put_right(settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(settings, number=100) as redis:
            totals, index = redis.store.keys.held("tenant/task")
            requests = [await redis.new("anna", 100) for _ in range(3)]
            right = await redis.held("anna")
            await redis.store.commands.execute_command("DEL", totals)
            await redis.new("bert")
            assert await redis.held("anna") == right
            await redis.store.commands.execute_command("HINCRBY", totals, "n", 7)
            await redis.new("bert")
            assert await redis.held("anna") == right
            await redis.store.commands.execute_command("DEL", index)
            for request in requests:  # of which nothing is known any more
                await redis.ends(request, 10)
            assert await redis.held("bert") == (2, 2 * (OVERHEAD + 10))
            await redis.new("carl")
            assert await redis.held("bert") == (0, 0)
            assert await redis.held("anna") == (3, 3 * (OVERHEAD + 10))

    asyncio.run(body())


def test_a_tenants_oldest_outcomes_make_room_for_its_new_keys_and_for_nobody_elses(
    settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with kit(settings) as redis:
            assert await redis.claim("modest", "mine")
            for number in range(20):
                assert await redis.claim("greedy", str(number), 9 * KIB)
            assert not await redis.claim("modest", "mine")
            assert not await redis.claim("greedy", "19", 9 * KIB)
            assert await redis.claim("greedy", "0", 9 * KIB)  # was forgotten
            with pytest.raises(Overloaded, match=r"idempotency\.max_bytes is 102400"):
                await redis.claim("", "too large", 101 * KIB)

    asyncio.run(body())


def test_all_that_is_kept_leaves_room_in_the_memory_that_redis_has() -> None:
    async def body() -> None:
        with redis_server(VALKEY, "--maxmemory", "100mb") as server:
            async with opened(patient(server.url)) as store:
                bounds = holdings.tasks(1000, 1 << 30, 0.4, memory_limit=0.8)
                assert bounds.arguments(store) == [1000, 20 << 20, 0.4]
                assert "maxmemory allows 20971520" in bounds.refusal(b"total", store, 1.0).message
                server.command("CONFIG", "SET", "maxmemory", "0")
                await store.memory_ratio()
                assert bounds.arguments(store) == [1000, 1 << 30, 0.4]

    asyncio.run(body())


def test_in_a_cluster_each_place_has_its_part_of_the_bounds(redis_urls: dict[str, str]) -> None:
    async def body() -> None:
        settings = patient(redis_urls["cluster"], namespace=f"holdings-{next(numbers)}")
        async with kit(settings, number=320, size=16 << 20) as redis:
            refused = 0
            for _ in range(320):
                try:
                    await redis.new("greedy")
                except OverQuota:
                    refused += 1
            assert refused >= 320 * 0.6
            await redis.new("modest")

    asyncio.run(body())
