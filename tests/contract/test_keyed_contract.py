"""An Idempotency-Key means the same in one process and at gateways that share a Redis."""

import asyncio

import pytest
from houses import EVERY_HOUSE, Build, House, KeyedDoor, ask, house_of

from penstock.errors import KeyReused, Overloaded
from penstock.idempotency import Replay, keyed
from penstock.ports import Leaving
from penstock.testing import Recorder
from penstock.types import Failure, Outcome, Reply, Request, TaskStatus

BROKEN = Failure("BACKEND_FAILED", "it broke", "because")
DRAINING = Failure("SERVICE_DRAINING", "going away")


@pytest.fixture(params=EVERY_HOUSE)
def build(request: pytest.FixtureRequest, redis_urls: dict[str, str]) -> Build:
    return house_of(request.param, redis_urls)


def say(
    door: KeyedDoor, text: bytes = b'"x"', *, key: str = "k", tenant: str = "", limit: float = 100.0
) -> tuple[Recorder, Leaving, Request]:
    recorder, request = Recorder(), ask(text, tenant=tenant, limit=limit)
    return recorder, door.ask(keyed(key, request), request, recorder), request


async def told(recorder: Recorder) -> Reply:
    async with asyncio.timeout(60.0):  # of a hang
        return await recorder.answer


async def failure_of(door: KeyedDoor, text: bytes = b'"x"', *, key: str = "k") -> str:
    """The code of the refusal, whether it comes at once or after a while."""
    try:
        reply = await told(say(door, text, key=key)[0])
    except Exception as error:
        return getattr(error, "code", "")
    return "" if reply.failure is None else reply.failure.code


async def succeed(house: House, number: int = -1, output: bytes = b'{"y":1}') -> None:
    await house.end(house.inbox.requests[number], Outcome.SUCCESS, output, None)


def test_one_execution_answers_all_who_ask_wherever_they_ask(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            first, _, asked = say(house.door)
            await house.inbox.gets(1)
            others = [say(door)[0] for door in (house.door, house.back_door, house.back_door)]
            await succeed(house)
            answer = await told(first)
            assert (answer.outcome, answer.output) == (Outcome.SUCCESS, b'{"y":1}')
            assert not isinstance(answer, Replay)
            late = [say(door)[0] for door in (house.door, house.back_door)]
            for other in [*others, *late]:
                again = await told(other)
                assert isinstance(again, Replay)
                assert (again.output, again.first_id) == (b'{"y":1}', asked.request_id)
            assert len(house.inbox.requests) == 1

    asyncio.run(body())


def test_a_race_has_one_winner_and_everybody_its_answer(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            askers = [say(door)[0] for door in (house.door, house.back_door) * 20]
            await house.inbox.gets(1)
            await succeed(house)
            answers = [await told(asker) for asker in askers]
            assert {answer.output for answer in answers} == {b'{"y":1}'}
            assert sum(not isinstance(answer, Replay) for answer in answers) == 1
            assert len(house.inbox.requests) == 1

    asyncio.run(body())


def test_the_same_key_with_another_body_is_a_conflict_everywhere(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            first, *_ = say(house.door)
            await house.inbox.gets(1)
            for over in (False, True):
                if over:
                    await succeed(house)
                    await told(first)
                for door in (house.door, house.back_door):
                    assert await failure_of(door, b'"y"') == "IDEMPOTENCY_CONFLICT"
            assert len(house.inbox.requests) == 1

    asyncio.run(body())


def test_two_tenants_with_the_same_key_never_meet(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            for number, tenant in enumerate(("anna", "bert")):
                asker, *_ = say(house.door, tenant=tenant)
                await house.inbox.gets(number + 1)
                await succeed(house, output=tenant.encode())
                assert (await told(asker)).output == tenant.encode()
            again = await told(say(house.back_door, tenant="anna")[0])
            assert again.output == b"anna"

    asyncio.run(body())


def test_the_execution_goes_on_when_the_first_asker_leaves(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            _, leaving, _ = say(house.door)
            await house.inbox.gets(1)
            leaving.left()
            again, *_ = say(house.back_door)
            await succeed(house)
            assert (await told(again)).output == b'{"y":1}'
            assert (len(house.inbox.requests), house.inbox.withdrawn) == (1, [])

    asyncio.run(body())


@pytest.mark.parametrize(
    ("outcome", "failure", "kept"),
    [
        (Outcome.FAILED, BROKEN, True),
        (Outcome.FAILED, DRAINING, False),
        (Outcome.EXPIRED, Failure("DEADLINE_EXCEEDED", "too late"), False),
    ],
)
def test_a_failed_execution_is_kept_and_what_the_server_could_not_do_is_not(
    build: Build, outcome: Outcome, failure: Failure, kept: bool
) -> None:
    async def body() -> None:
        async with build() as house:
            first, *_ = say(house.door)
            await house.inbox.gets(1)
            await house.end(house.inbox.requests[0], outcome, b"", failure)
            answer = await told(first)
            assert answer.failure is not None
            assert (answer.outcome, answer.failure.code) == (outcome, failure.code)
            again, *_ = say(house.back_door)
            if not kept:
                await house.inbox.gets(2)
                await succeed(house)
            second = await told(again)
            assert second.outcome is (outcome if kept else Outcome.SUCCESS)
            assert isinstance(second, Replay) == kept
            assert len(house.inbox.requests) == (1 if kept else 2)

    asyncio.run(body())


def test_what_is_refused_at_the_door_leaves_its_key_free(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            house.door.refusal = Overloaded("full", retry_after=3.0)
            assert await failure_of(house.door) == "SERVICE_OVERLOADED"
            house.door.refusal = house.back_door.refusal = None
            asker, *_ = say(house.back_door, b'"another"')
            await house.inbox.gets(1)
            await succeed(house)
            assert (await told(asker)).outcome is Outcome.SUCCESS

    asyncio.run(body())


def test_a_task_with_a_key_is_one_task_wherever_it_is_asked_for(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            one, two = ask(), ask()
            task, again = await house.door.ask_task(keyed("k", one), one)
            other, too = await house.back_door.ask_task(keyed("k", two), two)
            assert (again, too, task.id) == (False, True, other.id)
            await house.inbox.gets(1)
            waits, *_ = say(house.back_door)
            await succeed(house)
            await other.wait(60.0)
            assert other.answer is not None
            assert (other.status, other.answer.output) == (TaskStatus.SUCCESS, b'{"y":1}')
            assert (await told(waits)).output == b'{"y":1}'
            assert len(house.inbox.requests) == 1

    asyncio.run(body())


def test_who_asks_is_answered_by_its_own_deadline(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            first, *_ = say(house.door)
            await house.inbox.gets(1)
            hasty, *_ = say(house.back_door, limit=0.1)
            assert (await told(hasty)).outcome is Outcome.EXPIRED
            await succeed(house)
            assert (await told(first)).outcome is Outcome.SUCCESS

    asyncio.run(body())


def test_a_key_is_free_again_when_its_time_is_over(build: Build) -> None:
    async def body() -> None:
        async with build(ttl=0.05) as house:
            one, another = ask(), ask(b'"another"')
            await house.door.ask_task(keyed("k", one), one)
            await house.inbox.gets(1)
            await succeed(house)
            async with asyncio.timeout(60.0):
                while True:
                    try:
                        task, again = await house.back_door.ask_task(keyed("k", another), another)
                        break
                    except KeyReused:
                        await asyncio.sleep(0.01)
            assert (task.status, again) == (TaskStatus.PENDING, False)
            await house.inbox.gets(2)

    asyncio.run(body())
