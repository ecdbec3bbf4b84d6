"""A busy worker elsewhere gets its next batch before it has ended the one in hand, if that next batch is full."""

import asyncio
from dataclasses import replace

import pytest
from town import SECONDS, Town, doubled, replies, right_answer

from penstock.cluster.borrowing import HELD
from penstock.core.ahead import EASY
from penstock.runtime.vitals import FULL
from penstock.testing import Answer, run_virtual
from penstock.types import Batch, Outcome

BATCH = 16  # requests in a full batch of the town
ROUNDS = 12  # batches for each slot


@pytest.mark.parametrize("batchers", [1, 2])
def test_under_full_load_most_batches_are_handed_ahead(batchers: int) -> None:
    async def body() -> None:
        town = Town()
        gateway = await town.add_gateway()
        for _ in range(batchers):
            await town.add_batcher()
        for _ in range(2):
            await town.add_worker()
        await town.settle_down()
        number = 4 * ROUNDS * BATCH
        askers = []
        for each in range(number):
            askers.append(town.send(gateway, each))
            if each % 8 == 0:  # what comes at once goes to one of the batchers
                await asyncio.sleep(0.001)
        answers = await replies(askers)
        assert [each.output for each in answers] == [right_answer(each) for each in range(number)]
        assert len(town.executions()) == number
        # The first batches only teach how long a batch takes, and the last are no longer full.
        batches = [batch for backend in town.backends for batch in backend.batches]
        assert sum(batch.ahead for batch in batches) > len(batches) / 2
        await town.stop()

    run_virtual(body())


@pytest.mark.parametrize("batchers", [1, 2])
def test_no_worker_stands_idle_though_batches_are_shorter_than_messages_are_on_their_way(
    batchers: int,
) -> None:
    """A worker may have run two batches, and be free again, before its batcher hears of either."""

    async def body() -> None:
        def short(batch: Batch) -> Answer:
            return replace(doubled(batch), seconds=0.001)

        town = Town(script=short, post_seconds=0.003)
        gateway = await town.add_gateway()
        for _ in range(batchers):
            await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        longest = 0.0
        for _ in range(20):
            sent = town.clock()
            await replies([town.send(gateway, each) for each in range(40 * BATCH)])
            longest = max(longest, town.clock() - sent)
        assert any(batch.ahead for backend in town.backends for batch in backend.batches)
        assert longest < 2 * HELD, "a worker that was free was held for nothing, or had to say so twice"
        await town.stop()

    run_virtual(body())


def test_a_worker_that_leaves_under_full_load_is_handed_nothing_more() -> None:
    async def body() -> None:
        town = Town()
        gateway = await town.add_gateway()
        await town.add_batcher()
        leaving, staying = await town.add_worker(), await town.add_worker()
        await town.settle_down()
        number = 4 * ROUNDS * BATCH
        askers = [town.send(gateway, each) for each in range(number)]
        await asyncio.sleep(4 * SECONDS)
        assert any(batch.ahead for backend in town.backends[:2] for batch in backend.batches)
        leaving.retire()
        assert await leaving.drain(2.0)
        done = sum(len(backend.batches) for backend in town.backends[:2])
        answers = await replies(askers)
        assert {each.outcome for each in answers} == {Outcome.SUCCESS}
        assert sum(len(backend.batches) for backend in town.backends[:2]) == done
        assert not staying.why_not_ready()
        await town.stop()

    run_virtual(body())


def test_a_worker_that_says_it_is_rather_full_is_handed_none_ahead() -> None:
    async def body() -> None:
        def rather_full(batch: Batch) -> Answer:
            return replace(doubled(batch), pressure=(EASY + FULL) / 2)

        town = Town(script=rather_full)
        gateway = await town.add_gateway()
        await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        number = 4 * ROUNDS * BATCH
        answers = await replies([town.send(gateway, each) for each in range(number)])
        assert {each.outcome for each in answers} == {Outcome.SUCCESS}
        assert not any(batch.ahead for backend in town.backends for batch in backend.batches)
        await town.stop()

    run_virtual(body())


def test_a_worker_that_takes_one_batch_at_a_time_is_handed_none_ahead() -> None:
    async def body() -> None:
        town = Town(runs_ahead=False)
        gateway = await town.add_gateway()
        await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        number = 4 * ROUNDS * BATCH
        answers = await replies([town.send(gateway, each) for each in range(number)])
        assert {each.outcome for each in answers} == {Outcome.SUCCESS}
        assert not any(batch.ahead for backend in town.backends for batch in backend.batches)
        await town.stop()

    run_virtual(body())
