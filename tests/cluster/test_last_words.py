"""What a worker that ends still tells of its batches."""

import asyncio

import pytest
from dock_kit import Journal, workshop

from penstock.cluster.dock import LAST_WORDS, NOT_TOLD
from penstock.loops import for_ever
from penstock.testing import run_virtual
from penstock.types import Execution, Result
from penstock.words.messages import Dispatch


class Mute(Journal):
    """A report that cannot hand on any outputs."""

    async def answer(self, batch: Dispatch, result: Result, execution: Execution) -> None:
        await for_ever()


def test_a_batcher_hears_of_no_success_that_was_not_delivered_because_the_worker_ended() -> None:
    async def body() -> None:
        async with workshop(journal=Mute()) as shop:
            shop.arrive("one")
            await asyncio.sleep(0.5)
            assert shop.journal.said == []
            await shop.dock.close()
            assert shop.journal.ended() == {"one": NOT_TOLD}

    run_virtual(body())


def test_a_worker_that_ends_does_not_wait_for_a_bus_that_takes_nothing() -> None:
    async def body() -> None:
        journal = Mute()
        journal.seconds = 30.0
        async with workshop(journal=journal) as shop:
            shop.arrive("one")
            await asyncio.sleep(0.5)
            began = shop.loop.time()
            await shop.dock.close()
            assert shop.loop.time() - began == pytest.approx(LAST_WORDS)

    run_virtual(body())
