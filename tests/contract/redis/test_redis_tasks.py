"""Asynchronous requests: accepted at one gateway, read, awaited and cancelled at another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from redis_kit import ask, named, opened, until

from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.bus.wire import Notice
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records.task_endings import Ended, Outcomes
from penstock.adapters.redis.records.tasks import RedisTasks, Withdrawal
from penstock.errors import Conflict, NotFound, StoreDown
from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Failure, Outcome, TaskStatus
from redis_servers import VALKEY, patient, redis_server

BROKEN = Failure("BACKEND_FAILED", "it broke", "because")


class Kit:
    """Two gateways and one who knows how things end."""

    def __init__(self, store: Store, ttl: float = 60.0) -> None:
        self.store = store
        post = Post(store)
        self.here = RedisTasks(store, "here", post, ttl)
        self.there = RedisTasks(store, "there", post, ttl)
        self.outcomes = Outcomes(store, post)

    async def new(self, tenant: str = "") -> Passenger:
        request = ask(task=True)
        request.tenant = tenant
        await self.here.create(request, limit=10.0)
        return request

    async def succeed(self, request: Passenger, output: bytes = b"1") -> None:
        await self.outcomes.settle([Ended(named(request), Outcome.SUCCESS, output)])


@asynccontextmanager
async def kit(settings: RedisSettings, ttl: float = 60.0) -> AsyncIterator[Kit]:
    async with opened(settings) as store:
        yield Kit(store, ttl)


def test_a_task_is_read_at_any_gateway_from_its_beginning_to_its_end(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            request = await tasks.new()
            record = await tasks.there.find(request.request_id, "")
            assert (record.status, record.answer, record.key) == (TaskStatus.PENDING, None, request.key)
            await tasks.outcomes.processing([named(request)])
            processing = await tasks.there.find(request.request_id, "")
            assert processing.status is TaskStatus.PROCESSING
            await tasks.succeed(request, b'{"y": 1}')
            over = await tasks.there.find(request.request_id, "")
            assert over.answer is not None
            assert (over.status, over.answer.output) == (TaskStatus.SUCCESS, b'{"y": 1}')
            assert over.answer.failure is None
            assert record.changed_at <= processing.changed_at <= over.changed_at

    asyncio.run(body())


def test_an_id_that_is_taken_is_a_conflict(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            request = await tasks.new()
            with pytest.raises(Conflict):
                await tasks.there.create(request, limit=10.0)
            await tasks.here.forget(request.request_id, request.tenant)
            await tasks.there.create(request, limit=10.0)

    asyncio.run(body())


def test_to_another_tenant_a_task_does_not_exist(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            request = await tasks.new(tenant="anna")
            for attempt in (
                tasks.here.find(request.request_id, "bert"),
                tasks.here.wait(request.request_id, "bert", 5.0),
                tasks.here.cancel(request.request_id, "bert"),
                tasks.here.find("never was", "anna"),
                tasks.here.cancel("never was", "anna"),
            ):
                with pytest.raises(NotFound):
                    await attempt
            assert (await tasks.here.find(request.request_id, "anna")).status is TaskStatus.PENDING

    asyncio.run(body())


def test_the_first_ending_is_the_ending(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            request = await tasks.new()
            await tasks.outcomes.settle([Ended(named(request), Outcome.FAILED, failure=BROKEN)])
            await tasks.succeed(request)
            await tasks.outcomes.processing([named(request)])
            assert await tasks.here.cancel(request.request_id, "") is None
            record = await tasks.here.find(request.request_id, "")
            assert record.answer is not None
            assert (record.status, record.answer.failure) == (TaskStatus.FAILED, BROKEN)

    asyncio.run(body())


def test_an_ending_for_a_task_that_nobody_knows_makes_none(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            await tasks.outcomes.settle([Ended("never was", Outcome.SUCCESS, b"1")])
            with pytest.raises(NotFound):
                await tasks.here.find("never was", "")

    asyncio.run(body())


def test_cancelling_names_the_shard_that_must_hear_of_it(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            request = await tasks.new()
            request.shard = 5
            await tasks.here.placed(request)
            assert await tasks.there.cancel(request.request_id, "") == Withdrawal(5, request.key)
            record = await tasks.here.find(request.request_id, "")
            assert record.status is TaskStatus.CANCELLED
            assert record.answer is not None
            assert record.answer.failure == Failure("CANCELLED", "cancelled by its asker")
            assert await tasks.there.cancel(request.request_id, "") is None  # it is over
            await tasks.succeed(request)  # a worker had it already
            assert (await tasks.here.find(request.request_id, "")).status is TaskStatus.CANCELLED

    asyncio.run(body())


def test_a_task_cancelled_before_it_was_sent_needs_no_withdrawal(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            request = await tasks.new()
            assert await tasks.there.cancel(request.request_id, "") is None
            assert (await tasks.here.find(request.request_id, "")).status is TaskStatus.CANCELLED

    asyncio.run(body())


def test_every_gateway_that_waits_is_told(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            for owner in ("here", "there"):
                await Mailbox(tasks.store, owner).create()
            request = await tasks.new()
            both = [
                asyncio.ensure_future(gateway.wait(request.request_id, "", 60.0))
                for gateway in (tasks.here, tasks.there)
            ]
            keys = tasks.store.keys

            async def watched() -> bool:
                return await tasks.store.commands.scard(keys.watch(named(request))) == 2

            await until(watched)
            await tasks.succeed(request)
            for gateway, owner in ((tasks.here, "here"), (tasks.there, "there")):
                assert await tasks.store.commands.xlen(keys.box(owner)) == 2  # hello, and the notice
                gateway.notice(Notice(named(request), TaskStatus.SUCCESS))
            assert {(await waiting).status for waiting in both} == {TaskStatus.SUCCESS}

    asyncio.run(body())


def test_waiting_ends_at_once_when_it_is_over_and_in_time_when_it_is_not(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            request = await tasks.new()
            assert (await tasks.here.wait(request.request_id, "", 0.0)).status is TaskStatus.PENDING
            assert (await tasks.here.wait(request.request_id, "", 0.02)).status is TaskStatus.PENDING
            await tasks.succeed(request)
            assert (await tasks.here.wait(request.request_id, "", 100.0)).status is TaskStatus.SUCCESS

    asyncio.run(body())


def test_a_result_is_kept_for_its_time_and_a_pending_task_for_longer(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings, ttl=0.05) as tasks:
            request, pending = await tasks.new(), await tasks.new()
            await tasks.succeed(request)

            async def gone() -> bool:
                key = tasks.store.keys.task(named(request))
                return not await tasks.store.commands.execute_command("EXISTS", key)

            await until(gone)
            with pytest.raises(NotFound, match=r"older than 0\.05 s"):
                await tasks.here.find(request.request_id, "")
            assert (await tasks.here.find(pending.request_id, "")).status is TaskStatus.PENDING

    asyncio.run(body())


def test_ids_may_hold_braces_and_spaces(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as tasks:
            for name in ("a}b", "{a}", "}{", "a b\u00e9"):
                request = replace(ask(task=True), request_id=name)
                await tasks.here.create(request, limit=1.0)
                await tasks.here.wait(name, "", 0.0)
                await tasks.succeed(request)
                assert (await tasks.here.find(name, "")).status is TaskStatus.SUCCESS

    asyncio.run(body())


def test_results_are_stored_once_redis_is_back_and_until_then_reading_says_it_is_away() -> None:
    async def body() -> None:
        with redis_server(VALKEY, "--appendonly", "yes", "--appendfsync", "always") as server:
            async with kit(patient(server.url)) as tasks:
                request = await tasks.new()
                await asyncio.to_thread(server.kill)
                with pytest.raises(StoreDown):
                    await tasks.here.find(request.request_id, "")
                with pytest.raises(StoreDown):
                    await tasks.new()
                storing = asyncio.ensure_future(tasks.succeed(request))
                await asyncio.to_thread(server.start)
                await storing
                assert (await tasks.here.find(request.request_id, "")).status is TaskStatus.SUCCESS

    asyncio.run(body())
