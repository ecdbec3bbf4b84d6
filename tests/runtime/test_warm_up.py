"""A worker is warmed up before it is ready, size by size; or in idle moments, with an input that was answered."""

import asyncio
import logging
import re
from collections.abc import Callable

import pytest
from runtime_kit import Station

from penstock.errors import (
    BackendCrashed,
    BackendError,
    BackendOutOfMemory,
    BackendTimeout,
    BackendUnavailable,
    BatchRejected,
)
from penstock.runtime.idle_ladder import QUIET
from penstock.runtime.known_good import LARGEST, RECENT
from penstock.runtime.warm_up import AGAIN, Warmer
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Batch, Failure, Outcome, Result, WorkerId

FOR_EVER = float("inf")


def first_times_cost(seconds: float, *seen_before: int) -> Callable[[Batch], Answer]:
    """A batch takes 10 ms, and so much the first time that its size is there."""
    seen = set(seen_before)

    def script(batch: Batch) -> Answer:
        new = batch.size not in seen
        seen.add(batch.size)
        return Answer(seconds if new else 0.01)

    return script


def too_large_above(size: int) -> Callable[[Batch], Answer]:
    def script(batch: Batch) -> Answer:
        return Answer(0.01, error=BackendOutOfMemory("no room") if batch.size > size else None)

    return script


def sizes(backend: MockBackend) -> list[int]:
    """The sizes that were run, each once, in order."""
    return list(dict.fromkeys(batch.size for batch in backend.batches))


# ---- before it is ready ------------------------------------------------------------------------------------


def test_each_size_is_run_several_times_the_smallest_first_before_the_worker_is_ready() -> None:
    async def body() -> None:
        backend = MockBackend(first_times_cost(0.08))
        async with Station(backend, warm_up=[b'"a"', b'"b"'], max_batch=12).running() as station:
            await asyncio.sleep(0.3)
            early = station.ready
            await asyncio.sleep(1.0)
            assert (early, station.ready) == (False, True)
        assert [batch.size for batch in backend.batches] == [
            n for n in (1, 2, 4, 8, 12) for _ in range(1 + AGAIN)
        ]
        last = backend.batches[-1]
        assert [request.input for request in last.requests] == [b'"a"', b'"b"'] * 6
        assert (last.id, last.parameters) == (0, b"")
        batcher = station.pump.batcher
        assert batcher.curve.shape.seconds == pytest.approx(0.07)
        assert batcher.curve(12) == pytest.approx(0.01)
        assert [rung.size for rung in station.slot.warmth.warm_up.rungs] == [1, 2, 4, 8, 12]

    run_virtual(body())


def test_a_slow_batch_is_run_twice_and_no_more() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(0.5)])
        async with Station(backend, warm_up=[b'"a"'], max_batch=2).running():
            await asyncio.sleep(10.0)
        assert [batch.size for batch in backend.batches] == [1, 1, 2, 2]

    run_virtual(body())


def test_its_progress_is_told_line_by_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.worker")

    async def body() -> None:
        async with Station(MockBackend(first_times_cost(1.5)), warm_up=[b'"a"'], max_batch=3).running():
            await asyncio.sleep(10.0)

    run_virtual(body())
    lines = [record.getMessage() for record in caplog.records if "warming" in record.getMessage()]
    assert lines == [
        f"warming up {n} of 3: {size} in 1.5 s, again 10 ms" for n, size in ((1, 1), (2, 2), (3, 3))
    ]


def test_inputs_that_no_size_reaches_are_run_as_well() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(1.0)])
        inputs = [b"%d" % number for number in range(7)]
        async with Station(backend, warm_up=inputs, max_batch=3).running():
            await asyncio.sleep(30.0)
        assert [batch.size for batch in backend.batches] == [1, 1, 2, 2, 3, 3, 3, 3, 1, 1]
        assert {request.input for batch in backend.batches for request in batch.requests} == set(inputs)

    run_virtual(body())


