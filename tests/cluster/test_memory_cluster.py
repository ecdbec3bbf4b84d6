"""Gateways, batchers and workers in one process and in virtual time, whatever dies."""

import asyncio

from town import SECONDS, Town, replies, right_answer

from penstock.testing import Recorder, run_virtual
from penstock.types import Ask, Outcome

NUMBER = 400


async def whole_town() -> Town:
    town = Town()
    for _ in range(2):
        await town.add_gateway()
    for _ in range(2):
        await town.add_batcher()
    for _ in range(3):
        await town.add_worker()
    await town.settle_down()
    return town


def test_everybody_is_answered_once_and_correctly() -> None:
    async def body() -> None:
        town = await whole_town()
        began = town.clock()
        askers = []
        for number in range(NUMBER):
            askers.append(town.send(town.gateways[number % 2], number))
            await asyncio.sleep(0.001)
        answers = await replies(askers)  # a second answer to one of them would be an error
        assert [each.outcome for each in answers] == [Outcome.SUCCESS] * NUMBER
        assert [each.output for each in answers] == [right_answer(number) for number in range(NUMBER)]
        assert sorted(town.executions()) == sorted(b'"%d"' % number for number in range(NUMBER))
        # Six slots take batches of up to 16: all of it fits into nine rounds, and it came in 0.4 s.
        assert town.clock() - began < 0.4 + 9 * SECONDS
        await town.stop()

    run_virtual(body())


def test_a_batcher_and_a_worker_that_vanish_take_nothing_with_them() -> None:
    async def body() -> None:
        town = await whole_town()
        askers = []
        for number in range(NUMBER):
            askers.append(town.send(town.gateways[number % 2], number))
            await asyncio.sleep(0.001)
            if number == NUMBER // 2:
                assert town.batchers[0].intake.in_hand
                assert town.workers[0].unfinished
                await town.vanish(town.batchers[0])
                await town.vanish(town.workers[0])
                died = town.clock()
        answers = await replies(askers)
        assert [each.output for each in answers] == [right_answer(number) for number in range(NUMBER)]
        assert {each.outcome for each in answers} == {Outcome.SUCCESS}
        # What the dead had in hand is taken over after a lease, and done within a few batches.
        assert town.clock() - died < 2 * town.bus.lease + 1.0
        await town.settle_down()
        assert not town.batchers[1].intake.in_hand
        assert len(town.batchers[1].leases.owned) == town.shards.number
        await town.stop()

    run_virtual(body())


def test_a_task_outlives_the_gateway_that_took_it_and_is_read_at_another() -> None:
    async def body() -> None:
        town = await whole_town()
        one, other = town.gateways
        task = await one.gateway.submit_task(Ask(b'"7"', "double"))
        await town.vanish(one)
        found = await other.gateway.find_task(task.id, None)
        await found.wait(10.0)
        assert found.answer is not None
        assert found.answer.output == right_answer(7)
        assert town.executions() == [b'"7"']
        await town.stop()

    run_virtual(body())


def test_one_key_asked_at_two_gateways_is_executed_once() -> None:
    async def body() -> None:
        town = await whole_town()
        askers = [Recorder() for _ in range(6)]
        for number, asker in enumerate(askers):
            town.gateways[number % 2].gateway.submit_keyed(Ask(b'"7"', "double"), "key", asker)
        assert {each.output for each in await replies(askers)} == {right_answer(7)}
        assert town.executions() == [b'"7"']
        await town.stop()

    run_virtual(body())


def test_a_lone_batcher_that_vanishes_is_followed_by_one_that_comes_later() -> None:
    async def body() -> None:
        town = Town()
        gateway = await town.add_gateway()
        batcher = await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        askers = [town.send(gateway, number) for number in range(50)]
        await asyncio.sleep(SECONDS / 2)
        await town.vanish(batcher)
        late = [town.send(gateway, number) for number in range(50, 60)]
        await asyncio.sleep(2 * town.bus.lease)
        await town.add_batcher()
        answers = await replies([*askers, *late])
        assert [each.output for each in answers] == [right_answer(number) for number in range(60)]
        await town.stop()

    run_virtual(body())
