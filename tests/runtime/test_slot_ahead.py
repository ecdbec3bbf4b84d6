"""A slot that is handed its next batch while it runs one."""

import asyncio
import logging

import pytest
from runtime_kit import Station

from penstock.core.ahead import LEAD
from penstock.core.queued import Queued
from penstock.errors import BackendCrashed, BatchRejected
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Outcome

SECONDS = 0.1  # that a batch of two takes
USUAL = Answer(SECONDS)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Failing backends are what is wanted here."""
    caplog.set_level(logging.CRITICAL, "penstock.worker")


def station(backend: MockBackend, *, processing_limit: float = 3.0) -> Station:
    return Station(backend, max_batch=2, ahead=True, processing_limit=processing_limit)


async def busy(running: Station, batches: int = 2) -> float:
    """A batch runs that is not the worker's first, and so many in all are asked for. Gives when it began."""
    for _ in range(2):
        running.ask()
    await asyncio.sleep(2 * SECONDS)
    running.replies.clear()
    for _ in range(2 * batches):
        running.ask()
    return running.loop.time()


def ended(running: Station, since: float) -> list[float]:
    return [round((at - since) / SECONDS, 6) for at, _ in running.replies]


def test_the_backend_has_the_next_batch_before_it_ends_one_and_begins_it_at_once() -> None:
    async def body() -> None:
        backend = MockBackend([USUAL], runs_ahead=True)
        async with station(backend).running() as running:
            began = await busy(running, 3)
            await asyncio.sleep(SECONDS - LEAD - 0.001)
            assert (backend.given, len(backend.batches)) == (2, 2)
            await asyncio.sleep(0.002)
            assert (backend.given, len(backend.batches)) == (3, 2)
            await asyncio.sleep(1.0)
        assert ended(running, began) == [1, 1, 2, 2, 3, 3]
        starts = [round((batch.sent - began) / SECONDS, 6) for batch in running.observed.batches]
        assert starts[1:] == [0, 1, 2]
        executions = [execution for _, execution, _ in running.observed.endings]
        assert [execution.seconds for execution in executions] == pytest.approx([SECONDS] * len(executions))

    run_virtual(body())


def test_what_is_handed_over_in_one_go_is_given_in_one_go() -> None:
    async def body() -> None:
        short = LEAD / 4
        backend = MockBackend([Answer(short)], runs_ahead=True)
        async with station(backend).running() as running:
            await busy(running, 4)
            await asyncio.sleep(0.9 * short)
            assert (backend.given, len(backend.batches)) == (3, 2)
            await asyncio.sleep(1.0)
            assert len(running.replies) == 8

    run_virtual(body())


def test_a_backend_that_takes_one_at_a_time_is_given_the_next_when_the_first_has_ended() -> None:
    async def body() -> None:
        backend = MockBackend([USUAL])
        async with station(backend).running() as running:
            began = await busy(running, 3)
            await asyncio.sleep(1.0)
        assert ended(running, began) == [1, 1, 2, 2, 3, 3]

    run_virtual(body())


def test_the_time_limit_of_the_next_batch_begins_when_the_one_before_has_ended() -> None:
    async def body() -> None:
        backend = MockBackend([USUAL], runs_ahead=True)
        async with station(backend, processing_limit=1.1 * SECONDS).running() as running:
            began = await busy(running, 4)
            await asyncio.sleep(1.0)
        assert ended(running, began) == [1, 1, 2, 2, 3, 3, 4, 4]
        assert backend.starts == 1

    run_virtual(body())


@pytest.mark.parametrize("how", ["crash", "hang"])
def test_what_was_in_a_lost_backend_s_hands_goes_again_and_what_it_had_not_begun_has_had_no_attempt(
    how: str,
) -> None:
    async def body() -> None:
        lost = Answer(SECONDS, error=BackendCrashed("gone")) if how == "crash" else Answer(float("inf"))
        backend = MockBackend([USUAL, lost, USUAL], runs_ahead=True)
        async with station(backend, processing_limit=5 * SECONDS).running() as running:
            await busy(running, 2)
            await asyncio.sleep(SECONDS - LEAD + 0.001)
            assert backend.given == 3
            await asyncio.sleep(60.0)
        assert [reply.outcome for _, reply in running.replies] == [Outcome.SUCCESS] * 4
        assert backend.starts == 2
        requests = [reply.request for _, reply in running.replies]
        executions = sorted(request.executions for request in requests if isinstance(request, Queued))
        assert executions == [0, 0, 1, 1]

    run_virtual(body())


def test_a_batch_that_is_refused_does_not_stop_the_next() -> None:
    async def body() -> None:
        backend = MockBackend([USUAL, Answer(SECONDS, error=BatchRejected("no")), USUAL], runs_ahead=True)
        async with station(backend).running() as running:
            began = await busy(running, 2)
            await asyncio.sleep(1.0)
        assert ended(running, began) == [2, 2, 3, 4]
        assert backend.starts == 1

    run_virtual(body())


def test_a_successor_takes_over_although_full_batches_wait() -> None:
    async def body() -> None:
        old, new = MockBackend([USUAL], runs_ahead=True), MockBackend([USUAL], runs_ahead=True)
        async with station(old).running() as running:
            began = await busy(running, 6)
            await asyncio.sleep(SECONDS - LEAD + 0.001)
            assert await running.slot.prepare(new) is None
            running.slot.renew(new)
            await asyncio.sleep(2.0)
        assert ended(running, began) == [n for n in range(1, 7) for _ in range(2)]
        assert (len(old.batches), len(new.batches)) == (1 + 2, 4)
        assert old.closes == 1

    run_virtual(body())


def test_a_backend_that_is_nearly_full_has_its_pause_although_full_batches_wait() -> None:
    async def body() -> None:
        backend = MockBackend([USUAL, Answer(SECONDS, pressure=0.95)], pressures=[0.95, 0.0], runs_ahead=True)
        async with station(backend).running() as running:
            await busy(running, 6)
            await asyncio.sleep(2 * SECONDS + 0.01)
            assert running.slot.full
            assert len(running.replies) == 4, "the one that it had in hand already was run"
            await asyncio.sleep(60.0)
        assert [reply.outcome for _, reply in running.replies] == [Outcome.SUCCESS] * 12

    run_virtual(body())


def test_when_it_is_stopped_nothing_is_left_running() -> None:
    async def body() -> None:
        backend = MockBackend([USUAL], runs_ahead=True)
        async with station(backend).running() as running:
            await busy(running, 3)
            await asyncio.sleep(SECONDS - LEAD + 0.001)
            assert backend.given == 3
        await asyncio.sleep(0)
        assert backend.closes == 1
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(body())


def test_a_result_is_the_same_for_one_that_was_handed_over_ahead() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(SECONDS, outputs=(b"1", b"2"))], runs_ahead=True)
        async with station(backend).running() as running:
            await busy(running, 3)
            await asyncio.sleep(1.0)
        assert [reply.output for _, reply in running.replies] == [b"1", b"2"] * 3

    run_virtual(body())