def test_inputs_that_the_function_makes_are_used_unless_there_are_others() -> None:
    async def run(warm_up: list[bytes] | None) -> set[bytes]:
        backend = MockBackend()
        backend.warm_up_inputs = [b'"made"']  # type: ignore[attr-defined]
        async with Station(backend, warm_up=warm_up, max_batch=1).running():
            await asyncio.sleep(1.0)
        return {request.input for batch in backend.batches for request in batch.requests}

    async def body() -> None:
        assert await run([]) == {b'"made"'}
        assert await run([b'"given"']) == {b'"given"'}
        assert await run(None) == set()  # warmup = false

    run_virtual(body())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            Answer(error=BatchRejected("f raised ValueError", details="bad")),
            "f raised ValueError",
        ),
        (Answer(outputs=(b"1",)), "it gave 1 outputs for 2 inputs"),
        (Answer(error=BackendCrashed("it was killed")), "it was killed"),
    ],
)
def test_a_warm_up_that_fails_says_at_which_size_and_the_worker_has_not_started(
    answer: Answer, says: str
) -> None:
    async def body() -> None:
        backend = MockBackend(lambda batch: answer if batch.size > 1 else Answer())
        async with Station(backend, warm_up=[b'"a"'], max_batch=4).running() as station:
            assert not station.ready
            error = station.starts[0]
            assert isinstance(error, BackendUnavailable)
            assert error.message == f"app.py:f failed its warm-up with a batch of 2: {says}"
            assert error.details == (answer.error.details if answer.error else "")
            assert backend.closes == 1

    run_virtual(body())


def test_an_input_that_has_no_output_is_named() -> None:
    class Picky(MockBackend):
        async def run(self, batch: Batch) -> Result:
            return Result([b""] * batch.size, failures={1: Failure("BACKEND_FAILED", "no", "why")})

    async def body() -> None:
        async with Station(Picky(), warm_up=[b'"a"', b'"b"'], max_batch=4).running() as station:
            (error,) = station.starts
            assert error is not None
            assert error.message == "app.py:f failed its warm-up with one input, at input 2: no"
            assert error.details == "why"

    run_virtual(body())


def test_what_gets_on_is_not_given_up_and_what_hangs_is() -> None:
    async def body() -> None:
        backend = MockBackend(lambda batch: Answer(FOR_EVER if batch.size == 4 else 8.0))
        async with Station(backend, warm_up=[b'"a"'], max_batch=4, start_limit=10.0).running() as station:
            await asyncio.sleep(41.9)  # four batches of 8 s, each within the limit, and one that hangs
            assert station.starts == []
            await asyncio.sleep(0.2)
            (error,) = station.starts
        assert isinstance(error, BackendTimeout)
        assert error.message == (
            "app.py:f did not answer a batch of 4 of its warm-up within 10 s; raise start_timeout if it needs more"
        )

    run_virtual(body())


def test_a_worker_that_warms_up_for_long_counts_as_loading_until_it_is_ready() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(5.0)])
        async with Station(backend, warm_up=[b'"a"'], max_batch=1, warm=False).running() as station:
            fleet = station.pump.batcher.fleet
            await asyncio.sleep(2.0)
            assert station.slot.loading
            assert fleet.loaded_in(2.0) is not None
            await asyncio.sleep(9.0)
            assert (station.slot.loading, station.ready, fleet.loaded_in(11.0)) == (False, True, None)
            assert station.slot.first_seconds == pytest.approx(10.0)
            station.ask()
            await asyncio.sleep(4.0)  # a first batch may take longer than others, and this is none
            assert station.replies == []
            await asyncio.sleep(6.0)
        assert backend.starts == 2

    run_virtual(body())


def test_memory_that_is_short_ends_the_ladder_and_the_worker_is_ready_with_smaller_batches() -> None:
    async def body() -> None:
        backend = MockBackend(too_large_above(8))
        async with Station(backend, warm_up=[b'"a"'], max_batch=64).running() as station:
            await asyncio.sleep(1.0)
            assert station.ready
            assert sizes(backend) == [1, 2, 4, 8, 16]
            for _ in range(30):
                station.ask()
            await asyncio.sleep(1.0)
        assert max(batch.size for batch in backend.batches[-4:]) == 8
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS] * 30
        assert station.slot.warmth.fit.size == 8

    run_virtual(body())


