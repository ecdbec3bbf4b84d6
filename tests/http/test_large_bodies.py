"""Large bodies are looked through one at a time, each tenant in its turn."""

import asyncio
from collections.abc import Awaitable, Callable

from penstock.http.large import CALM, WORTH_A_TRIM, LargeBodies
from penstock.testing import run_virtual


def played(play: Callable[[LargeBodies, list[str]], Awaitable[None]]) -> list[str]:
    """On a clock that stands still, so that nobody has to wait for the loop's rest."""
    looked: list[str] = []
    asyncio.run(_play(play, looked))
    return looked


async def _play(play: Callable[[LargeBodies, list[str]], Awaitable[None]], looked: list[str]) -> None:
    async with asyncio.timeout(10):
        await play(LargeBodies(lambda: 0.0), looked)


async def look(large: LargeBodies, tenant: str, looked: list[str]) -> None:
    async with large.turn(tenant):
        looked.append(tenant)


def test_tenants_take_turns_however_many_each_has_sent() -> None:
    async def play(large: LargeBodies, looked: list[str]) -> None:
        async with asyncio.TaskGroup() as group:
            for tenant in "aaaabb":
                group.create_task(look(large, tenant, looked))

    assert played(play) == ["a", "a", "b", "a", "b", "a"]


def test_those_whose_clients_have_gone_are_passed_over_and_hold_nobody_up() -> None:
    async def play(large: LargeBodies, looked: list[str]) -> None:
        tasks = [asyncio.create_task(look(large, tenant, looked)) for tenant in "abcde"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[3].cancel()
        await asyncio.wait(tasks)

    assert played(play) == ["a", "c", "e"]


def test_one_who_goes_when_its_turn_has_just_come_gives_it_to_the_next() -> None:
    async def play(large: LargeBodies, looked: list[str]) -> None:
        tasks: list[asyncio.Task[None]] = []

        async def first() -> None:
            async with large.turn("a"):
                looked.append("a")
            # Right after the turn was handed on, and before the one who has it runs.
            asyncio.get_running_loop().call_later(0, tasks[1].cancel)

        tasks += [asyncio.create_task(first())]
        tasks += [asyncio.create_task(look(large, tenant, looked)) for tenant in "bc"]
        await asyncio.wait(tasks)

    assert played(play) == ["a", "c"]


def test_once_many_were_looked_through_and_no_more_come_their_memory_is_given_back_once() -> None:
    given: list[str] = []

    async def play() -> None:
        large = LargeBodies(lambda: 0.0, lambda: given.append("back"))
        for number in range(2 * WORTH_A_TRIM):
            await look(large, "a", [])
            await asyncio.sleep(2 * CALM if number in (0, WORTH_A_TRIM) else 0)
        await asyncio.sleep(2 * CALM)

    run_virtual(play())
    assert given == ["back"]


def test_one_that_was_refused_hands_its_turn_on() -> None:
    async def play(large: LargeBodies, looked: list[str]) -> None:
        async def refused() -> None:
            async with large.turn("a"):
                raise ValueError

        await asyncio.gather(refused(), look(large, "b", looked), return_exceptions=True)

    assert played(play) == ["b"]
