"""Three zones, each with a gateway, a batcher and a worker, in one process and in virtual time.

A request's number tells where it was asked: 30 is the zone's that comes first, 31 the second's, 32 the third's.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass

from town import Town, replies, right_answer

from penstock.adapters.observe.metrics import Metrics
from penstock.cluster.batcher import BatcherMember
from penstock.cluster.gateway import GatewayMember
from penstock.cluster.worker import WorkerMember
from penstock.shard_plan import shards_at_home
from penstock.testing import Answer, Recorder, run_virtual
from penstock.types import Ask, Batch, Outcome

ZONES = ("a", "b", "c")
SECONDS = 0.2  # that a batch of up to 16 takes
CAPACITY = 2 * 16 / SECONDS  # requests a second of one zone, whose worker has two slots


def slowly(batch: Batch) -> Answer:
    return Answer(SECONDS, tuple(each.input[:-1] + each.input[1:] for each in batch.requests))


@dataclass
class Zone:
    number: int
    town: Town
    gateway: GatewayMember
    batcher: BatcherMember
    worker: WorkerMember
    sent: int = 0

    def ask(self, timeout: float | None = None) -> tuple[int, Recorder]:
        number = 30 * (self.sent + 1) + self.number
        self.sent += 1
        return number, self.town.send(self.gateway, number, timeout)

    async def load(self, rate: float, seconds: float) -> list[tuple[int, Recorder]]:
        asked = []
        for _ in range(round(rate * seconds)):
            asked.append(self.ask())
            await asyncio.sleep(1 / rate)
        return asked

    def strangers(self, since: int = 0) -> int:
        """How many requests of other zones its worker was given, of those after the first `since` executions."""
        given = self.town.executions(self.worker)[since:]
        return sum(int(text.strip(b'"')) % 30 != self.number for text in given)


async def three_zones() -> tuple[Town, list[Zone]]:
    town = Town(slowly)
    zones = [
        Zone(
            number,
            town,
            await town.add_gateway(name),
            await town.add_batcher(name),
            await town.add_worker(name),
        )
        for number, name in enumerate(ZONES)
    ]
    await town.settle_down()
    await town.settle_down()
    return town, zones


async def all_right(asked: list[tuple[int, Recorder]]) -> None:
    answers = await replies([asker for _, asker in asked])
    assert Counter(each.outcome for each in answers) == {Outcome.SUCCESS: len(asked)}
    assert [each.output for each in answers] == [right_answer(number) for number, _ in asked]


def test_while_each_zone_can_do_its_own_nothing_crosses() -> None:
    async def body() -> None:
        town, zones = await three_zones()
        for name, zone in zip(ZONES, zones, strict=True):
            assert zone.batcher.leases.owned == set(shards_at_home(town.shards.number, ZONES, name))
        asked = await asyncio.gather(*(zone.load(0.8 * CAPACITY, 3.0) for zone in zones))
        for each in asked:
            await all_right(each)
        assert [zone.strangers() for zone in zones] == [0, 0, 0]
        assert len(town.executions()) == sum(map(len, asked))
        await town.stop()

    run_virtual(body())


def test_what_is_beyond_one_zone_is_done_by_the_others_and_then_everything_stays_at_home_again() -> None:
    async def body() -> None:
        town, zones = await three_zones()
        counted = Metrics(["double"])
        zones[0].batcher._observer.add(counted)
        quiet = [zone.load(0.2 * CAPACITY, 8.0) for zone in zones[1:]]
        asked = await asyncio.gather(zones[0].load(1.8 * CAPACITY, 8.0), *quiet)
        for each in asked:
            await all_right(each)
        crossed = zones[1].strangers() + zones[2].strangers()
        assert crossed == counted.models["double"].crossed_requests
        assert 0 < counted.models["double"].crossed_batches <= crossed
        assert zones[0].strangers() == 0
        # No more crosses than is beyond the zone, and what a burst or a heartbeat may add.
        assert crossed <= 0.8 * CAPACITY * 8.0 + 2 * CAPACITY
        before = [len(town.executions(zone.worker)) for zone in zones]
        await all_right(await zones[0].load(0.8 * CAPACITY, 2.0))
        assert [zone.strangers(since) for zone, since in zip(zones, before, strict=True)] == [0, 0, 0]
        await town.stop()

    run_virtual(body())


def test_a_zone_that_has_lost_its_workers_is_served_by_the_others_until_it_has_one_again() -> None:
    async def body() -> None:
        town, zones = await three_zones()
        first = zones[0]
        loads = [asyncio.ensure_future(zone.load(0.5 * CAPACITY, 6.0)) for zone in zones]
        await asyncio.sleep(1.0)
        assert first.worker.unfinished
        await town.vanish(first.worker)
        for asked in await asyncio.gather(*loads):
            await all_right(asked)
        assert zones[1].strangers() > 0
        assert zones[2].strangers() > 0
        assert max(Counter(town.executions()).values()) <= 2
        first.worker = await town.add_worker("a")
        await town.settle_down()
        before = [len(town.executions(zone.worker)) for zone in zones]
        await all_right(await first.load(0.5 * CAPACITY, 2.0))
        assert [zone.strangers(since) for zone, since in zip(zones, before, strict=True)] == [0, 0, 0]
        await town.stop()

    run_virtual(body())


def test_a_zone_that_has_lost_its_batcher_has_its_requests_batched_elsewhere() -> None:
    async def body() -> None:
        town, zones = await three_zones()
        load = asyncio.ensure_future(zones[0].load(0.3 * CAPACITY, 4.0))
        await asyncio.sleep(1.0)
        await town.vanish(zones[0].batcher)
        await all_right(await load)
        owned = [zone.batcher.leases.owned for zone in zones[1:]]
        assert set().union(*owned) == set(range(town.shards.number))
        assert sum(map(len, owned)) == town.shards.number
        await town.stop()

    run_virtual(body())


def test_a_whole_zone_lost_at_60_percent_loses_no_accepted_request_and_costs_what_it_had_in_hand_a_retry() -> (
    None
):
    async def body() -> None:
        town, zones = await three_zones()
        lost, rest = zones[2], zones[:2]
        loads = [asyncio.ensure_future(zone.load(0.6 * CAPACITY, 8.0)) for zone in rest]
        own = asyncio.ensure_future(lost.load(0.6 * CAPACITY, 2.0))
        tasks = [await lost.gateway.gateway.submit_task(Ask(b'"%d"' % n, "double")) for n in range(5)]
        await asyncio.sleep(1.99)
        tasks += [await lost.gateway.gateway.submit_task(Ask(b'"%d"' % n, "double")) for n in range(5, 20)]
        assert lost.worker.unfinished
        in_hand = len(lost.batcher.intake.in_hand)
        for member in (lost.worker, lost.batcher, lost.gateway):
            await town.vanish(member)
        # Its clients ask the others from now on.
        loads += [asyncio.ensure_future(zone.load(0.3 * CAPACITY, 5.0)) for zone in rest]
        for asked in await asyncio.gather(*loads):
            await all_right(asked)
        await own
        for number, task in enumerate(tasks):  # each was accepted, and any gateway knows how it ended
            found = await rest[0].gateway.gateway.find_task(task.id, None)
            await found.wait(10.0)
            assert found.answer is not None
            assert found.answer.output == right_answer(number)
        again = Counter(town.executions())
        assert max(again.values()) <= 2
        assert sum(times > 1 for times in again.values()) <= in_hand
        await town.stop()

    run_virtual(body())


def test_processes_without_a_zone_are_a_zone_like_any_other() -> None:
    async def body() -> None:
        town = Town(slowly)
        names = ("", "a")
        zones = [
            Zone(
                n,
                town,
                await town.add_gateway(name),
                await town.add_batcher(name),
                await town.add_worker(name),
            )
            for n, name in enumerate(names)
        ]
        await town.settle_down()
        await town.settle_down()
        for asked in await asyncio.gather(*(zone.load(0.5 * CAPACITY, 2.0) for zone in zones)):
            await all_right(asked)
        assert [zone.strangers() for zone in zones] == [0, 0]
        await town.vanish(zones[0].worker)
        await all_right(await zones[0].load(0.3 * CAPACITY, 3.0))
        assert zones[1].strangers() > 0
        await town.stop()

    run_virtual(body())


def test_a_gateway_in_a_zone_without_a_batcher_sends_to_all() -> None:
    async def body() -> None:
        town = Town(slowly)
        gateway = await town.add_gateway("far")
        for name in ("a", "b"):
            await town.add_batcher(name)
            await town.add_worker(name)
        await town.settle_down()
        await town.settle_down()
        askers = []
        for number in range(64):
            askers.append((number, town.send(gateway, number)))
            await asyncio.sleep(0.02)
        await all_right(askers)
        assert all(town.executions(worker) for worker in town.workers)
        await town.stop()

    run_virtual(body())
