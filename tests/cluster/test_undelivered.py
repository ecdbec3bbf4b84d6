"""Messages of a batcher that do not arrive: a worker that has gone is one thing, a bus that is away another."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from town import SECONDS, Town, replies, right_answer

from penstock.cluster.batcher import NO_MODEL
from penstock.cluster.dispatch import Message
from penstock.config import Timeouts
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
            batcher.dispatcher._put(Message(worker.name, b""))
            await batcher.dispatcher.flush()
        assert batcher._pumps["double"].batcher.fleet.healthy == healthy
        [answer] = await replies([asker])
        assert answer.output == right_answer(7)
        await asyncio.sleep(1.0)
        assert town.executions() == [b'"7"']
        await town.stop()

    run_virtual(body())


def test_a_batch_that_was_not_sent_is_sent_again_once_the_bus_is_back_however_long_it_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch may take ten minutes here. The watchdog would wait for so long."""

    async def body() -> None:
        town = Town()
        town.config = replace(
            town.config, timeouts=Timeouts(queue=600.0, processing=600.0, request=1200.0, max_client=1200.0)
        )
        gateway, batcher = await town.add_gateway(), await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        send_all, lost = batcher.bus.post.send_all, 0

        async def away_once(
            messages: Sequence[tuple[str, bytes]], *, give_up_after: float = AWAY
        ) -> list[bool]:
            nonlocal lost
            if not lost:
                lost = len(messages)
                await asyncio.sleep(give_up_after)
                raise StoreDown("away")
            return await send_all(messages, give_up_after=give_up_after)

        monkeypatch.setattr(batcher.bus.post, "send_all", away_once)
        began = town.clock()
        [answer] = await replies([town.send(gateway, 7, timeout=1000.0)])
        assert (lost, answer.output) == (1, right_answer(7))
        assert town.clock() - began < 2 * AWAY
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
        batcher.dispatcher._put(Message(worker.name, b""))
        await batcher.dispatcher.flush()
        assert [*batcher._workers._departed] == [worker.name]
        await town.stop()

    run_virtual(body())
