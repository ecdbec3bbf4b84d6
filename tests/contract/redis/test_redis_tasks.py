"""Asynchronous requests over a Redis: what is promised of every record is in `test_records_contract`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from redis_kit import ask, named, opened, until

from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records.task_endings import RedisEndings
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.errors import NotFound, StoreDown
from penstock.ports.tasks import Ended
from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Failure, Outcome, TaskStatus
from penstock.words.messages import Notice
from redis_servers import VALKEY, patient, redis_server

BROKEN = Failure("BACKEND_FAILED", "it broke", "because")


class Kit:
    """Two gateways and one who knows how things end."""

    def __init__(self, store: Store, ttl: float = 60.0) -> None:
        self.store = store
        post = Post(store)
        self.here = RedisTasks(store, "here", post, ttl)
        self.there = RedisTasks(store, "there", post, ttl)
        self.outcomes = RedisEndings(store, post)

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
