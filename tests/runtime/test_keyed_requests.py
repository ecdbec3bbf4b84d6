"""Idempotency-Key in one process: one execution for one key, whoever asks, leaves and asks again."""

import asyncio

import pytest
from runtime_kit import Door

from penstock.errors import KeyReused, NotFound, Overloaded, OverQuota
from penstock.idempotency import Replay
from penstock.ports import Leaving
from penstock.share import OVERHEAD
from penstock.testing import Recorder, run_virtual
from penstock.types import Ask, Execution, Failure, Outcome, Reply, TaskStatus, WorkerId

BROKEN = Failure("BACKEND_FAILED", "it broke")
DRAINING = Failure("SERVICE_DRAINING", "going away", retry_after=1.0)
LATE = Failure("DEADLINE_EXCEEDED", "too late")


def say(door: Door, key: str = "k", text: bytes = b'"x"', **more: object) -> tuple[Recorder, Leaving]:
    recorder = Recorder()
    return recorder, door.gateway.submit_keyed(Ask(text, **more), key, recorder)  # type: ignore[arg-type]


def end(door: Door, failure: Failure, outcome: Outcome = Outcome.FAILED) -> None:
    door.gateway.waiters.settle([Reply(door.published[-1], outcome, failure=failure)])


async def soon() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_who_asks_again_is_given_the_first_outcome_and_nothing_is_executed() -> None:
    async def body() -> None:
        door = Door()
        first, _ = say(door, request_id="one")
        door.answer(output=b"42")
        assert first.answer.result().output == b"42"
        assert not isinstance(first.answer.result(), Replay)
        await asyncio.sleep(10.0)
        again, _ = say(door, request_id="two")
        await soon()
        told = again.answer.result()
        assert isinstance(told, Replay)
        assert (told.output, told.first_id, told.request.request_id) == (b"42", "one", "two")
        assert (len(door.published), len(door.gateway.waiters)) == (1, 0)

    run_virtual(body())


def test_who_asks_while_the_first_runs_is_answered_with_it() -> None:
    async def body() -> None:
        door = Door()
        askers = [say(door)[0] for _ in range(3)]
        assert not any(asker.answer.done() for asker in askers)
        door.answer(output=b"7")
        assert [asker.answer.result().output for asker in askers] == [b"7"] * 3
        assert [isinstance(asker.answer.result(), Replay) for asker in askers] == [False, True, True]
        assert (len(door.published), len(door.gateway.waiters)) == (1, 0)

    run_virtual(body())


def test_a_repeated_request_has_not_waited_for_what_was_done_before_it_came() -> None:
    async def body() -> None:
        door = Door()
        say(door)
        execution = Execution(WorkerId("w"), 1, 4, started=0.5, seconds=1.0)
        door.gateway.waiters.settle([Reply(door.published[0], Outcome.SUCCESS, b"1", None, execution)])
        await asyncio.sleep(9.0)
        again, _ = say(door)
        await soon()
        told = again.answer.result().execution
        assert told is not None
        assert (told.started, told.seconds, told.batch_size) == (9.0, 1.0, 4)
        assert execution.started == 0.5

    run_virtual(body())


@pytest.mark.parametrize("over", [False, True])
def test_the_same_key_with_another_meaning_is_a_conflict(over: bool) -> None:
    async def body() -> None:
        door = Door()
        say(door)
        if over:
            door.answer()
        with pytest.raises(KeyReused):
            say(door, text=b'"y"')
        assert len(door.published) == 1
        say(door, text=b'"y"', key="another")
        assert len(door.published) == 2

    run_virtual(body())


def test_time_limits_spelling_and_route_make_no_difference_to_what_is_asked() -> None:
    async def body() -> None:
        door = Door()
        say(door, text=b'{"a": 1, "b": "\\u00e9"}')
        say(door, text='{"b":"é","a":1}'.encode(), timeout=1.0, model="model", traceparent="00-1")
        assert len(door.published) == 1

    run_virtual(body())


