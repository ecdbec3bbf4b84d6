"""Asynchronous requests: bounded, evicted, forgotten in time, and nobody else's."""

import asyncio

import pytest
from runtime_kit import Door

from penstock.errors import Conflict, NotFound, Overloaded
from penstock.testing import run_virtual
from penstock.types import Ask, TaskStatus


async def submit(door: Door, name: str, client: str | None = None) -> str:
    return (await door.gateway.submit_task(Ask(b'"x"', client_id=client, request_id=name))).id


def test_a_task_goes_from_pending_to_its_result() -> None:
    async def body() -> None:
        door = Door()
        task = await door.gateway.submit_task(Ask(b'"x"', request_id="t"))
        seen = []
        for waiting in (True, False):  # in the queue, on a worker
            door.published[0].waiting = waiting
            seen.append(task.status)
        assert seen == [TaskStatus.PENDING, TaskStatus.PROCESSING]
        await asyncio.sleep(1.0)
        door.answer(output=b"42")
        await asyncio.sleep(0)
        found = await door.gateway.find_task("t", None)
        assert (found, found.status) == (task, TaskStatus.SUCCESS)
        assert task.answer is not None
        assert (task.answer.output, task.changed_at) == (b"42", 1.0)

    run_virtual(body())


def test_a_result_is_forgotten_when_its_time_is_over() -> None:
    async def body() -> None:
        door = Door(ttl=60.0)
        await submit(door, "t")
        door.answer()
        await asyncio.sleep(59.9)
        await door.gateway.find_task("t", None)
        await asyncio.sleep(0.3)
        with pytest.raises(NotFound):
            await door.gateway.find_task("t", None)
        assert (len(door.tasks), door.tasks.bytes) == (0, 0)

    run_virtual(body())


def test_to_another_tenant_a_task_does_not_exist() -> None:
    async def body() -> None:
        door = Door()
        await submit(door, "t", "acme")
        assert (await door.gateway.find_task("t", "acme")).id == "t"
        for other in ("globex", None):
            with pytest.raises(NotFound) as hidden:
                await door.gateway.find_task("t", other)
            with pytest.raises(NotFound) as absent:
                await door.gateway.find_task("u", other)
            assert hidden.value.message.replace("'t'", "'u'") == absent.value.message

    run_virtual(body())


def test_when_all_are_pending_the_door_is_closed() -> None:
    async def body() -> None:
        door = Door(max_tasks=3)
        for name in "abc":
            await submit(door, name)
        with pytest.raises(Overloaded) as refused:
            await submit(door, "d")
        assert refused.value.retry_after == 7.0  # what waits now takes so long
        assert len(door.published) == 3

    run_virtual(body())


def test_the_oldest_finished_result_makes_room_for_a_new_task() -> None:
    async def body() -> None:
        door = Door(max_tasks=3)
        for name in "abc":
            await submit(door, name)
        door.answer(1)
        door.answer(0)
        await asyncio.sleep(0)
        await submit(door, "d")
        with pytest.raises(NotFound):
            await door.gateway.find_task("b", None)  # the first that was finished
        assert [(await door.gateway.find_task(name, None)).id for name in "acd"] == ["a", "c", "d"]
        assert len(door.tasks) == 3

    run_virtual(body())


def test_results_are_bounded_by_their_bytes_too() -> None:
    async def body() -> None:
        door = Door(max_bytes=100)
        for number, name in enumerate("abc"):
            await submit(door, name)
            door.answer(number, b"x" * 40)
            await asyncio.sleep(0)
        assert (len(door.tasks), door.tasks.bytes) == (2, 80)
        with pytest.raises(NotFound):
            await door.gateway.find_task("a", None)

    run_virtual(body())


def test_an_id_that_is_taken_is_refused_before_anything_is_queued() -> None:
    async def body() -> None:
        door = Door()
        await submit(door, "t")
        with pytest.raises(Conflict):
            await submit(door, "t")
        assert len(door.published) == 1

    run_virtual(body())


def test_a_cancelled_task_is_withdrawn_and_says_so() -> None:
    async def body() -> None:
        door = Door()
        task = await door.gateway.submit_task(Ask(b'"x"'))
        await task.cancel()
        await asyncio.sleep(0)
        assert (task.status, door.withdrawn) == (TaskStatus.CANCELLED, door.published)
        door.answer()  # from a worker that had it already
        await task.cancel()
        assert task.status is TaskStatus.CANCELLED

    run_virtual(body())


def test_a_long_poll_ends_with_the_result_or_with_its_time() -> None:
    async def body() -> None:
        door = Door()
        task = await door.gateway.submit_task(Ask(b'"x"', timeout=50.0))
        await task.wait(2.0)
        assert door.loop.time() == pytest.approx(2.0)
        assert task.answer is None
        door.loop.call_later(1.0, door.answer)
        await task.wait(20.0)
        assert door.loop.time() == pytest.approx(3.0)
        await asyncio.sleep(0)
        assert task.status is TaskStatus.SUCCESS
        await task.wait(20.0)
        assert door.loop.time() == pytest.approx(3.0)

    run_virtual(body())


def test_a_task_whose_deadline_passes_is_expired() -> None:
    async def body() -> None:
        door = Door()
        task = await door.gateway.submit_task(Ask(b'"x"', timeout=1.0))
        await asyncio.sleep(1.2)
        assert (task.status, door.withdrawn) == (TaskStatus.EXPIRED, door.published)

    run_virtual(body())
