"""Idempotency-Key in Redis: one gateway has the claim, and no key is stuck when that one dies."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.exceptions import ResponseError
from redis_kit import ask, opened, until

from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.link.gathered import MOST, Gathered
from penstock.adapters.redis.link.scripts import Argument, Script
from penstock.adapters.redis.records.holdings import keyed
from penstock.adapters.redis.records.idempotency import RedisClaims
from penstock.adapters.redis.records.idempotency_scripts import CLAIM, FORGET, PLACE
from penstock.adapters.redis.records.task_endings import RedisEndings
from penstock.adapters.redis.records.task_scripts import WATCH
from penstock.adapters.redis.records.tasks import RedisTasks
from penstock.errors import StoreDown
from penstock.idempotency import Keyed
from penstock.ports.tasks import Ended
from penstock.types import Failure, Outcome, TaskStatus
from penstock.words.messages import Notice, decode, encode_execution, task_name
from redis_servers import becomes, running

KEEP, BRIEF, HOUR = 60_000, 5_000, 3_600_000
NAME = Keyed("~1", "anna", "f1")
TASK = task_name(NAME.tenant, NAME.id)


class Kit:
    """The scripts as gateways call them, with times of the test's own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.names = [store.keys.task(TASK), store.keys.watch(TASK)]
        self.held = store.keys.held(TASK)
        self.outcomes = RedisEndings(store, Post(store))

    async def claim(
        self, by: str, *, tenant: str = "anna", fingerprint: str = "f1", place_ms: int = HOUR, ms: int = HOUR
    ) -> list[Any]:
        arguments: list[Argument] = [
            tenant, by, "model", KEEP, BRIEF, fingerprint, f"id of {by}", place_ms, ms, 100,
            *keyed().arguments(self.store),
        ]  # fmt: skip
        answer: list[Any] = await CLAIM(self.store.commands, [self.names[0], *self.held], arguments)
        return answer

    async def place(self, by: str) -> list[Any]:
        answer: list[Any] = await PLACE(self.store.commands, self.names, [by, 3])
        return answer

    async def forget(self, by: str) -> list[Any]:
        answer: list[Any] = await FORGET(self.store.commands, [*self.names, *self.held], [by])
        return answer

    async def end(self, outcome: Outcome, failure: Failure | None = None) -> None:
        await self.outcomes.settle([Ended(TASK, outcome, b"1", failure)])

    async def field(self, name: str) -> Any:
        return await self.store.commands.execute_command("HGET", self.names[0], name)

    async def kept_ms(self) -> int:
        left: int = await self.store.commands.execute_command("PTTL", self.names[0])
        return left


@asynccontextmanager
async def kit(settings: RedisSettings) -> AsyncIterator[Kit]:
    async with opened(settings) as store:
        yield Kit(store)