def test_two_tenants_with_the_same_key_never_meet() -> None:
    async def body() -> None:
        door = Door()
        mine, _ = say(door, client_id="acme")
        theirs, _ = say(door, client_id="globex")
        door.answer(0, b"1")
        door.answer(1, b"2")
        assert (mine.answer.result().output, theirs.answer.result().output) == (b"1", b"2")
        task, _ = await door.gateway.submit_keyed_task(Ask(b'"x"', client_id="acme"), "k")
        with pytest.raises(NotFound):
            await door.gateway.find_task(task.id, "globex")

    run_virtual(body())


def test_the_execution_goes_on_when_its_first_asker_leaves() -> None:
    async def body() -> None:
        door = Door()
        first, leaving = say(door)
        second, leaving_too = say(door)
        leaving.left()
        leaving_too.left()
        assert door.withdrawn == [second.answer.result().request]  # which went nowhere
        again, _ = say(door)
        door.answer(output=b"5")
        assert again.answer.result().output == b"5"
        assert (first.answer.done(), len(door.published), len(door.gateway.waiters)) == (False, 1, 0)

    run_virtual(body())


def test_who_asks_again_has_a_deadline_of_its_own() -> None:
    async def body() -> None:
        door = Door()
        first, _ = say(door, timeout=50.0)
        hasty, _ = say(door, timeout=1.0)
        await asyncio.sleep(1.2)
        assert hasty.answer.result().outcome is Outcome.EXPIRED
        door.answer(output=b"5")
        assert first.answer.result().output == b"5"

    run_virtual(body())


@pytest.mark.parametrize(
    ("failure", "outcome", "kept"),
    [
        (BROKEN, Outcome.FAILED, True),
        (Failure("BACKEND_TIMEOUT", "hung"), Outcome.FAILED, True),
        (Failure("BACKEND_CRASHED", "died"), Outcome.FAILED, True),
        (Failure("BACKEND_UNAVAILABLE", "not taken"), Outcome.FAILED, False),
        (DRAINING, Outcome.FAILED, False),
        (Failure("SERVICE_OVERLOADED", "full"), Outcome.FAILED, False),
        (LATE, Outcome.EXPIRED, False),
    ],
)
def test_failures_of_the_execution_are_kept_and_those_of_the_server_are_not(
    failure: Failure, outcome: Outcome, kept: bool
) -> None:
    async def body() -> None:
        door = Door()
        _, attached = say(door)[0], say(door)[0]
        end(door, failure, outcome)
        assert attached.answer.result().failure == failure
        assert isinstance(attached.answer.result(), Replay) == kept
        again, _ = say(door)
        await soon()
        assert len(door.published) == (1 if kept else 2)
        if kept:
            assert (again.answer.result().outcome, again.answer.result().failure) == (outcome, failure)
        else:
            door.answer(output=b"9")
            assert again.answer.result().output == b"9"
            with pytest.raises(KeyReused):
                say(door, text=b'"y"')

    run_virtual(body())


def test_what_is_refused_at_the_door_leaves_its_key_free() -> None:
    async def body() -> None:
        door = Door()
        door.refusal = Overloaded("full", retry_after=3.0)
        with pytest.raises(Overloaded):
            say(door)
        assert (len(door.keyed), len(door.gateway.waiters)) == (0, 0)
        door.refusal = None
        first, _ = say(door, text=b'"y"')
        door.answer()
        door.refusal = Overloaded("full", retry_after=3.0)
        again, _ = say(door, text=b'"y"')  # it needs no room
        await soon()
        assert again.answer.result().output == first.answer.result().output

    run_virtual(body())


def test_a_key_is_free_again_when_its_time_is_over() -> None:
    async def body() -> None:
        door = Door(ttl=60.0)
        say(door)
        door.answer()
        task, again = await door.gateway.submit_keyed_task(Ask(b'"x"'), "k")
        assert again
        await asyncio.sleep(59.9)
        with pytest.raises(KeyReused):
            say(door, text=b'"y"')
        await asyncio.sleep(0.2)
        with pytest.raises(NotFound):
            await door.gateway.find_task(task.id, None)
        assert (len(door.keyed), door.keyed.bytes) == (0, 0)
        say(door, text=b'"y"')
        assert len(door.published) == 2

    run_virtual(body())


