"""What must not be left half done: clients that leave, and records that cannot be reached, in the middle of it."""

import asyncio

import pytest
from town import SECONDS, Town, right_answer

from penstock.cluster.gateway import GatewayMember
from penstock.config import Level
from penstock.errors import OverQuota, StoreDown
from penstock.ports import Task
from penstock.testing import run_virtual
from penstock.types import Ask


async def small_town(level: Level | None = None) -> Town:
    town = Town(level=level or Level(0))
    await town.add_gateway()
    await town.add_batcher()
    await town.add_worker()
    await town.settle_down()
    return town


def ask(name: str) -> Ask:
    return Ask(b'"7"', "double", client_id="anna", request_id=name)


async def leave_while_it_is_accepted(gateway: GatewayMember) -> None:
    """A client that is gone before its 202."""
    asking = asyncio.create_task(gateway.gateway.submit_task(ask("t")))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def submit(gateway: GatewayMember, *, keyed: bool) -> Task:
    if keyed:
        task, _ = await gateway.gateway.submit_keyed_task(ask("t"), "key")
        return task
    return await gateway.gateway.submit_task(ask("t"))


def test_a_task_whose_client_left_before_it_was_accepted_counts_as_in_flight_until_it_is_over() -> None:
    async def body() -> None:
        town = await small_town(Level(0, in_flight=1))
        [gateway] = town.gateways
        await leave_while_it_is_accepted(gateway)
        with pytest.raises(OverQuota):
            await gateway.gateway.submit_task(ask("second"))
        await asyncio.sleep(1.0)
        assert town.executions() == [b'"7"']
        await gateway.gateway.submit_task(ask("third"))
        await town.stop()

    run_virtual(body())


def test_a_task_whose_client_left_before_it_was_accepted_counts_for_its_minute() -> None:
    async def body() -> None:
        town = await small_town(Level(0, requests_per_minute=1))
        [gateway] = town.gateways
        await leave_while_it_is_accepted(gateway)
        await asyncio.sleep(1.0)
        with pytest.raises(OverQuota):
            await gateway.gateway.submit_task(ask("second"))
        await town.stop()

    run_virtual(body())


def test_a_task_whose_client_left_before_it_was_accepted_can_be_withdrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        town = await small_town()
        [gateway] = town.gateways
        withdrawn: list[int] = []
        monkeypatch.setattr(gateway.publisher, "withdraw_key", lambda key, shard: withdrawn.append(shard))
        await leave_while_it_is_accepted(gateway)
        await asyncio.sleep(SECONDS / 2)
        found = await gateway.gateway.find_task("t", "anna")
        await found.cancel()
        assert len(withdrawn) == 1
        await town.stop()

    run_virtual(body())


def test_a_task_that_was_refused_after_its_client_left_counts_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        town = await small_town(Level(0, requests_per_minute=1, in_flight=1))
        [gateway] = town.gateways

        async def refuse(request: object) -> None:
            await asyncio.sleep(0.1)
            raise StoreDown("away")

        with monkeypatch.context() as patched:
            patched.setattr(gateway.publisher, "accepted", refuse)
            await leave_while_it_is_accepted(gateway)
            await asyncio.sleep(1.0)
        await gateway.gateway.submit_task(ask("t"))
        await town.stop()

    run_virtual(body())


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
def test_a_task_that_was_sent_is_accepted_and_counted_even_if_its_record_does_not_learn_where(
    monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    async def body() -> None:
        town = await small_town(Level(0, requests_per_minute=1))
        [gateway] = town.gateways

        async def away(*args: object) -> None:
            raise StoreDown("away")

        monkeypatch.setattr(town.records.claims if keyed else gateway._tasks, "placed", away)
        task = await submit(gateway, keyed=keyed)
        with pytest.raises(OverQuota):
            await gateway.gateway.submit_task(ask("second"))
        await task.wait(5.0)
        assert task.answer is not None
        assert task.answer.output == right_answer(7)
        await town.stop()

    run_virtual(body())


def test_a_keyed_task_that_was_sent_needs_no_second_look_to_be_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        town = await small_town()
        [gateway] = town.gateways

        async def away(task_id: str, tenant: str) -> None:
            raise StoreDown("away")

        with monkeypatch.context() as patched:
            patched.setattr(gateway._tasks, "find", away)
            task = await submit(gateway, keyed=True)
        await task.wait(5.0)
        assert task.answer is not None
        await town.stop()

    run_virtual(body())
