"""A batcher that drains gives its shards back, and the others read them at once, however long it takes to finish
what it has in hand."""

import asyncio
from collections import Counter
from typing import cast

import pytest
from town import Town, replies, right_answer

from penstock.adapters.memory.intake import MemoryIntake
from penstock.cluster.batcher import BatcherMember
from penstock.cluster.gateway import GatewayMember
from penstock.cluster.gateway_admission import BATCHER_BACK
from penstock.core.queued import Queued
from penstock.errors import Overloaded
from penstock.testing import Answer, Recorder, run_virtual
from penstock.types import Ask, Batch, Outcome, Request
from penstock.words.envelopes import encode_envelope

LONG = 2.5  # seconds that a batch with one of the slow inputs takes
LATE = 10**6  # the number of an entry that a reader was just bringing
SLOW = 900  # the first of the slow inputs


def script(batch: Batch) -> Answer:
    slow = any(int(each.input.strip(b'"')) >= SLOW for each in batch.requests)
    return Answer(LONG if slow else 0.05, tuple(each.input[:-1] + each.input[1:] for each in batch.requests))


async def town_of(*zones: str) -> tuple[Town, GatewayMember]:
    """A town with a gateway in the first zone, and a batcher and two workers in each."""
    town = Town(script)
    gateway = await town.add_gateway(zones[0])
    for zone in zones:
        await town.add_batcher(zone)
        await town.add_worker(zone)
        await town.add_worker(zone)
    await town.settle_down()
    await town.settle_down()
    await replies([town.send(gateway, number) for number in range(4)])
    await asyncio.sleep(1.0)  # by now the batchers have heard how these ended
    return town, gateway


async def keep_busy(town: Town, gateway: GatewayMember, batcher: BatcherMember) -> list[Recorder]:
    """Send slow requests until the batcher has one of them in hand."""
    asked = []
    while not batcher.unfinished:
        asked.append(town.send(gateway, SLOW))
        await asyncio.sleep(0.05)
    return asked


async def outcomes_of(
    town: Town, gateway: GatewayMember, number: int, timeout: float | None
) -> Counter[Outcome]:
    asked = []
    for each in range(number):
        asked.append(town.send(gateway, 10 + each, timeout))
        await asyncio.sleep(0.01)
    return Counter(each.outcome for each in await replies(asked))


@pytest.mark.parametrize("zones", [("", ""), ("a", "b")], ids=["no zones", "its zone's only batcher"])
def test_what_is_asked_while_a_batcher_finishes_a_long_batch_is_served_by_another(
    zones: tuple[str, str],
) -> None:
    async def body() -> None:
        town, gateway = await town_of(*zones)
        leaving, staying = town.batchers
        slow = await keep_busy(town, gateway, leaving)
        began = town.clock()
        leaving.retire()
        drained = asyncio.create_task(leaving.drain(30.0))
        outcomes = await outcomes_of(town, gateway, 32, timeout=1.0)
        assert not drained.done()
        assert outcomes == {Outcome.SUCCESS: 32}
        assert len(staying.leases.owned) == town.shards.number
        assert await drained
        assert town.clock() - began > LONG / 2, "it had something long in hand"
        assert {each.outcome for each in await replies(slow)} == {Outcome.SUCCESS}
        await town.stop()

    run_virtual(body())


def test_what_a_draining_batcher_has_in_hand_is_taken_from_it_by_nobody() -> None:
    async def body() -> None:
        town, gateway = await town_of("", "")
        leaving, _ = town.batchers
        slow = await keep_busy(town, gateway, leaving)
        leaving.retire()
        assert await leaving.drain(30.0)
        assert [each.output for each in await replies(slow)] == [right_answer(SLOW)] * len(slow)
        assert town.executions().count(b'"%d"' % SLOW) == len(slow), "each ran once"
        await town.stop()

    run_virtual(body())


async def send_into_many_shards(town: Town, gateway: GatewayMember, number: int) -> list[Recorder]:
    asked = []
    for each in range(number):
        asked.append(town.send(gateway, 10 + each, timeout=60.0))
        if each % 20 == 0:
            await asyncio.sleep(0.001)
    return asked


