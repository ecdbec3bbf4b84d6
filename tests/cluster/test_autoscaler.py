"""An autoscaler over a bus: it sees the load by the heartbeats, one leads, and no request pays for a change."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from town import SECONDS, Town, replies, right_answer

from penstock.cluster.autoscaler import AutoscalerMember
from penstock.cluster.worker import WorkerMember
from penstock.config import Autoscaler
from penstock.errors import Overloaded
from penstock.ports.scaling import NotScaled
from penstock.testing import Recorder, run_virtual
from penstock.words.announcements import ModelAnnouncement

# A minute of virtual time is a second of a test: so the waits are short here, and the rules are the same.
QUICK = Autoscaler(minimum=1, maximum=4, fast=1.0, slow=2.0, cool_down=4.0, idle=6.0, start=1.0, drain=1.0)
ONE = 2 * 16 / SECONDS  # requests a second that a worker of a town does: two slots, batches of 16
STARTS = 2.0  # seconds until a worker that was asked for comes


@dataclass
class Supervisor:
    """Starts and stops the workers of a town, as it is told."""

    town: Town
    told: list[int] = field(default_factory=list)
    coming: int = 0
    fails: int = 0  # how often it fails before it does what it is told
    tells: bool = True  # whether it knows how many workers there are
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)
    wanted: int = 0

    async def present(self) -> int | None:
        if self.fails:
            self.fails -= 1
            raise NotScaled("it is away")
        return len(self.town.workers) + self.coming if self.tells else None

    async def scale(self, workers: int) -> None:
        if self.fails:
            self.fails -= 1
            raise NotScaled("it is away")
        self.told.append(workers)
        for _ in range(workers - len(self.town.workers) - self.coming):
            self.coming += 1
            self.tasks.append(asyncio.create_task(self._start()))
        for _ in range(len(self.town.workers) - workers):
            self.tasks.append(asyncio.create_task(_stop(self.town.workers.pop())))

    async def close(self) -> None:
        await asyncio.gather(*self.tasks)

    async def _start(self) -> None:
        await asyncio.sleep(STARTS)
        await self.town.add_worker()
        self.coming -= 1


async def _stop(worker: WorkerMember) -> None:
    worker.retire()
    assert await worker.drain(30.0)
    await worker.stop()


async def autoscaler(town: Town, hand: Supervisor, settings: Autoscaler = QUICK) -> AutoscalerMember:
    config = replace(town.config, autoscaler=settings)
    member = AutoscalerMember(config, town._own_bus(), hand, town.loop, town.clock)
    member.start()
    await member.started
    return member


async def load(town: Town, rate: float, seconds: float, timeout: float | None = None) -> list[Recorder]:
    """Requests at equal gaps, to the gateways in turn."""
    askers: list[Recorder] = []
    gap, count = 0.02, 0.0
    end = town.clock() + seconds
    while town.clock() < end:
        count += rate * gap
        while count >= 1.0:
            count -= 1.0
            askers.append(town.send(town.gateways[len(askers) % len(town.gateways)], len(askers), timeout))
        await asyncio.sleep(gap)
    return askers


async def town_of_one() -> Town:
    town = Town()
    await town.add_gateway()
    await town.add_batcher()
    await town.add_worker()
    await town.settle_down()
    return town


def test_workers_come_with_the_load_and_go_after_it_and_no_request_fails() -> None:
    async def body() -> None:
        town = await town_of_one()
        hand = Supervisor(town)
        scaler = await autoscaler(town, hand)
        askers = await load(town, 0.5 * ONE, 2.0)
        askers += await load(town, 1.5 * ONE, 8.0, timeout=30.0)
        assert len(town.workers) >= 3  # 1.5 ÷ 0.7, and perhaps one for the backlog
        askers += await load(town, 0.1 * ONE, 30.0)
        assert len(town.workers) == 1
        assert max(hand.told) <= QUICK.maximum
        assert all(reply.failure is None for reply in await replies(askers))
        report = scaler.describe().models["double"]
        assert (report.wanted, report.ready, report.removed) == (1, 1, report.added)
        assert report.measured
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_one_leads_and_another_takes_over_with_what_there_is() -> None:
    async def body() -> None:
        town = await town_of_one()
        hand = Supervisor(town)
        first = await autoscaler(town, hand)
        await town.settle_down()
        second = await autoscaler(town, hand)
        await load(town, 1.5 * ONE, 8.0, timeout=30.0)
        led = len(town.workers)
        assert led >= 3
        assert (first.describe().leads, second.describe().leads) == (True, False)
        told, heard = first.scale(), second.scale()
        assert told is not None
        assert heard is not None
        assert (told["workers"], told["leader"]) == (heard["workers"], heard["leader"]) == (led, first.name)
        assert heard["models"]["double"].why
        await town.vanish(first)
        await asyncio.sleep(town.bus.lease + 2.0)
        assert (second.describe().leads, second.describe().workers) == (True, led)
        await asyncio.sleep(QUICK.cool_down - 2.5)
        assert (
            len(town.workers) == led
        )  # it has not seen the past, so it waits a cool-down before it removes any
        await asyncio.sleep(10 * QUICK.cool_down)
        assert len(town.workers) == 1
        await second.stop()
        await town.stop()

    run_virtual(body())


def test_a_leader_that_drains_hands_over_at_once() -> None:
    async def body() -> None:
        town = await town_of_one()
        first = await autoscaler(town, Supervisor(town))
        await town.settle_down()
        second = await autoscaler(town, Supervisor(town))
        first.retire()
        assert await first.drain(1.0)
        assert not first.describe().leads
        await asyncio.sleep(2 * town.bus.heartbeat + QUICK.interval)
        assert second.describe().leads
        await first.stop()
        await second.stop()
        await town.stop()

    run_virtual(body())


def test_without_requests_the_last_worker_goes_and_clients_are_told_how_long_a_start_takes() -> None:
    async def body() -> None:
        town = await town_of_one()
        hand = Supervisor(town)
        scaler = await autoscaler(town, hand, replace(QUICK, minimum=0))
        [asker] = await load(town, 50.0, 0.02)
        assert (await asker.answer).output == right_answer(0)
        await asyncio.sleep(QUICK.idle + QUICK.cool_down + 4.0)
        assert (len(town.workers), hand.told[-1]) == (0, 0)

        with pytest.raises(Overloaded, match="no worker is running; one is being started") as refused:
            town.send(town.gateways[0], 1)
        assert refused.value.retry_after == QUICK.start  # none has been measured yet
        await asyncio.sleep(STARTS + 3.0)
        assert len(town.workers) == 1
        [asker] = await load(town, 50.0, 0.02)
        assert (await asker.answer).output == right_answer(0)

        await asyncio.sleep(QUICK.idle + QUICK.cool_down + 4.0)
        with pytest.raises(Overloaded) as refused:
            town.send(town.gateways[0], 1)
        assert refused.value.retry_after == pytest.approx(STARTS, abs=1.5)  # it was measured
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_until_a_model_is_known_one_worker_is_kept_to_announce_it() -> None:
    async def body() -> None:
        town = Town()
        await town.add_gateway()
        await town.add_batcher()
        hand = Supervisor(town)
        scaler = await autoscaler(town, hand, replace(QUICK, minimum=0))
        await asyncio.sleep(4.0)
        assert hand.told == [1]
        assert len(town.workers) == 1
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_what_fails_is_tried_again_with_the_number_that_is_wanted_by_then() -> None:
    async def body() -> None:
        town = await town_of_one()
        hand = Supervisor(town)
        scaler = await autoscaler(town, hand)
        await asyncio.sleep(2.0)
        assert hand.told == [1]
        hand.fails = 2
        await load(town, 1.5 * ONE, 8.0, timeout=30.0)
        assert hand.told[-1] >= 3
        assert scaler.failures == 2
        scaling = scaler.gauges().scaling
        assert scaling is not None
        assert (scaling.leads, scaling.workers, scaling.failures) == (True, hand.told[-1], 2)
        assert scaling.models["double"].added >= 2
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_a_hand_that_cannot_say_how_many_there_are_is_asked_again() -> None:
    async def body() -> None:
        town = await town_of_one()
        hand = Supervisor(town, fails=2)
        scaler = await autoscaler(town, hand)
        await asyncio.sleep(4.0)
        assert (hand.told, scaler.failures) == ([1], 2)
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_where_the_hand_cannot_tell_the_registry_says_how_many_workers_there_are() -> None:
    async def body() -> None:
        town = await town_of_one()
        await town.add_worker()
        await town.settle_down()
        hand = Supervisor(town, tells=False)
        scaler = await autoscaler(town, hand)
        await asyncio.sleep(2.0)
        assert hand.told == [2]
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_workers_of_other_models_are_left_alone() -> None:
    async def body() -> None:
        town = await town_of_one()
        hand = Supervisor(town, tells=False)
        scaler = await autoscaler(town, hand, replace(QUICK, minimum=0, models=("another",)))
        await load(town, 1.5 * ONE, 6.0)
        assert hand.told == [1]  # one, to announce it
        assert scaler.describe().models == {}
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_a_model_that_nobody_asks_for_does_not_keep_the_workers_of_the_others() -> None:
    """It was announced once, and is run no more: an announcement stays for good."""

    async def body() -> None:
        town = await town_of_one()
        scaler = await autoscaler(town, Supervisor(town))
        askers = await load(town, 1.5 * ONE, 8.0, timeout=30.0)
        assert len(town.workers) >= 3
        await town.gateways[0].registry.announce_model("retired", ModelAnnouncement())
        askers += await load(town, 0.1 * ONE, 30.0)
        assert scaler.describe().models["retired"].wanted == 1
        assert len(town.workers) == 1
        assert all(reply.failure is None for reply in await replies(askers))
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_a_model_that_is_not_announced_any_more_counts_no_more() -> None:
    async def body() -> None:
        town = await town_of_one()
        scaler = await autoscaler(town, Supervisor(town))
        await town.gateways[0].registry.announce_model("removed", ModelAnnouncement())
        await asyncio.sleep(2.0)
        assert set(scaler.describe().models) == {"double", "removed"}
        assert isinstance(scaler.registry.models, dict)
        del town.bus._registry.models["removed"], scaler.registry.models["removed"]
        await asyncio.sleep(2.0)
        assert set(scaler.describe().models) == {"double"}
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_other_settings_count_from_then_on() -> None:
    async def body() -> None:
        town = await town_of_one()
        hand = Supervisor(town)
        scaler = await autoscaler(town, hand)
        await asyncio.sleep(2.0)
        more = replace(scaler.config, autoscaler=replace(QUICK, minimum=3))
        scaler.follow(scaler.config, more)
        await asyncio.sleep(STARTS + 2.0)
        assert (hand.told, len(town.workers)) == ([1, 3], 3)
        assert scaler.describe().minimum == 3
        await scaler.stop()
        await town.stop()

    run_virtual(body())


def test_a_process_that_comes_back_after_a_cut_brings_no_flood() -> None:
    async def body() -> None:
        town = await town_of_one()
        scaler = await autoscaler(town, Supervisor(town))
        await load(town, 0.3 * ONE, 3.0)
        batchers = scaler.registry.members["batchers"]
        assert isinstance(batchers, dict)
        cut_off = dict(batchers)
        batchers.clear()
        scaler._demand.look()
        batchers.update(cut_off)
        assert scaler._demand.look()["double"].arrived == 0
        await scaler.stop()
        await town.stop()

    run_virtual(body())
