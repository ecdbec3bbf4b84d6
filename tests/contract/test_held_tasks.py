"""A task over Redis counts as in flight at the gateway that took it, from acceptance to its end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from houses import BusHouse, Reservation, ask, house_at

from penstock.errors import Conflict, Overloaded
from penstock.ports import Task
from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Failure, Outcome
from redis_servers import VALKEY, becomes

FULL = Failure(Overloaded.code, "no room")

Body = Callable[[BusHouse, list[str]], Awaitable[None]]


@pytest.fixture
def play(redis_urls: dict[str, str]) -> Callable[[Body], None]:
    """`heard`: what was told of ends, each once."""

    async def played(body: Body) -> None:
        heard: list[str] = []
        async with house_at(redis_urls[VALKEY])() as house:
            assert isinstance(house, BusHouse)
            await body(house, heard)

    return lambda body: asyncio.run(played(body))


async def held(house: BusHouse, request: Passenger, heard: list[str]) -> Task:
    return await house.tasks.accept(Reservation(request, heard))


@pytest.mark.parametrize(
    ("outcome", "failure", "code"),
    [(Outcome.SUCCESS, None, ""), (Outcome.FAILED, FULL, FULL.code)],
    ids=["success", "failure"],
)
def test_the_gateway_that_took_a_task_hears_once_of_its_end_and_why(
    play: Callable[[Body], None], outcome: Outcome, failure: Failure | None, code: str
) -> None:
    async def body(house: BusHouse, heard: list[str]) -> None:
        request = ask(task=True)
        await held(house, request, heard)
        assert heard == []
        for _ in range(2):  # whoever settles twice tells twice
            await house.end(request, outcome, b"1", failure)
        await becomes(lambda: bool(heard))
        other = ask(task=True)  # what was told before this has been heard when this has
        await held(house, other, heard)
        await house.end(other, Outcome.SUCCESS, b"1", None)
        await becomes(lambda: len(heard) == 2)
        assert heard == [code, ""]

    play(body)


def test_a_task_that_is_cancelled_at_another_gateway_counts_no_more(play: Callable[[Body], None]) -> None:
    async def body(house: BusHouse, heard: list[str]) -> None:
        task = await held(house, ask(task=True), heard)
        await (await house.elsewhere.find(task.id, "")).cancel()
        await becomes(lambda: heard == ["CANCELLED"])

    play(body)


def test_a_task_counts_no_longer_than_it_may_take_even_if_nobody_tells_of_its_end(
    play: Callable[[Body], None],
) -> None:
    async def body(house: BusHouse, heard: list[str]) -> None:
        await held(house, ask(limit=0.2, task=True), heard)
        await becomes(lambda: heard == [""])

    play(body)


def test_a_task_that_was_not_taken_is_not_told_of_and_the_one_before_it_still_is(
    play: Callable[[Body], None],
) -> None:
    async def body(house: BusHouse, heard: list[str]) -> None:
        first, second = ask(task=True), ask(task=True)
        second.request_id = first.request_id
        await held(house, first, heard)
        with pytest.raises(Conflict):
            await held(house, second, heard)
        assert heard == []
        await house.end(first, Outcome.SUCCESS, b"1", None)
        await becomes(lambda: heard == [""])

    play(body)
