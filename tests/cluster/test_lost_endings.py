"""How a task ended is written down in the end, however long the records are away, and whoever dies meanwhile."""

import asyncio
from collections.abc import Sequence

import pytest
from town import SECONDS, Town

from penstock.cluster.gateway import GatewayMember
from penstock.core.queued import Queued
from penstock.errors import BackendError, StoreDown
from penstock.ports.tasks import Ended
from penstock.testing import Answer, run_virtual
from penstock.types import Ask, Batch, TaskStatus


class Away:
    """Records of endings that cannot be reached for a while."""

    def __init__(self, town: Town, monkeypatch: pytest.MonkeyPatch, *, gives_up: bool = False) -> None:
        """`gives_up`: it waits for a while, and says what it has not stored."""
        self._settle, self._gives_up = town.records.endings.settle, gives_up
        self.away = True
        self.refused = 0
        monkeypatch.setattr(town.records.endings, "settle", self.settle)
        monkeypatch.setattr(town.records.endings, "processing", self.processing)

    async def processing(self, tasks: Sequence[str]) -> None:
        raise StoreDown("away")

    async def settle(self, endings: Sequence[Ended]) -> Sequence[Ended]:
        if not self.away:
            return await self._settle(endings)
        self.refused += 1
        if self._gives_up:
            await asyncio.sleep(30.0)
            return endings
        raise StoreDown("away")


def fails(batch: Batch) -> Answer:
    return Answer(SECONDS, error=BackendError("it broke"))


async def town_of(*, failing: bool = True) -> Town:
    town = Town(script=fails) if failing else Town()
    await town.add_gateway()
    await town.add_batcher()
    await town.add_worker()
    await town.settle_down()
    return town


async def status_of(gateway: GatewayMember, task_id: str) -> TaskStatus:
    return (await gateway.gateway.find_task(task_id, None)).status


@pytest.mark.parametrize("gives_up", [False, True], ids=["raises", "gives up"])
def test_a_failed_task_is_over_when_its_record_can_be_reached_again(
    monkeypatch: pytest.MonkeyPatch, gives_up: bool
) -> None:
    async def body() -> None:
        town = await town_of()
        [gateway], [batcher] = town.gateways, town.batchers
        records = Away(town, monkeypatch, gives_up=gives_up)
        task = await gateway.gateway.submit_task(Ask(b'"7"', "double"))
        await asyncio.sleep(10.0)
        assert records.refused
        assert not await batcher.drain(1.0)  # it is not finished
        records.away = False
        await asyncio.sleep(60.0)
        assert await status_of(gateway, task.id) is TaskStatus.FAILED
        assert not batcher.intake.in_hand
        assert await batcher.drain(1.0)
        await town.stop()

    run_virtual(body())


def test_a_task_whose_ending_was_not_recorded_is_found_by_the_batcher_that_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        town = await town_of()
        [gateway], [batcher] = town.gateways, town.batchers
        records = Away(town, monkeypatch)
        task = await gateway.gateway.submit_task(Ask(b'"7"', "double"))
        await asyncio.sleep(1.0)
        assert records.refused
        await town.vanish(batcher)
        records.away = False
        await town.add_batcher()
        await asyncio.sleep(20.0)
        assert await status_of(gateway, task.id) is TaskStatus.FAILED
        await town.stop()

    run_virtual(body())


def test_a_result_that_was_not_stored_is_stored_later_or_executed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        town = await town_of(failing=False)
        [gateway] = town.gateways
        records = Away(town, monkeypatch, gives_up=True)
        task = await gateway.gateway.submit_task(Ask(b'"7"', "double"))
        await asyncio.sleep(40.0)
        records.away = False
        await asyncio.sleep(30.0)
        assert await status_of(gateway, task.id) is TaskStatus.SUCCESS
        await town.stop()

    run_virtual(body())


def test_a_task_that_a_batcher_could_not_take_in_stays_in_hand_until_that_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mistaken(request: Queued) -> None:
        raise KeyError("a mistake of ours")

    async def body() -> None:
        town = await town_of()
        [gateway], [batcher] = town.gateways, town.batchers
        batcher.intake.subscribe(mistaken, lambda request: None)
        records = Away(town, monkeypatch)
        task = await gateway.gateway.submit_task(Ask(b'"7"', "double"))
        await asyncio.sleep(1.0)
        assert records.refused
        assert len(batcher.intake.in_hand) == 1
        records.away = False
        await asyncio.sleep(1.0)
        assert await status_of(gateway, task.id) is TaskStatus.FAILED
        assert not batcher.intake.in_hand
        await town.stop()

    run_virtual(body())
