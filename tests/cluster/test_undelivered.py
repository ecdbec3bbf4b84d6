"""Messages of a batcher that do not arrive: a worker that has gone is one thing, a bus that is away another."""

import asyncio
from collections.abc import Sequence

import pytest
from town import SECONDS, Town, replies, right_answer

from penstock.cluster.batcher import NO_MODEL
from penstock.errors import StoreDown
from penstock.testing import run_virtual

AWAY = 30.0  # seconds after which the post gives up


async def town_with_one_worker() -> Town:
    town = Town()
    await town.add_gateway()
    await town.add_batcher()
    await town.add_worker()
    await town.settle_down()
    return town


def test_a_bus_that_stays_away_takes_no_worker_and_no_batch_in_hand_from_a_batcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        town = await town_with_one_worker()
        [gateway], [batcher], [worker] = town.gateways, town.batchers, town.workers
        healthy = batcher._pumps["double"].batcher.fleet.healthy
        assert healthy == 2

        async def away(messages: Sequence[tuple[str, bytes]], *, give_up_after: float = AWAY) -> list[bool]:
            raise StoreDown("away")

        asker = town.send(gateway, 7)
        await asyncio.sleep(SECONDS / 2)
        assert worker.unfinished
        with monkeypatch.context() as patched:
            patched.setattr(batcher.bus.post, "send_all", away)
            batcher.dispatcher._put(worker.name, b"")
            await batcher.dispatcher.flush()
        assert batcher._pumps["double"].batcher.fleet.healthy == healthy
        [answer] = await replies([asker])
        assert answer.output == right_answer(7)
        await asyncio.sleep(1.0)
        assert town.executions() == [b'"7"']
        await town.stop()

    run_virtual(body())


def test_a_worker_whose_mailbox_is_gone_has_left_and_a_gateway_whose_mailbox_is_gone_is_no_worker() -> None:
    async def body() -> None:
        town = await town_with_one_worker()
        [batcher], [worker] = town.batchers, town.workers
        batcher.dispatcher.refuse("a gateway that is gone", ["key"], NO_MODEL)
        await batcher.dispatcher.flush()
        assert not batcher._workers._departed
        await town.vanish(worker)
        await worker.mailbox.remove()
        batcher.dispatcher._put(worker.name, b"")
        await batcher.dispatcher.flush()
        assert [*batcher._workers._departed] == [worker.name]
        await town.stop()

    run_virtual(body())