def test_the_first_has_it_and_the_others_are_told_how_it_stands(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as redis:
            assert await redis.claim("a") == [b"ours"]
            held, left, placed = await redis.claim("b")
            assert (held, 0 < left <= HOUR, placed) == (b"held", True, 0)
            assert await redis.claim("a") == [b"ours"]  # its first answer got lost
            assert await redis.place("a") == [1]
            assert (await redis.claim("a"))[::2] == (await redis.claim("b"))[::2] == [b"held", 1]
            await redis.end(Outcome.SUCCESS)
            assert await redis.claim("a") == await redis.claim("b") == [b"over"]
            assert BRIEF < await redis.kept_ms() <= KEEP

    asyncio.run(body())


def test_another_request_or_tenant_with_the_key_is_told_apart(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as redis:
            await redis.claim("a")
            for _ in range(2):
                assert await redis.claim("b", fingerprint="f2") == [b"other"]
                assert await redis.claim("b", tenant="bert") == [b"other"]
                await redis.end(Outcome.SUCCESS)

    asyncio.run(body())


def test_a_claim_runs_out_and_who_had_it_can_do_nothing_more(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as redis:
            await redis.claim("a", place_ms=0)
            assert await redis.claim("b", fingerprint="f2") == [b"other"]
            assert await redis.claim("b", ms=0) == [b"ours"]
            assert await redis.place("a") == [0]
            assert await redis.forget("a") == [0]
            assert await redis.field("shard") is None
            assert await redis.place("b") == [1]  # its time is over too, and nobody has ended it
            assert await redis.claim("c") == [b"ours"]
            assert (await redis.field("key"), await redis.field("shard")) == (b"c", None)

    asyncio.run(body())


def test_what_is_being_processed_has_been_placed_whether_that_was_said_or_not(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with kit(redis_settings) as redis:
            await redis.claim("a", place_ms=0)
            await redis.outcomes.processing([TASK])
            assert (await redis.claim("b"))[::2] == [b"held", 1]

    asyncio.run(body())


@pytest.mark.parametrize(
    ("outcome", "code", "lasts"),
    [
        (Outcome.FAILED, "BACKEND_FAILED", True),
        (Outcome.CANCELLED, "CANCELLED", True),
        (Outcome.FAILED, "SERVICE_OVERLOADED", False),
        (Outcome.EXPIRED, "DEADLINE_EXCEEDED", False),
    ],
)
def test_an_outcome_that_does_not_last_frees_the_key_and_is_kept_briefly(
    redis_settings: RedisSettings, outcome: Outcome, code: str, lasts: bool
) -> None:
    async def body() -> None:
        async with kit(redis_settings) as redis:
            await redis.claim("a")
            await redis.end(outcome, Failure(code, "words"))
            assert (await redis.kept_ms() > BRIEF) == lasts
            assert await redis.claim("b", fingerprint="f2") == ([b"other"] if lasts else [b"ours"])
            assert await redis.field("code") == (code.encode() if lasts else None)

    asyncio.run(body())


def test_who_watches_is_told_when_it_is_placed_or_forgotten(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with kit(redis_settings) as redis:
            await redis.claim("a")
            await WATCH(redis.store.commands, [*redis.names, *redis.held], ["there", HOUR])
            assert await redis.place("a") == [1, b"there"]
            assert await redis.forget("a") == [1, b"there"]
            assert await redis.forget("a") == [0]
            assert await redis.claim("b") == [b"ours"]
            await redis.end(Outcome.SUCCESS)
            assert await redis.forget("b") == [0]  # what is over stays

    asyncio.run(body())


def test_the_record_tells_who_asked_first_and_how_it_was_executed(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            post, request = Post(store), ask(task=True)
            claims, box = RedisClaims(store, post, 60.0, 5.0), Mailbox(store, "there")
            await box.create()
            tasks = RedisTasks(store, "there", post, 60.0)
            notices: list[Notice] = []

            def hear(payload: bytes) -> None:
                message = decode(payload)
                assert isinstance(message, Notice)
                notices.append(message)
                tasks.notice(message)

            async with running(box.run(hear)):
                assert (await claims.claim(NAME, request, "mine", 10.0)).ours
                waiting = asyncio.create_task(tasks.wait(NAME.id, "anna", 60.0))
                await becomes(lambda: bool(tasks._pollers))
                watched = store.keys.watch(TASK)
                await until(lambda: _exists(store, watched))
                request.shard = 3
                await claims.placed(NAME, request)
                record = await waiting  # woken, though it is not over
                assert (record.status, record.asked, record.answer) == (TaskStatus.PENDING, "mine", None)
                assert [notice.status for notice in notices] == [TaskStatus.PENDING]
            execution = encode_execution("w", 7, 4, 0.5, "v2")
            await RedisEndings(store, post).settle([Ended(TASK, Outcome.SUCCESS, b"1", execution=execution)])
            over = await tasks.find(NAME.id, "anna")
            assert over.answer is not None
            found = over.answer.execution
            assert found is not None
            assert (found.worker, found.batch_id, found.batch_size, found.seconds) == ("w", 7, 4, 0.5)
            assert found.version == "v2"

    asyncio.run(body())


async def _exists(store: Store, key: str) -> bool:
    return bool(await store.commands.execute_command("EXISTS", key))


# ---- many calls at once ------------------------------------------------------------------------------------


def test_calls_at_once_go_together_and_each_gets_its_own_answer(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            trips: list[int] = []
            left = asyncio.Event()

            class Counted(Script):
                async def each(self, store: Store, calls: Sequence[Any]) -> list[Any]:
                    trips.append(len(calls))
                    left.set()
                    return await super().each(store, calls)

            call = Gathered(Counted("if ARGV[1] == '7' then return {err = 'no'} end return ARGV[1]"), store)
            many = MOST + 10
            tasks = [asyncio.create_task(call([store.keys.task(str(n))], [n])) for n in range(many)]
            await asyncio.sleep(0)
            tasks[3].cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(answers[3], asyncio.CancelledError)
            assert isinstance(answers[7], ResponseError)
            others = [n for n in range(many) if n not in (3, 7)]
            assert [answers[n] for n in others] == [str(n).encode() for n in others]
            assert trips == [MOST, 10]
            left.clear()
            alone = asyncio.create_task(call([store.keys.task("x")], ["alone"]))
            await asyncio.wait_for(left.wait(), 60.0)
            # This one comes while the other is on its way.
            assert await call([store.keys.task("x")], ["next"]) == b"next"
            assert await alone == b"alone"
            assert trips[2:] == [1, 1]

    asyncio.run(body())


def test_a_store_that_closes_ends_the_trips_under_way_and_their_callers_hear_of_it(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            call = Gathered(Script("return ARGV[1]"), store)
            many = [asyncio.create_task(call([store.keys.task(str(n))], [n])) for n in range(MOST + 10)]
            await asyncio.sleep(0)  # the first are on their way, the others wait for the next trip
        told = await asyncio.gather(*many, return_exceptions=True)
        assert {type(each) for each in told} == {StoreDown}
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(body())
