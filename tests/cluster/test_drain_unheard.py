"""A member that drains finishes what it has in hand, also if it cannot tell the others that it goes."""

import asyncio

import pytest
from town import SECONDS, Town, replies, right_answer

from penstock.errors import StoreDown
from penstock.testing import run_virtual


async def away() -> None:
    raise StoreDown("away")


async def busy_town() -> Town:
    town = Town()
    await town.add_gateway()
    await town.add_batcher()
    await town.add_worker()
    await town.settle_down()
    return town


def test_a_worker_whose_good_bye_is_not_heard_finishes_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        town = await busy_town()
        [gateway], [worker] = town.gateways, town.workers
        asker = town.send(gateway, 7)
        await asyncio.sleep(SECONDS / 2)
        assert worker.unfinished
        monkeypatch.setattr(worker.registry, "beat", away)
        began = town.clock()
        assert await worker.drain(5.0)
        assert not worker.unfinished
        assert town.clock() - began >= SECONDS / 2
        assert all(dock.draining for dock in worker._slots.docks.values())
        [answer] = await replies([asker])
        assert answer.output == right_answer(7)
        await town.stop()

    run_virtual(body())


def test_a_worker_that_has_not_finished_in_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        town = await busy_town()
        [gateway], [worker] = town.gateways, town.workers
        town.send(gateway, 7)
        await asyncio.sleep(SECONDS / 2)
        monkeypatch.setattr(worker.registry, "beat", away)
        assert not await worker.drain(SECONDS / 4)
        await town.stop()

    run_virtual(body())


def test_a_batcher_that_cannot_give_back_its_shards_finishes_what_it_has_in_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        town = await busy_town()
        [gateway], [batcher] = town.gateways, town.batchers
        asker = town.send(gateway, 7)
        await asyncio.sleep(SECONDS / 2)
        assert batcher.unfinished
        monkeypatch.setattr(batcher.leases, "release_all", away)
        assert await batcher.drain(5.0)
        assert not batcher.unfinished
        [answer] = await replies([asker])
        assert answer.output == right_answer(7)
        await town.stop()

    run_virtual(body())


def test_what_a_dock_still_tells_ends_with_its_worker() -> None:
    async def body() -> None:
        town = await busy_town()
        [worker] = town.workers
        for dock in worker._slots.docks.values():
            dock._soon(asyncio.sleep(1000.0))
        await worker.stop()
        assert not any(dock.busy for dock in worker._slots.docks.values())
        town.workers.clear()
        await town.stop()

    run_virtual(body())
