"""What observers are told, and by when."""

import asyncio

import pytest
from runtime_kit import WORKER, Station, ask

from penstock.errors import BackendUnavailable, BatchRejected
from penstock.moments import moments_of
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Execution, Failure, Outcome, Reply, WorkerId


def test_every_moment_of_a_request_is_known_in_one_process() -> None:
    async def body() -> None:
        station = Station(MockBackend([Answer(0.5)] * 2))
        async with station.running():
            station.ask()
            await asyncio.sleep(0.2)
            late = station.ask()  # waits for the first
            await asyncio.sleep(1.0)
        answered, reply = station.replies[-1]
        assert reply.request is late
        assert moments_of(reply, answered) == pytest.approx((0.201, 0.201, 0.501, 0.501, 0.501, 1.001, 1.001))

    run_virtual(body())


def test_a_batch_is_told_of_when_it_is_sent_and_once_when_it_has_ended_well_or_not() -> None:
    async def body() -> None:
        gone = BackendUnavailable("nobody is there")
        station = Station(MockBackend([Answer(0.5, error=gone), Answer(0.5)]))
        async with station.running():
            station.ask()
            await asyncio.sleep(5.0)
        observed = station.observed
        assert [batch.retry for batch in observed.batches] == [False, True]
        failed, well = observed.endings
        assert [each[0] for each in observed.endings] == observed.batches
        assert (failed[2], well[2]) == (Failure.of(gone), None)
        assert (failed[1].worker, round(failed[1].seconds, 3)) == (WORKER, 0.5)
        assert observed.gone == []

    run_virtual(body())


def test_who_failed_for_good_is_told_of_before_the_answer_with_every_attempt() -> None:
    async def body() -> None:
        error = BatchRejected("no")
        station = Station(MockBackend([Answer(0.1, error=error)] * 3))
        heard: list[int] = []
        station.deliver = lambda replies: heard.append(len(station.observed.gone))
        async with station.running():
            station.ask()
            await asyncio.sleep(5.0)
        [given_up] = station.observed.gone
        assert (given_up.executions, len(given_up.history), heard) == (3, 3, [1])

    run_virtual(body())


def test_what_never_ran_or_was_given_again_has_no_moments_of_a_batch() -> None:
    request = ask(1.0)
    cached = Execution(WorkerId(""), 0, 0, 1.0, 0.0, cached=True)
    for reply in (
        Reply(request, Outcome.EXPIRED, failure=Failure("DEADLINE_EXCEEDED", "late")),
        Reply(request, Outcome.SUCCESS, b"1", None, cached),
    ):
        assert moments_of(reply, 2.0) == (1.0, 1.0, None, None, None, None, 2.0)
