"""Gateways, batchers and workers in one process and in virtual time, whatever dies."""

import asyncio

from town import SECONDS, Town, replies, right_answer

from penstock.testing import run_virtual
from penstock.types import Outcome

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
