"""One worker slot: a backend kept alive and handed one batch at a time."""

import asyncio
import logging
from dataclasses import replace
from itertools import pairwise

import pytest
from runtime_kit import Station, ask

from penstock.errors import BackendCrashed, BackendTimeout, BackendUnavailable, BatchRejected
from penstock.runtime.known_good import KnownGood
from penstock.runtime.slot import FIRST_RESTART, LONGEST_RESTART, SICK
from penstock.runtime.vitals import FULL_PROBE, LONGEST_FULL, PROBE_LIMIT
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Batch, Failure, Outcome, Reason, Result

FOR_EVER = float("inf")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Failing backends are what is wanted here."""
    caplog.set_level(logging.CRITICAL, "penstock.worker")


def test_a_batch_is_run_and_its_answers_go_back() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(0.1, outputs=(b"2",))])
        async with Station(backend).running() as station:
            request = station.ask()
            await asyncio.sleep(1.0)
        ((at, reply),) = station.replies
        assert (reply.request, reply.outcome, reply.output) == (request, Outcome.SUCCESS, b"2")
        assert at - request.arrival == pytest.approx(0.1)
        assert station.starts == [None]

    run_virtual(body())


def test_a_worker_takes_nothing_before_its_backend_has_started() -> None:
    async def body() -> None:
        async with Station(MockBackend(start_seconds=2.0)).running() as station:
            station.ask()
            await asyncio.sleep(1.9)
            assert (station.ready, station.backend.batches) == (False, [])
            await asyncio.sleep(0.2)
            assert station.ready
            assert len(station.replies) == 1

    run_virtual(body())


def test_a_backend_that_cannot_start_is_tried_again_with_growing_pauses() -> None:
    async def body() -> None:
        no = BackendUnavailable("not there")
        times: list[float] = []

        class Watched(MockBackend):
            async def start(self) -> None:
                times.append(asyncio.get_running_loop().time())
                await super().start()

        backend = Watched(start_errors=[no] * 10)
        async with Station(backend).running() as station:
            await asyncio.sleep(60.0)
        assert station.starts == [no] * 10 + [None]
        pauses = [later - sooner for sooner, later in pairwise(times)]
        assert FIRST_RESTART / 2 <= pauses[0] <= FIRST_RESTART
        assert pauses == pytest.approx(sorted(pauses))
        assert pauses[-1] <= LONGEST_RESTART
        assert backend.closes == 10 + 1  # after each failed start, and at the end

    run_virtual(body())


def test_a_start_that_takes_too_long_is_given_up() -> None:
    async def body() -> None:
        async with Station(MockBackend(start_seconds=FOR_EVER), start_limit=10.0).running() as station:
            await asyncio.sleep(10.01)
        (error,) = station.starts
        assert isinstance(error, BackendTimeout)
        assert "start_timeout" in error.message

    run_virtual(body())


def test_a_batch_the_backend_refuses_costs_no_restart() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(error=BatchRejected("no")), Answer()])
        async with Station(backend).running() as station:
            station.ask()
            await asyncio.sleep(1.0)
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS]  # at the second attempt
        assert (backend.starts, station.slot.restarts) == (1, 0)
        assert station.slot.last_error == "no"

    run_virtual(body())


def test_after_a_crash_the_backend_is_closed_and_started_anew() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(0.1, error=BackendCrashed("gone")), Answer(0.1)])
        async with Station(backend).running() as station:
            station.ask()
            await asyncio.sleep(0.11)
            assert (station.ready, backend.closes) == (False, 1)
            await asyncio.sleep(1.0)
            assert (station.ready, backend.starts) == (True, 2)
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS]

    run_virtual(body())


def test_what_waits_when_a_backend_crashes_is_not_handed_to_it() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(0.1, error=BackendCrashed("gone")), Answer(0.1)])
        async with Station(backend).running() as station:
            first = station.ask()
            await asyncio.sleep(0.05)
            waits = station.ask()
            await asyncio.sleep(2.0)
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS] * 2
        assert (first.executions, waits.executions) == (1, 0)

    run_virtual(body())


def test_a_batch_that_takes_too_long_is_given_up_and_the_backend_started_anew() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(FOR_EVER), Answer(0.1)])
        async with Station(backend, processing_limit=3.0).running() as station:
            station.ask()
            busy = []
            for wait in (2.9, 0.2):
                await asyncio.sleep(wait)
                busy.append(backend.running is not None)
            assert busy == [True, False]
            await asyncio.sleep(10.0)
        assert (backend.starts, station.slot.restarts) == (2, 1)
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS]

    run_virtual(body())


def test_a_backend_that_lives_and_fails_everything_is_started_anew() -> None:
    async def body() -> None:
        backend = MockBackend([*[Answer(error=BatchRejected("no"))] * SICK, Answer()])
        async with Station(backend).running() as station:
            for _ in range(SICK):
                station.ask()
                await asyncio.sleep(3.0)
            await asyncio.sleep(10.0)
        assert backend.starts == 2
        assert len(station.replies) == SICK

    run_virtual(body())


async def refuse_many(backend: MockBackend) -> int:
    """One input is answered, then others are refused as often as they are tried. Gives how often it was started."""
    async with Station(backend).running() as station:
        station.ask(text=b'"good"')
        await asyncio.sleep(1.0)
        for _ in range(SICK // 3):
            station.ask(text=b'"bad"')
            await asyncio.sleep(10.0)
        station.ask(text=b'"next"')
        await asyncio.sleep(10.0)
        assert station.replies[-1][1].outcome is Outcome.SUCCESS
        return backend.starts


def test_bad_inputs_cost_no_restart_if_what_was_answered_before_still_is() -> None:
    async def body() -> None:
        no = Answer(error=BatchRejected("no"))
        backend = MockBackend([Answer(), *[no] * SICK, Answer(), Answer()])
        assert await refuse_many(backend) == 1
        inputs = [batch.requests[0].input for batch in backend.batches]
        assert inputs == [b'"good"', *[b'"bad"'] * SICK, b'"good"', b'"next"']

    run_virtual(body())


def test_a_backend_that_refuses_what_it_has_answered_before_is_started_anew() -> None:
    async def body() -> None:
        no = Answer(error=BatchRejected("no"))
        assert await refuse_many(MockBackend([Answer(), *[no] * (SICK + 1), Answer()])) == 2

    run_virtual(body())


def test_an_answer_in_part_is_not_what_a_backend_is_tried_with() -> None:
    good = KnownGood()
    request = ask(text=b'"x"')
    batch = Batch(1, "model", b'[{"a":1}]', [request], Reason.DUE, 0.0)
    good.note(batch, Result([b"1"]))
    good.note(replace(batch, parameters=b""), Result([b""], failures={0: Failure("BACKEND_FAILED", "no")}))
    assert good.batch(0.0) is None
    good.note(replace(batch, parameters=b'{"a":1}'), Result([b"1"]))
    again = good.batch(5.0)
    assert again is not None
    assert (again.parameters, [each.input for each in again.requests]) == (b'{"a":1}', [b'"x"'])


def test_restarts_are_forgiven_once_a_batch_went_well() -> None:
    async def body() -> None:
        crash = Answer(error=BackendCrashed("gone"))
        backend = MockBackend([crash, Answer(), crash, Answer(), crash, Answer()])
        async with Station(backend).running() as station:
            for _ in range(3):
                station.ask()
                await asyncio.sleep(FIRST_RESTART + 10.0)
                assert station.ready  # the pause has not grown
        assert station.slot.restarts == 3

    run_virtual(body())


def test_an_idle_backend_is_probed_and_a_busy_one_is_not() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(30.0)])
        async with Station(backend, health_interval=5.0, processing_limit=60.0).running() as station:
            await asyncio.sleep(16.0)
            assert backend.probes == 3
            station.ask()
            await asyncio.sleep(29.0)
            assert backend.probes == 3

    run_virtual(body())


@pytest.mark.parametrize("hangs", [False, True])
def test_a_backend_that_fails_its_probe_is_started_anew(hangs: bool) -> None:
    class Hanging(MockBackend):
        async def probe(self) -> float:
            if not self.probes:
                self.probes += 1
                await asyncio.get_running_loop().create_future()
            return 0.0

    async def body() -> None:
        backend = Hanging() if hangs else MockBackend(probe_errors=[BackendUnavailable("not there")])
        async with Station(backend, health_interval=5.0).running() as station:
            await asyncio.sleep(5.0 + PROBE_LIMIT + 1.0)
            assert (backend.starts, station.ready) == (2, True)
            assert station.slot.last_error

    run_virtual(body())


def test_a_batch_that_comes_during_a_failing_probe_is_not_lost() -> None:
    class Slow(MockBackend):
        async def probe(self) -> float:
            await asyncio.sleep(1.0)
            raise BackendUnavailable("not there")

    async def body() -> None:
        backend = Slow()
        async with Station(backend, health_interval=5.0).running() as station:
            await asyncio.sleep(5.5)
            station.ask()
            await asyncio.sleep(3.0)
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS]
        assert len(backend.batches) == 1

    run_virtual(body())


def test_what_waits_when_a_backend_says_that_it_is_nearly_full_is_not_handed_to_it() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(0.1, pressure=0.91), Answer()], pressures=[0.95, 0.79])
        async with Station(backend).running() as station:
            station.ask()
            await asyncio.sleep(0.05)
            station.ask()
            await asyncio.sleep(0.1)
            assert (len(backend.batches), station.slot.full, len(station.replies)) == (1, True, 1)
            await asyncio.sleep(2.1 * FULL_PROBE)
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS] * 2

    run_virtual(body())


def test_a_backend_that_is_nearly_full_takes_nothing_until_it_says_that_it_has_room() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(pressure=0.91), Answer()], pressures=[0.95, 0.85, 0.8, 0.79])
        async with Station(backend).running() as station:
            station.ask()
            await asyncio.sleep(0.01)
            assert len(station.replies) == 1
            assert (station.slot.full, station.slot.pressure, station.ready) == (True, 0.91, False)
            station.ask()
            await asyncio.sleep(3.9 * FULL_PROBE)  # not even after it has fallen to 80 %
            assert (len(backend.batches), backend.probes, station.slot.full) == (1, 3, True)
            await asyncio.sleep(0.2 * FULL_PROBE)
            assert (station.slot.full, station.ready) == (False, True)
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS] * 2
        assert (backend.starts, station.slot.restarts) == (1, 0)

    run_virtual(body())


def test_a_backend_that_is_rather_full_is_not_held_back() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(pressure=0.9)])
        async with Station(backend).running() as station:
            for _ in range(3):
                station.ask()
                await asyncio.sleep(0.01)
            assert (len(station.replies), backend.probes) == (3, 0)
            assert (station.slot.full, station.slot.pressure) == (False, 0.9)

    run_virtual(body())


def test_an_idle_backend_that_fills_up_by_itself_is_left_alone_as_well() -> None:
    async def body() -> None:
        backend = MockBackend(pressures=[0.95, 0.5])
        async with Station(backend, health_interval=5.0).running() as station:
            await asyncio.sleep(5.0)
            assert (station.slot.full, station.ready) == (True, False)
            station.ask()
            await asyncio.sleep(FULL_PROBE)
            assert (station.slot.full, station.ready) == (False, True)
        assert len(station.replies) == 1

    run_virtual(body())


def test_a_batch_that_comes_while_a_full_backend_is_probed_is_still_run() -> None:
    class Slow(MockBackend):
        async def probe(self) -> float:
            await asyncio.sleep(1.0)
            return await super().probe()

    async def body() -> None:
        backend = Slow([Answer(pressure=0.95)], pressures=[0.95])
        async with Station(backend, health_interval=5.0).running() as station:
            await asyncio.sleep(5.5)
            request = station.ask()
            await asyncio.sleep(0.6)
            assert ([reply.request for _, reply in station.replies], station.slot.full) == ([request], True)
        assert request.executions == 0

    run_virtual(body())


def test_a_backend_that_fails_its_probe_while_it_is_full_is_started_anew() -> None:
    async def body() -> None:
        backend = MockBackend(
            [Answer(pressure=0.95), Answer()], probe_errors=[BackendUnavailable("not there")]
        )
        async with Station(backend).running() as station:
            station.ask()
            await asyncio.sleep(0.01)
            station.ask()
            await asyncio.sleep(2 * FULL_PROBE + FIRST_RESTART)
            assert (backend.starts, station.slot.full, station.ready) == (2, False, True)
        assert len(station.replies) == 2

    run_virtual(body())


def test_a_backend_that_stays_full_is_started_anew_and_must_then_say_that_it_has_room() -> None:
    class Leaking(MockBackend):
        async def probe(self) -> float:
            return 0.95 if self.starts == 1 else await super().probe()

    async def body() -> None:
        backend = Leaking([Answer(pressure=0.95), Answer()], pressures=[0.85, 0.1])
        async with Station(backend).running() as station:
            station.ask()
            await asyncio.sleep(LONGEST_FULL + FULL_PROBE + FIRST_RESTART + 0.01)
            assert (backend.starts, station.slot.full, backend.probes) == (2, True, 0)
            await asyncio.sleep(FULL_PROBE)
            assert (backend.starts, station.slot.full, station.ready) == (2, True, False)
            assert "95% full" in station.slot.last_error
            await asyncio.sleep(FULL_PROBE)
            assert (backend.starts, station.slot.full, station.ready) == (2, False, True)

    run_virtual(body())


def test_a_full_backend_that_cannot_be_started_anew_is_no_longer_called_full() -> None:
    async def body() -> None:
        no = BackendUnavailable("not there")
        backend = MockBackend(
            [Answer(pressure=0.95), Answer()], start_errors=[None, no], probe_errors=[no], start_seconds=1.0
        )
        async with Station(backend).running() as station:
            await asyncio.sleep(1.0)
            station.ask()
            await asyncio.sleep(FULL_PROBE + FIRST_RESTART + 1.1)
            assert (station.starts, station.slot.full, station.ready) == ([None, no], False, False)

    run_virtual(body())


def test_when_it_is_stopped_the_backend_is_closed_whatever_it_was_doing() -> None:
    async def body() -> None:
        for backend in (MockBackend([Answer(FOR_EVER)]), MockBackend(start_seconds=FOR_EVER)):
            async with Station(backend, processing_limit=60.0).running() as station:
                station.ask()
                await asyncio.sleep(0.1)
            assert backend.closes == 1
            assert backend.running is None

    run_virtual(body())


def test_a_first_batch_may_take_long_and_the_server_says_that_it_is_loading() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(20.0), Answer(0.1)])
        async with Station(backend, warm=False).running() as station:
            station.ask(limit=60.0)
            await asyncio.sleep(5.0)
            loading = [station.slot.loading]
            assert station.pump.batcher.fleet.loaded_in(station.loop.time()) == pytest.approx(5.0, abs=0.1)
            await asyncio.sleep(15.1)
            loading.append(station.slot.loading)
            assert loading == [True, False]
            assert station.ready
            station.ask()
            await asyncio.sleep(0.2)
        assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS] * 2
        assert (backend.starts, station.slot.restarts) == (1, 0)

    run_virtual(body())


def test_one_that_broke_down_while_it_loaded_does_not_load_when_it_runs_again() -> None:
    class BreaksDown(MockBackend):
        async def run(self, batch: Batch) -> Result:
            result = await super().run(batch)
            if len(self.batches) == 1:
                raise RuntimeError("not an error that a backend may raise")
            return result

    async def body() -> None:
        station = Station(BreaksDown([Answer(2.0), Answer(20.0)]), warm=False)
        async with station.running():
            station.ask(limit=60.0)
            await asyncio.sleep(3.0)
        async with station.running():
            loading = [station.slot.loading]
            await asyncio.sleep(5.0)
            loading.append(station.slot.loading)
            assert loading == [False, True]
            assert station.pump.batcher.fleet.loaded_in(station.loop.time()) is not None  # it was told again

    run_virtual(body())


def test_while_a_first_batch_runs_the_log_says_again_and_again_that_it_is_loading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "penstock.worker")

    async def body() -> None:
        async with Station(MockBackend([Answer(25.0)]), warm=False).running() as station:
            station.ask(limit=60.0)
            await asyncio.sleep(60.0)

    run_virtual(body())
    said = [record.getMessage() for record in caplog.records if "loading" in record.getMessage()]
    assert len(said) == 3  # after 1, 11 and 21 seconds
    assert all("timeouts.first_batch" in line for line in said)


def test_a_first_batch_that_never_ends_is_given_up_after_its_own_limit() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(FOR_EVER), Answer(0.1)])
        async with Station(backend, warm=False, first_batch_limit=30.0).running() as station:
            station.ask()
            await asyncio.sleep(29.0)
            assert backend.running is not None
            await asyncio.sleep(10.0)
            assert station.ready
        assert (backend.starts, station.slot.restarts) == (2, 1)
        assert "timeouts.first_batch" in station.slot.last_error

    run_virtual(body())


def test_where_first_batches_are_known_to_be_quick_one_that_hangs_is_not_waited_for() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(0.1), Answer(0.1), Answer(FOR_EVER), Answer(FOR_EVER), Answer(0.1)])
        async with Station(backend, warm=False).running() as station:
            for _ in range(3):  # the third hangs
                station.ask()
                await asyncio.sleep(0.2)
            await asyncio.sleep(20.0)  # and so does the first one after the restart
        assert station.slot.restarts == 2

    run_virtual(body())
