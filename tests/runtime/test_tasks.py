"""Asynchronous requests: bounded, evicted, forgotten in time, and nobody else's."""

import asyncio

import pytest
from runtime_kit import Door, ask

from penstock.errors import Conflict, NotFound, Overloaded, OverQuota
from penstock.runtime.reservation import Reserved
from penstock.share import OVERHEAD
from penstock.testing import run_virtual
from penstock.types import Ask, Failure, Outcome, Reply, TaskStatus


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


def test_a_result_that_was_fetched_makes_room_and_one_that_nobody_has_seen_is_kept() -> None:
    async def body() -> None:
        door = Door(max_tasks=3)
        for name in "abc":
            await submit(door, name)
        for number in (1, 0):
            door.answer(number)
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match=r"limits\.max_tasks is 3"):
            await submit(door, "d")
        for name in "ab":
            await door.gateway.find_task(name, None)
        await submit(door, "d")
        with pytest.raises(NotFound):
            await door.gateway.find_task("a", None)  # the first that was fetched
        assert [(await door.gateway.find_task(name, None)).id for name in "bcd"] == ["b", "c", "d"]
        assert len(door.tasks) == 3

    run_virtual(body())


def test_a_long_poll_that_was_answered_and_a_cancelled_task_make_room() -> None:
    async def body() -> None:
        door = Door(max_tasks=2)
        polled = await door.gateway.submit_task(Ask(b'"x"', request_id="polled"))
        cancelled = await door.gateway.submit_task(Ask(b'"x"', request_id="cancelled"))
        door.loop.call_later(1.0, door.answer, 0)
        await polled.wait(5.0)
        await cancelled.cancel()
        for name in "ab":
            await submit(door, name)
        assert len(door.tasks) == 2

    run_virtual(body())


def test_what_waits_and_what_is_kept_count_with_all_their_bytes() -> None:
    async def body() -> None:
        door = Door()
        await door.gateway.submit_task(Ask(b'"' + b"x" * 98 + b'"', request_id="t"))
        assert door.tasks.bytes == OVERHEAD + 100
        door.answer(output=b"x" * 40)
        assert door.tasks.bytes == OVERHEAD + 40
        await submit(door, "broken")
        failure = Failure("BACKEND_FAILED", "m" * 10, "d" * 20)
        door.gateway.waiters.settle([Reply(door.published[-1], Outcome.FAILED, failure=failure)])
        assert door.tasks.bytes == 2 * OVERHEAD + 70

    run_virtual(body())


def test_results_beyond_the_bytes_push_out_the_oldest_of_their_own_tenant() -> None:
    async def body() -> None:
        door = Door(max_bytes=100_000)
        await submit(door, "other", "bert")
        for name in "abc":
            await submit(door, name, "anna")
        for number in range(4):
            door.answer(number, b"x" * 15_000)
        with pytest.raises(NotFound):
            await door.gateway.find_task("a", "anna")
        kept = [("other", "bert"), ("b", "anna"), ("c", "anna")]
        assert [(await door.gateway.find_task(*each)).status for each in kept] == [TaskStatus.SUCCESS] * 3
        assert door.tasks.bytes == 3 * (OVERHEAD + 15_000)

    run_virtual(body())


def test_a_result_larger_than_all_may_be_is_not_kept_and_its_task_says_so() -> None:
    async def body() -> None:
        door = Door(max_bytes=10_000)
        task = await door.gateway.submit_task(Ask(b'"x"'))
        door.answer(output=b"x" * 10_000)
        assert task.answer is not None
        assert task.answer.failure is not None
        assert (task.status, task.answer.output) == (TaskStatus.FAILED, b"")
        assert "limits.max_task_bytes is 10000" in task.answer.failure.message
        assert door.tasks.bytes < 2 * OVERHEAD

    run_virtual(body())


def test_a_tenant_that_holds_its_share_is_refused_and_the_others_are_not() -> None:
    async def body() -> None:
        door = Door(max_tasks=10)
        for number in range(4):
            await submit(door, f"t{number}", "greedy")
        with pytest.raises(
            OverQuota, match=r"limits\.tenant_share is 0\.4, limits\.max_tasks is 10"
        ) as refused:
            await submit(door, "one more", "greedy")
        assert refused.value.retry_after == 7.0
        await submit(door, "mine", "modest")
        door.answer(0)
        await door.gateway.find_task("t0", "greedy")
        await submit(door, "one more", "greedy")
        assert len(door.tasks) == 5

    run_virtual(body())


def test_a_refused_task_gives_back_what_it_was_to_hold() -> None:
    async def body() -> None:
        door = Door()
        door.refusal = Overloaded("full")
        reserved = Reserved(ask(), door.desk, door.gateway.waiters, door.loop.time)
        with pytest.raises(Overloaded):
            await door.tasks.accept(reserved)
        assert (len(door.tasks), door.tasks.bytes) == (0, 0)

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
