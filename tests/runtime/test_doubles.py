"""The test doubles that are shipped, tested themselves."""

import asyncio

import pytest
from runtime_kit import answer, ask

from penstock.errors import BackendUnavailable, BatchRejected
from penstock.ports import Asker, Backend
from penstock.testing import Answer, MockBackend, Recorder, VirtualClock, VirtualLoop, run_virtual
from penstock.types import Batch, Reason, Request

MONTH = 30 * 24 * 3600.0


def batch_of(*requests: Request) -> Batch:
    return Batch(1, "model", b"", list(requests), Reason.FULL, 0.0)


def test_a_month_passes_at_once_and_in_order() -> None:
    async def body() -> list[float]:
        loop, fired = asyncio.get_running_loop(), list[float]()
        for seconds in (3.0, MONTH, 1.0):
            loop.call_later(seconds, lambda: fired.append(loop.time()))
        await asyncio.sleep(MONTH + 1.0)
        return fired

    assert run_virtual(body()) == pytest.approx([1.0, 3.0, MONTH])


def test_a_wait_for_ever_is_an_error_instead() -> None:
    async def body() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="wait for ever"):
        run_virtual(body())


def test_more_than_six_weeks_are_an_error_rather_than_a_hang() -> None:
    ended = []

    async def body() -> None:
        try:
            await asyncio.sleep(2 * MONTH)
        finally:
            ended.append(True)

    with pytest.raises(RuntimeError, match="six weeks"):
        run_virtual(body())
    assert ended, "a task that is left pending is destroyed at some other test's time"


def test_the_loop_goes_by_the_clock_it_is_given() -> None:
    clock = VirtualClock(1000.0)
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(asyncio.sleep(5.0))
    assert clock() == 1005.0


def test_a_mock_backend_plays_its_script_and_then_its_last_line_again() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(2.0, outputs=(b"1",)), Answer(error=BatchRejected("no")), Answer()])
        batch = batch_of(ask())
        assert (await backend.run(batch)).outputs == [b"1"]
        assert asyncio.get_running_loop().time() == 2.0
        with pytest.raises(BatchRejected):
            await backend.run(batch)
        for _ in range(2):
            assert (await backend.run(batch)).outputs == [b'"x"']
        assert backend.batches == [batch] * 4

    run_virtual(body())


def test_a_mock_backend_starts_and_is_probed_as_it_is_told() -> None:
    async def body() -> None:
        no = BackendUnavailable("not there")
        mock = MockBackend(start_errors=[no], probe_errors=[None, no], start_seconds=1.0)
        backend: Backend = mock
        with pytest.raises(BackendUnavailable):
            await backend.start()
        await backend.start()
        await backend.probe()
        with pytest.raises(BackendUnavailable):
            await backend.probe()
        await backend.close()
        assert (mock.starts, mock.probes, mock.closes) == (2, 2, 1)

    run_virtual(body())


def test_a_recorder_keeps_its_one_answer() -> None:
    async def body() -> None:
        recorder, reply = Recorder(), answer(ask())
        asker: Asker = recorder
        asker.reply(reply)
        assert await recorder.answer is reply
        with pytest.raises(asyncio.InvalidStateError):
            asker.reply(reply)

    run_virtual(body())
