"""Large bodies are looked through one at a time, each tenant in its turn."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.doors.large import AT_A_TIME, CALM, WORTH_A_TRIM, LargeBodies
from penstock.doors.steps import Steps
from penstock.testing import run_virtual


def played(play: Callable[[LargeBodies, list[str]], Awaitable[None]]) -> list[str]:
    """On a clock that stands still, so that nobody has to wait for the loop's rest."""
    looked: list[str] = []
    asyncio.run(_play(play, looked))
    return looked


async def _play(play: Callable[[LargeBodies, list[str]], Awaitable[None]], looked: list[str]) -> None:
    async with asyncio.timeout(10):
        await play(LargeBodies(lambda: 0.0), looked)


def steps(tenant: str, looked: list[str]) -> Steps[None]:
    looked.append(tenant)
    yield


async def look(large: LargeBodies, tenant: str, looked: list[str]) -> None:
    await large.look(tenant, steps(tenant, looked))


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
            await look(large, "a", looked)
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
        def refused() -> Steps[None]:
            yield
            raise ValueError

        await asyncio.gather(large.look("a", refused()), look(large, "b", looked), return_exceptions=True)

    assert played(play) == ["b"]


def test_there_is_a_break_after_each_few_milliseconds_and_the_loop_has_three_quarters_of_the_time() -> None:
    """Each step takes 1 ms by a clock that stands still otherwise."""
    now, at_a_time = 0.0, []

    def slow() -> Steps[str]:
        nonlocal now
        for _ in range(8):
            now += 0.001
            yield
        return "done"

    async def play() -> str:
        loop = asyncio.get_running_loop()
        began = loop.time()
        large = LargeBodies(lambda: now)
        looking = asyncio.create_task(large.look("a", slow()))
        waiting = asyncio.create_task(look(large, "b", []))
        while not looking.done():
            before = now
            await asyncio.sleep(0.0001)
            at_a_time.append(now - before)
        await waiting
        assert loop.time() - began >= 3 * 0.008 - 0.001
        return looking.result()

    assert run_virtual(play()) == "done"
    assert max(at_a_time) <= AT_A_TIME + 0.0001
    assert sum(at_a_time) == pytest.approx(0.008)


def test_one_whose_client_goes_in_the_middle_hands_its_turn_on() -> None:
    async def play() -> None:
        now, looked = 0.0, []

        def slow() -> Steps[None]:
            nonlocal now
            for _ in range(8):
                looked.append("a")
                now += AT_A_TIME
                yield

        large = LargeBodies(lambda: now)
        first = asyncio.create_task(large.look("a", slow()))
        second = asyncio.create_task(look(large, "b", looked))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert looked == ["a", "b"]

    run_virtual(play())