def test_the_oldest_outcomes_make_room_and_when_all_are_pending_the_door_is_closed() -> None:
    async def body() -> None:
        door = Door(max_tasks=2)
        say(door, "a")
        say(door, "b")
        with pytest.raises(Overloaded) as refused:
            say(door, "c")
        assert refused.value.retry_after == 7.0
        door.answer(1)
        door.answer(0)
        say(door, "c")
        assert len(door.keyed) == 2
        say(door, "a")
        assert len(door.published) == 3
        door.answer(2)
        say(door, "b")  # was forgotten: the oldest outcome, and executed again
        assert len(door.published) == 4

    run_virtual(body())


def test_outcomes_are_bounded_by_their_bytes_too() -> None:
    async def body() -> None:
        door = Door(max_bytes=2 * OVERHEAD + 100)
        for number, key in enumerate("abc"):
            say(door, key)
            door.answer(number, b"x" * 40)
        assert (len(door.keyed), door.keyed.bytes) == (2, 2 * OVERHEAD + 80)

    run_virtual(body())


def test_an_outcome_larger_than_all_may_be_is_told_and_not_kept() -> None:
    async def body() -> None:
        door = Door(max_bytes=10_000)
        first, _ = say(door)
        door.answer(output=b"x" * 10_000)
        assert len(first.answer.result().output) == 10_000
        assert (len(door.keyed), door.keyed.bytes) == (0, 0)

    run_virtual(body())


def test_no_tenants_keys_push_out_anothers() -> None:
    async def body() -> None:
        door = Door(max_tasks=10)
        say(door, "mine", client_id="modest")
        door.answer(output=b"42")
        for number in range(20):
            say(door, f"k{number}", client_id="greedy")
            door.answer()
        assert len(door.keyed) == 5
        again, _ = say(door, "mine", client_id="modest")
        await soon()
        assert isinstance(again.answer.result(), Replay)
        for number in range(4):
            say(door, f"new{number}", client_id="greedy")
        with pytest.raises(OverQuota, match=r"limits\.tenant_share"):
            say(door, "one more", client_id="greedy")

    run_virtual(body())


def test_parameters_count_while_it_runs_and_are_not_kept_with_its_outcome() -> None:
    async def body() -> None:
        door = Door(takes_parameters=True)
        say(door, parameters=b'{"a":1}')
        assert door.keyed.bytes == OVERHEAD + len(b'{"a":1}' + b'"x"')
        kept = door.published[0]
        door.answer(output=b"1")
        assert door.keyed.bytes == OVERHEAD + 1
        assert kept.parameters  # by which a queue finds it
        task, _ = await door.gateway.submit_keyed_task(Ask(b'"x"', parameters=b'{"a":1}'), "k")
        assert task.answer is not None
        assert task.answer.request.parameters == b""

    run_virtual(body())


def test_a_task_with_a_key_is_the_same_task_for_all_who_ask_for_it() -> None:
    async def body() -> None:
        door = Door()
        task, again = await door.gateway.submit_keyed_task(Ask(b'"x"', request_id="mine"), "k")
        other, too = await door.gateway.submit_keyed_task(Ask(b'"x"'), "k")
        waits, _ = say(door)
        assert (again, too, other.id, len(door.published)) == (False, True, task.id, 1)
        found = await door.gateway.find_task(task.id, None)
        assert found.status is TaskStatus.PROCESSING
        door.answer(output=b"3")
        await found.wait(5.0)
        assert found.answer is not None
        assert (found.status, found.answer.output, waits.answer.result().output) == (
            TaskStatus.SUCCESS,
            b"3",
            b"3",
        )

    run_virtual(body())


def test_a_cancelled_task_stays_cancelled_for_who_asks_again() -> None:
    async def body() -> None:
        door = Door()
        task, _ = await door.gateway.submit_keyed_task(Ask(b'"x"'), "k")
        await task.cancel()
        again, _ = say(door)
        await soon()
        assert again.answer.result().outcome is Outcome.CANCELLED
        assert door.withdrawn == door.published

    run_virtual(body())


def test_draining_waits_for_those_who_asked_with_a_key() -> None:
    async def body() -> None:
        door = Door()
        first, _ = say(door)
        attached, _ = say(door)
        door.loop.call_later(1.0, door.answer)
        assert await door.gateway.drained(3.0)
        assert (first.answer.done(), attached.answer.done(), door.loop.time()) == (True, True, 1.0)
        assert len(door.observed.replies) == 2

    run_virtual(body())
