"""A slot whose backend is replaced by another while it serves."""

import asyncio
import logging

import pytest
from runtime_kit import Station

from penstock.errors import BackendUnavailable
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Outcome


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A failing backend is what is wanted here."""
    caplog.set_level(logging.CRITICAL, "penstock.worker")


def test_a_new_backend_takes_over_after_the_batch_in_hand() -> None:
    async def body() -> None:
        old, new = MockBackend([Answer(1.0)]), MockBackend([Answer(1.0)])
        async with Station(old).running() as station:
            station.ask()
            await asyncio.sleep(0.5)
            station.ask()
            station.slot.renew(new)
            await asyncio.sleep(0.4)
            assert (old.closes, new.batches) == (0, [])
            await asyncio.sleep(2.0)
            assert [reply.outcome for _, reply in station.replies] == [Outcome.SUCCESS] * 2
            assert (len(old.batches), len(new.batches)) == (1, 1)
            assert (old.closes, new.closes, new.starts, station.slot.restarts) == (1, 0, 0, 0)
        assert new.closes == 1

    run_virtual(body())


def test_an_idle_worker_takes_a_new_backend_at_once() -> None:
    async def body() -> None:
        old, new = MockBackend(), MockBackend()
        async with Station(old).running() as station:
            await asyncio.sleep(0.1)
            station.slot.renew(new)
            await asyncio.sleep(0.1)
            assert (old.closes, station.slot.backend) == (1, new)
            station.ask()
            await asyncio.sleep(0.1)
            assert (len(station.replies), len(new.batches)) == (1, 1)

    run_virtual(body())


def test_a_new_backend_takes_the_place_of_one_that_cannot_start() -> None:
    async def body() -> None:
        old, new = MockBackend(start_errors=[BackendUnavailable("no")] * 99), MockBackend()
        async with Station(old).running() as station:
            await asyncio.sleep(0.01)
            station.slot.renew(new)
            await asyncio.sleep(1.0)
            assert (station.ready, station.slot.backend, new.starts) == (True, new, 0)

    run_virtual(body())


def test_a_new_backend_that_came_too_late_is_closed_too() -> None:
    async def body() -> None:
        old, new = MockBackend([Answer(60.0)]), MockBackend()
        async with Station(old, processing_limit=99.0).running() as station:
            station.ask()
            await asyncio.sleep(0.1)
            assert station.slot.renew(too_early := MockBackend()) is None
            assert station.slot.renew(new) is too_early
        assert (old.closes, new.closes) == (1, 1)

    run_virtual(body())
