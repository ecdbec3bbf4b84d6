"""Every process can find out how all the others stand, and none waits for one that does not answer."""

import pytest
from town import Town

from penstock.cluster.lookout import LIMIT
from penstock.cluster.member import Member
from penstock.testing import run_virtual
from penstock.words.messages import Seen


def tells(member: Member) -> None:
    member.lookout.describe = lambda hour: f"{member.name} {hour}".encode()


async def town_of_four() -> Town:
    town = Town()
    for _ in range(2):
        await town.add_gateway()
        await town.add_batcher()
    await town.add_worker()
    for member in (*town.gateways, *town.batchers, *town.workers):
        tells(member)
    await town.settle_down()
    return town


def test_gateways_and_batchers_tell_whoever_asks() -> None:
    async def body() -> None:
        town = await town_of_four()
        others = sorted(each.name for each in (*town.gateways, *town.batchers))
        for member in (*town.gateways, *town.batchers, *town.workers):
            expected = sorted(f"{name} True".encode() for name in others if name != member.name)
            assert sorted(await member.lookout.look(hour=True)) == expected
        await town.stop()

    run_virtual(body())


def test_one_that_does_not_answer_is_waited_for_only_so_long() -> None:
    async def body() -> None:
        town = await town_of_four()
        asker, silent = town.gateways
        silent.lookout.describe = None
        began = town.clock()
        assert len(await asker.lookout.look()) == 2
        assert town.clock() - began == pytest.approx(LIMIT)
        await town.stop()

    run_virtual(body())


def test_an_older_process_is_not_asked() -> None:
    async def body() -> None:
        town = await town_of_four()
        asker, older = town.gateways
        asker.registry.members["gateways"][older.name].tells = False
        assert not any(older.name in told.decode() for told in await asker.lookout.look())
        await town.stop()

    run_virtual(body())


def test_answers_to_no_question_and_answers_given_twice_change_nothing() -> None:
    async def body() -> None:
        town = await town_of_four()
        asker, other = town.gateways
        asker.lookout.told(Seen(other.name, 99, b"nobody asked"))
        told = await asker.lookout.look()
        assert len(told) == 3
        asker.lookout.told(Seen(other.name, 1, b"late"))
        assert len(await asker.lookout.look()) == 3
        await town.stop()

    run_virtual(body())