def test_an_input_that_does_not_fit_even_alone_fails_the_warm_up() -> None:
    async def body() -> None:
        async with Station(MockBackend(too_large_above(0)), warm_up=[b'"a"']).running() as station:
            await asyncio.sleep(0.05)
            error = station.starts[0]
            assert error is not None
            assert error.message == "app.py:f failed its warm-up with one input: no room"

    run_virtual(body())


def test_no_batch_is_larger_than_its_cost_allows() -> None:
    async def body() -> None:
        backend, loop = MockBackend(), asyncio.get_running_loop()
        warmer = Warmer(
            "m",
            "app.py:f",
            [b"abc"],
            [1, 2, 4, 8],
            1.0,
            loop.time,
            per_item=True,
            fits=lambda them: len(them) <= 4,
        )
        warm_up = await warmer.run(backend, WorkerId("m/0"))
        assert warm_up is not None
        assert [rung.size for rung in warm_up.rungs] == [1, 2, 4]
        assert warm_up.length == 3
        assert backend.batches[-1].parameters == b"[{},{},{},{}]"

    run_virtual(body())


def test_a_backend_that_takes_over_is_warmed_up_first() -> None:
    async def body() -> None:
        async with Station(MockBackend(), warm_up=[b'"a"'], max_batch=2).running() as station:
            new = MockBackend([Answer(1.0)])
            waited = station.slot.renew(new, await station.slot.prepare(new))
            assert waited is None
            assert sizes(new) == [1, 2]
            await asyncio.sleep(1.0)
            assert station.slot.backend is new
            assert station.slot.warmth.warm_up.rungs[0].first == pytest.approx(1.0)
            bad = MockBackend([Answer(error=BatchRejected("no"))])
            with pytest.raises(BackendError, match=re.escape("with one input: no")):
                await station.slot.prepare(bad)
            assert bad.closes == 1
            slow = MockBackend(start_seconds=FOR_EVER)
            with pytest.raises(BackendTimeout, match="start_timeout"):
                await station.slot.prepare(slow)

    run_virtual(body())


# ---- in idle moments ---------------------------------------------------------------------------------------


def test_in_idle_moments_sizes_that_were_not_there_yet_are_run_with_an_input_that_was_answered() -> None:
    async def body() -> None:
        backend = MockBackend(first_times_cost(0.08, 4))
        async with Station(backend, idle_sizes=[1, 2, 4, 8], max_batch=8).running() as station:
            await asyncio.sleep(30.0)
            assert backend.batches == []  # nothing was answered yet
            for _ in range(4):
                station.ask(text=b'"real"')
            await asyncio.sleep(QUIET - 0.1)
            assert [batch.size for batch in backend.batches] == [4]
            await asyncio.sleep(30.0)
        assert [batch.size for batch in backend.batches] == [4, 1, 1, 2, 2, 8, 8]
        assert {request.input for batch in backend.batches for request in batch.requests} == {b'"real"'}
        assert station.pump.batcher.curve(8) == pytest.approx(0.01)
        assert station.pump.batcher.curve.shape.seconds == pytest.approx(0.07)
        assert [rung.size for rung in station.slot.warmth.warm_up.rungs] == [1, 2, 8]
        assert len(station.replies) == 4

    run_virtual(body())


def test_a_request_that_comes_meanwhile_waits_for_one_batch_and_its_wait_is_not_held_against_the_worker() -> (
    None
):
    async def body() -> None:
        backend = MockBackend(lambda batch: Answer(2.0 if batch.size == 2 else 0.01))
        async with Station(backend, idle_sizes=[1, 2], max_batch=2).running() as station:
            station.ask()
            await asyncio.sleep(QUIET + 0.5)
            assert backend.running is not None
            asked = station.ask()
            await asyncio.sleep(5.0)
        at, reply = station.replies[-1]
        assert reply.request is asked
        assert 1.0 < at - asked.arrival < 2.0
        assert station.pump.batcher.curve(1) == pytest.approx(0.01, rel=0.1)
        assert [batch.size for batch in backend.batches[:3]] == [1, 2, 1]

    run_virtual(body())


