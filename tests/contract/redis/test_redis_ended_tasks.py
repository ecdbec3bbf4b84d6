"""The end of a task reaches the ledger of a gateway that may never have heard of it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from redis_kit import ask, named, opened, running, until

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.link.names import TASK_BUCKETS, bucket_of
from penstock.adapters.redis.link.scripts import Script
from penstock.adapters.redis.records.ended_tasks import EndedTasks
from penstock.adapters.redis.records.idempotency import RedisClaims
from penstock.adapters.redis.records.task_endings import RedisEndings
from penstock.adapters.redis.records.task_scripts import MOST_ENDED
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.idempotency import Keyed
from penstock.ports.tasks import Ended, EndedTask
from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Failure, Outcome

FILL = Script("for _ = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'of', 'another version') end")
BROKEN = Failure("BACKEND_FAILED", "it broke")


class Ledger:
    """What one gateway wrote down, as far as it is allowed to."""

    def __init__(self, store: Store) -> None:
        self.rows: list[EndedTask] = []
        self.lost = 0
        self.chosen = True
        self.refusals = 0  # that are still to come
        self.stuck = False  # it has the rows, and never says so
        self.reader = EndedTasks(store, lambda: self.chosen, self._record, self._lose)

    async def _record(self, tasks: Sequence[EndedTask]) -> bool:
        if self.refusals:
            self.refusals -= 1
            return False
        self.rows += tasks
        if self.stuck:
            await asyncio.Event().wait()
        return True

    def _lose(self, rows: int) -> None:
        self.lost += rows

    @property
    def keys(self) -> list[str]:
        return sorted(row.key for row in self.rows)


class Tasks:
    """Whoever accepts, ends and cancels them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._tasks = RedisTasks(store, "gateway", Post(store), ttl=60.0)
        self._outcomes = RedisEndings(store, Post(store))

    async def new(self) -> Passenger:
        request = ask(task=True)
        request.tenant, request.tier = "acme", 1
        await self._tasks.create(request, limit=10.0)
        return request

    async def end(self, request: Passenger, failure: Failure | None = None) -> None:
        outcome = Outcome.SUCCESS if failure is None else Outcome.FAILED
        await self._outcomes.settle([Ended(named(request), outcome, b"1", failure)])

    async def cancel(self, request: Passenger) -> None:
        await self._tasks.cancel(request.request_id, "acme")

    async def waiting(self) -> int:
        """Ended, and in no ledger yet."""
        streams = [self.store.keys.ended(bucket) for bucket in range(TASK_BUCKETS)]
        return sum([await self.store.commands.xlen(stream) for stream in streams])

    async def expected(self) -> bool:
        """Somebody wants to hear of them."""
        streams = [self.store.keys.ended(bucket) for bucket in range(TASK_BUCKETS)]
        return all([await self.store.commands.exists(stream) for stream in streams])


@asynccontextmanager
async def scene(settings: RedisSettings) -> AsyncIterator[tuple[Tasks, Ledger]]:
    """Somebody reads, and can be told of ends from now on."""
    async with opened(settings) as store:
        tasks, ledger = Tasks(store), Ledger(store)
        async with running(ledger.reader.run()):
            await until(tasks.expected)
            yield tasks, ledger


def test_each_end_is_told_once_however_often_it_is_settled(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with scene(redis_settings) as (tasks, ledger):
            good, bad, cancelled = [await tasks.new() for _ in range(3)]
            for _ in range(2):
                await tasks.end(good)
                await tasks.end(bad, BROKEN)
                await tasks.cancel(cancelled)
                await tasks.end(cancelled)
            await until(lambda: len(ledger.rows) == 3)
            await until(lambda: _is_empty(tasks))
            found = {row.key: row for row in ledger.rows}
            assert [found[each.key].status for each in (good, bad, cancelled)] == [
                "SUCCESS",
                "BACKEND_FAILED",
                "CANCELLED",
            ]
            row = found[good.key]
            assert (row.task_id, row.tenant, row.tier, row.model) == (good.request_id, "acme", 1, "model")
            assert 0 < row.created <= row.completed

    asyncio.run(body())


async def _is_empty(tasks: Tasks) -> bool:
    return await tasks.waiting() == 0


def test_where_nobody_keeps_a_ledger_nothing_is_kept_for_one(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            tasks = Tasks(store)
            await tasks.end(await tasks.new())
            await tasks.cancel(await tasks.new())
            assert await tasks.waiting() == 0
            assert not await tasks.expected()

    asyncio.run(body())


def test_a_keyed_request_that_somebody_waits_for_is_not_told_and_a_keyed_task_is(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with scene(redis_settings) as (tasks, ledger):
            claims = RedisClaims(tasks.store, Post(tasks.store), 60.0, 1.0)
            for row in (False, True):
                request = ask(task=True)
                request.request_id = f"kept-{row}"
                keyed = Keyed(request.request_id, request.tenant, "fingerprint")
                assert (await claims.claim(keyed, request, "its own", 10.0, row=row)).ours
                await tasks.end(request)
            await until(lambda: [(row.key, row.task_id) for row in ledger.rows] == [(request.key, "its own")])
            await until(lambda: _is_empty(tasks))

    asyncio.run(body())


def test_what_the_ledger_had_no_room_for_is_told_again(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with scene(redis_settings) as (tasks, ledger):
            ledger.refusals = 1
            request = await tasks.new()
            await tasks.end(request)
            await until(lambda: ledger.keys == [request.key])
            await until(lambda: _is_empty(tasks))

    asyncio.run(body())


def test_what_one_read_and_did_not_live_to_acknowledge_the_next_one_reads(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            tasks, first, second = Tasks(store), Ledger(store), Ledger(store)
            first.stuck = True
            async with running(first.reader.run()):
                await until(tasks.expected)
                request = await tasks.new()
                await tasks.end(request)
                await until(lambda: first.keys == [request.key])
            async with running(second.reader.run()):
                await until(lambda: second.keys == [request.key])
                await until(lambda: _is_empty(tasks))

    asyncio.run(body())


def test_only_who_is_chosen_reads_and_begins_with_what_was_left(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            tasks, first, second = Tasks(store), Ledger(store), Ledger(store)
            second.chosen = False
            async with running(first.reader.run(), second.reader.run()):
                await until(tasks.expected)
                one = await tasks.new()
                await tasks.end(one)
                await until(lambda: first.keys == [one.key])
                first.chosen, second.chosen = False, True
                second.reader.look_again()
                other = await tasks.new()
                await tasks.end(other)
                await until(lambda: other.key in first.keys + second.keys)
                await until(lambda: _is_empty(tasks))
            assert one.key in first.keys

    asyncio.run(body())


def test_ends_that_nobody_takes_are_bounded_and_what_had_to_go_is_counted(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            tasks, first, second = Tasks(store), Ledger(store), Ledger(store)
            async with running(first.reader.run()):
                await until(tasks.expected)
            request = await tasks.new()
            stream = store.keys.ended(bucket_of(named(request)))
            await FILL(store.commands, [stream], [MOST_ENDED + 4])
            await tasks.end(request)
            assert await tasks.waiting() == MOST_ENDED
            async with running(second.reader.run()):
                await until(lambda: second.lost == 5)

    asyncio.run(body())
