"""A backend that wants a batch later is left alone for as long as it says, and is not started anew."""

import asyncio
from itertools import pairwise

from runtime_kit import Station

from penstock.errors import BackendBusy
from penstock.runtime.vitals import LONGEST_BUSY, LONGEST_UNSAID
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Outcome


def busy(seconds: float | None) -> Answer:
    return Answer(error=BackendBusy("endpoint answered 429: it is busy", retry_after=seconds))


def test_its_batch_goes_again_after_the_time_that_it_said() -> None:
    async def body() -> None:
        backend = MockBackend([busy(1.5), busy(0.5), Answer(0.1, outputs=(b"2",))])
        async with Station(backend).running() as station:
            request = station.ask()
            await asyncio.sleep(1.0)
            assert (station.slot.full, station.ready) == (True, False)
            await asyncio.sleep(9.0)
            assert (station.slot.full, station.ready) == (False, True)
        ((at, reply),) = station.replies
        assert (reply.outcome, reply.output) == (Outcome.SUCCESS, b"2")
        assert 2.1 <= at - request.arrival < 2.2
        assert station.starts == [None]
        assert backend.closes == 1  # at the end

    run_virtual(body())


def test_if_it_does_not_say_how_long_the_pauses_grow() -> None:
    async def body() -> None:
        times: list[float] = []

        class Watched(MockBackend):
            async def run(self, batch):  # type: ignore[no-untyped-def]
                times.append(asyncio.get_running_loop().time())
                return await super().run(batch)

        backend = Watched([busy(None)] * 12 + [Answer(0.1, outputs=(b"2",))])
        async with Station(backend).running() as station:
            station.ask()
            await asyncio.sleep(100.0)
        pauses = [later - sooner for sooner, later in pairwise(times)]
        assert len(station.replies) == 1
        assert pauses[0] < 0.2
        assert pauses[0] < pauses[3] < pauses[-1] <= LONGEST_UNSAID

    run_virtual(body())


def test_it_is_asked_again_at_last_whatever_it_says() -> None:
    async def body() -> None:
        backend = MockBackend([busy(1e6), Answer(0.1, outputs=(b"2",))])
        async with Station(backend).running() as station:
            station.ask()
            await asyncio.sleep(LONGEST_BUSY + 1.0)
            station.ask()
            await asyncio.sleep(1.0)
            (_, first), (_, second) = station.replies
        assert (first.outcome, second.outcome) == (Outcome.FAILED, Outcome.SUCCESS)

    run_virtual(body())
