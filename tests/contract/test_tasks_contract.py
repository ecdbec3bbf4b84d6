"""Asynchronous requests mean the same in one process and over a Redis."""

import asyncio

import pytest
from houses import EVERY_HOUSE, Build, House, ask, house_of

from penstock.errors import Conflict, NotFound
from penstock.ports import Task
from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Failure, Outcome, TaskStatus
from redis_servers import becomes

BROKEN = Failure("BACKEND_FAILED", "it broke", "because")


@pytest.fixture(params=EVERY_HOUSE)
def build(request: pytest.FixtureRequest, redis_urls: dict[str, str]) -> Build:
    return house_of(request.param, redis_urls)


async def accepted(house: House, tenant: str = "") -> tuple[Passenger, Task]:
    """A request, as the batcher has it by now."""
    before = len(house.inbox.requests)
    task = await house.accept(ask(tenant=tenant, task=True))
    await house.inbox.gets(before + 1)
    return house.inbox.requests[-1], task


async def succeed(house: House, request: Passenger, output: bytes = b'{"y": 1}') -> None:
    await house.end(request, Outcome.SUCCESS, output, None)


def test_a_task_is_pending_then_at_work_then_over_wherever_it_is_read(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            request, task = await accepted(house)
            assert (task.id, task.status, task.answer) == (request.request_id, TaskStatus.PENDING, None)
            for tasks in (house.tasks, house.elsewhere):
                assert (await tasks.find(task.id, "")).status is TaskStatus.PENDING
            await house.begin(request)
            began = await house.elsewhere.find(task.id, "")
            assert (began.status, began.answer) == (TaskStatus.PROCESSING, None)
            await succeed(house, request)
            for tasks in (house.tasks, house.elsewhere):
                over = await tasks.find(task.id, "")
                assert over.answer is not None
                assert (over.status, over.answer.output) == (TaskStatus.SUCCESS, b'{"y": 1}')
                assert over.answer.failure is None
                assert over.changed_at >= task.changed_at - 0.001

    asyncio.run(body())


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.EXPIRED])
def test_why_a_task_failed_is_kept(build: Build, outcome: Outcome) -> None:
    async def body() -> None:
        async with build() as house:
            request, task = await accepted(house)
            await house.end(request, outcome, b"", BROKEN)
            over = await house.elsewhere.find(task.id, "")
            assert over.answer is not None
            assert (over.status, over.answer.failure) == (TaskStatus(outcome.value), BROKEN)

    asyncio.run(body())


def test_the_first_ending_is_the_ending(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            request, task = await accepted(house)
            await succeed(house, request, b"1")
            await house.end(request, Outcome.FAILED, b"", BROKEN)
            await succeed(house, request, b"2")
            over = await house.tasks.find(task.id, "")
            assert over.answer is not None
            assert (over.status, over.answer.output) == (TaskStatus.SUCCESS, b"1")

    asyncio.run(body())


def test_an_id_that_is_taken_is_a_conflict_and_reaches_no_batcher(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            _, task = await accepted(house)
            second = ask(task=True)
            second.request_id = task.id
            with pytest.raises(Conflict, match=task.id):
                await house.accept(second)
            await accepted(house)
            assert second.key not in house.inbox.keys

    asyncio.run(body())


def test_to_another_tenant_a_task_does_not_exist(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            _, task = await accepted(house, tenant="anna")
            for tenant, name in (("bert", task.id), ("", task.id), ("anna", "never-was")):
                with pytest.raises(NotFound, match=name):
                    await house.elsewhere.find(name, tenant)
            assert (await house.elsewhere.find(task.id, "anna")).status is TaskStatus.PENDING

    asyncio.run(body())


def test_two_tenants_may_give_their_tasks_the_same_id_and_each_has_its_own(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            requests = [ask(tenant=tenant, task=True) for tenant in ("anna", "bert")]
            for number, request in enumerate(requests):
                request.request_id = "order-1"
                await house.accept(request)
                await house.inbox.gets(number + 1)
            anna, bert = sorted(house.inbox.requests, key=lambda request: request.tenant)
            await succeed(house, anna, b'"for anna"')
            over, still = [await house.elsewhere.find("order-1", tenant) for tenant in ("anna", "bert")]
            assert over.answer is not None
            assert (over.answer.output, still.status) == (b'"for anna"', TaskStatus.PENDING)
            await still.cancel()
            assert (await house.tasks.find("order-1", "anna")).status is TaskStatus.SUCCESS
            assert (await house.tasks.find("order-1", "bert")).status is TaskStatus.CANCELLED
            await succeed(house, bert, b'"late"')
            assert (await house.tasks.find("order-1", "bert")).status is TaskStatus.CANCELLED

    asyncio.run(body())


def test_everyone_who_waits_is_told_when_it_is_over(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            request, task = await accepted(house)
            found = [
                await tasks.find(task.id, "") for tasks in (house.tasks, house.elsewhere, house.elsewhere)
            ]
            waiting = [asyncio.create_task(each.wait(600.0)) for each in found]
            await asyncio.sleep(0)
            await succeed(house, request)
            await asyncio.wait_for(asyncio.gather(*waiting), 60)
            assert [each.status for each in found] == [TaskStatus.SUCCESS] * 3

    asyncio.run(body())


def test_waiting_ends_when_its_time_is_over_and_at_once_for_what_is_over(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            request, task = await accepted(house)
            await task.wait(0.01)
            assert task.status is TaskStatus.PENDING
            await succeed(house, request)
            over = await house.elsewhere.find(task.id, "")
            await asyncio.wait_for(over.wait(600.0), 60)
            assert over.status is TaskStatus.SUCCESS

    asyncio.run(body())


def test_what_is_cancelled_is_withdrawn_from_the_batcher_and_stays_cancelled(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            request, task = await accepted(house)
            found = await house.elsewhere.find(task.id, "")
            await found.cancel()
            assert found.status is TaskStatus.CANCELLED
            await house.inbox.gives_up(request)
            await succeed(house, request)  # a worker had it already
            over = await house.tasks.find(task.id, "")
            assert over.answer is not None
            assert over.answer.failure == Failure("CANCELLED", "cancelled by its asker")

    asyncio.run(body())


def test_cancelling_what_is_over_changes_nothing(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            request, task = await accepted(house)
            await succeed(house, request)
            found = await house.elsewhere.find(task.id, "")
            await found.cancel()
            assert found.status is TaskStatus.SUCCESS
            assert house.inbox.withdrawn == []

    asyncio.run(body())


def test_a_result_is_kept_for_its_time_and_what_is_pending_for_longer(build: Build) -> None:
    async def body() -> None:
        async with build(ttl=0.05) as house:
            request, task = await accepted(house)
            _, pending = await accepted(house)
            await succeed(house, request)
            gone: list[str] = []

            async def look() -> None:
                while not gone:
                    try:
                        await house.elsewhere.find(task.id, "")
                    except NotFound as error:
                        gone.append(error.message)
                    await asyncio.sleep(0.01)

            looking = asyncio.create_task(look())
            await becomes(looking.done)
            assert "older than 0.05 s" in gone[0]
            assert (await house.elsewhere.find(pending.id, "")).status is TaskStatus.PENDING

    asyncio.run(body())