def test_an_input_that_is_old_or_large_is_not_used() -> None:
    async def body() -> None:
        backend = MockBackend()
        async with Station(backend, idle_sizes=[1, 2], max_batch=2).running() as station:
            station.ask(text=b'"%s"' % (b"x" * LARGEST))
            await asyncio.sleep(10.0)
            assert len(backend.batches) == 1
            station.slot.warmth.began(None)
            station.ask()
            await asyncio.sleep(QUIET / 2)
            steps = len(backend.batches)
            station.slot._known_good._when -= RECENT
            await asyncio.sleep(10.0)
            assert len(backend.batches) == steps

    run_virtual(body())


@pytest.mark.parametrize(
    ("error", "starts"), [(BatchRejected("no"), 1), (BackendCrashed("gone"), 2)], ids=["refused", "crashed"]
)
def test_a_step_that_fails_is_the_last_one(error: BackendError, starts: int) -> None:
    async def body() -> None:
        backend = MockBackend(lambda batch: Answer(error=error if batch.size == 2 else None))
        async with Station(backend, idle_sizes=[1, 2, 4], max_batch=4).running() as station:
            station.ask()
            await asyncio.sleep(30.0)
            station.ask()
            await asyncio.sleep(30.0)
            assert station.ready
        assert [batch.size for batch in backend.batches] == [1, 2, 1]
        assert backend.starts == starts
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS] * 2

    run_virtual(body())


def test_a_step_that_hangs_ends_with_a_new_backend() -> None:
    async def body() -> None:
        backend = MockBackend(lambda batch: Answer(FOR_EVER if batch.size == 2 else 0.0))
        async with Station(
            backend, idle_sizes=[1, 2], max_batch=2, first_batch_limit=20.0
        ).running() as station:
            station.ask()
            await asyncio.sleep(30.0)
            assert (backend.starts, station.ready) == (2, True)
            assert station.slot.last_error == "a batch of 2 took longer than 20 s"

    run_virtual(body())


def test_a_step_that_does_not_fit_bounds_the_batches_before_a_client_meets_it() -> None:
    async def body() -> None:
        backend = MockBackend(too_large_above(2))
        async with Station(backend, idle_sizes=[1, 2, 4, 8], max_batch=8).running() as station:
            station.ask()
            await asyncio.sleep(30.0)
            for _ in range(8):
                station.ask()
            await asyncio.sleep(1.0)
        assert [batch.size for batch in backend.batches] == [1, 2, 2, 4, 2, 2, 2, 2]
        assert station.slot.warmth.warm_up.too_large == 4

    run_virtual(body())


# ---- batches that do not fit -------------------------------------------------------------------------------


def test_running_out_of_memory_costs_no_restart_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "penstock.worker")

    async def body() -> None:
        backend = MockBackend(too_large_above(1))
        async with Station(backend).running() as station:
            for _ in range(64):
                station.ask()
            await asyncio.sleep(3.0)
            assert (backend.starts, station.ready) == (1, True)
            assert station.slot.warmth.fit.size == 1
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS] * 64

    run_virtual(body())
    said = [record for record in caplog.records if record.getMessage().startswith("out of memory")]
    assert [(record.size, record.at_most) for record in said] == [(64, 32)]  # type: ignore[attr-defined]


def test_a_worker_with_no_memory_left_for_anything_is_started_anew() -> None:
    async def body() -> None:
        backend = MockBackend(too_large_above(0))
        async with Station(backend).running() as station:
            for _ in range(20):
                station.ask()
                await asyncio.sleep(2.0)
        assert backend.starts > 1

    run_virtual(body())


def test_a_larger_batch_that_fits_is_shown() -> None:
    async def body() -> None:
        async with Station(MockBackend()).running() as station:
            fit = station.slot.warmth.fit
            fit.is_below(64)
            fit.fits(32)
            assert fit.size == 32
            fit.fits(40)
            assert fit.size == 40
            fit.fits(64)
            assert fit.size is None

    run_virtual(body())