def test_what_a_draining_batcher_was_just_reading_is_not_refused_for_what_it_has_in_hand() -> None:
    async def scene() -> None:
        town, gateway = await town_of("", "")
        leaving, _ = town.batchers
        await replies(await send_into_many_shards(town, gateway, 600))
        await asyncio.sleep(1.0)  # by now both know how long a batch takes
        asked = await send_into_many_shards(town, gateway, 600)
        waiting = leaving.describe().models["double"]
        assert waiting.queue_depth > waiting.max_batch
        assert waiting.backlog_seconds > 0.0
        leaving.retire()
        drained = asyncio.create_task(leaving.drain(60.0))
        await asyncio.sleep(0.001)
        assert not leaving.leases.owned
        assert leaving.describe().models["double"].backlog_seconds <= 2 * waiting.backlog_seconds
        now = town.clock()
        late = Request("late", "double", b'"1"', now, now + 2.0, now + 4.0, "late")
        body, shard = encode_envelope(gateway.name, [late], [], now), town.shards._shards.every[0]
        shard.given[LATE], shard.entries[LATE] = leaving.name, body
        cast(MemoryIntake[Queued], leaving.intake)._take_entry(0, LATE, body, inherited=False)
        assert "late" in leaving.intake.in_hand, "it was let in"
        assert {each.outcome for each in await replies(asked)} == {Outcome.SUCCESS}
        assert await drained
        await town.stop()

    run_virtual(scene())


def test_a_batcher_that_was_drained_and_stays_up_is_sent_nothing() -> None:
    async def body() -> None:
        town, gateway = await town_of("", "")
        drained, staying = town.batchers
        drained.retire()
        assert await drained.drain(30.0)
        await asyncio.sleep(60.0)
        assert await outcomes_of(town, gateway, 16, timeout=None) == {Outcome.SUCCESS: 16}
        assert (len(drained.leases.owned), len(staying.leases.owned)) == (0, town.shards.number)
        await town.stop()

    run_virtual(body())


def test_others_hear_of_a_drain_at_once_and_not_with_the_next_heartbeat() -> None:
    async def body() -> None:
        town, _ = await town_of("", "")
        leaving, staying = town.batchers
        await asyncio.sleep(0.1 * town.bus.heartbeat)
        leaving.retire()
        assert await leaving.drain(30.0)
        await staying.registry.beat()
        await asyncio.sleep(0.001)
        assert len(staying.leases.owned) == town.shards.number
        await town.stop()

    run_virtual(body())


def test_with_its_only_batcher_drained_a_gateway_soon_lets_nothing_in() -> None:
    async def body() -> None:
        town, gateway = await town_of("")
        [batcher] = town.batchers
        batcher.retire()
        assert await batcher.drain(30.0)
        await town.settle_down()
        town.send(gateway, 1, timeout=0.5)  # one that is started again within a few seconds would find it
        await asyncio.sleep(BATCHER_BACK)
        with pytest.raises(Overloaded, match="no batcher is running"):
            gateway.gateway.submit(Ask(b'"1"', "double"), Recorder())
        assert gateway.condition()["status"] == "unhealthy"
        await town.add_batcher()
        await town.settle_down()
        [answer] = await replies([town.send(gateway, 2)])
        assert answer.output == right_answer(2)
        await town.stop()

    run_virtual(body())


def test_a_batcher_told_to_drain_before_it_has_started_takes_no_shards() -> None:
    async def body() -> None:
        town, gateway = await town_of("")
        late = BatcherMember(
            town.config, town._own_bus(), town.shards, town.records, town.batchers[0]._observer,
            lambda model: None, town.loop, town.clock, town.wall_clock,
        )  # fmt: skip
        late.retire()
        late.start()
        await late.started
        await town.settle_down()
        assert (len(late.leases.owned), len(town.batchers[0].leases.owned)) == (0, town.shards.number)
        [answer] = await replies([town.send(gateway, 2)])
        assert answer.output == right_answer(2)
        await late.stop()
        await town.stop()

    run_virtual(body())
