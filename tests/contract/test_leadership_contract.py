"""One leads: the same promises in memory and over each kind of Redis."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from meeting import Meeting, Play

from penstock.ports.leadership import Leadership

HEARTBEAT = 0.05


@asynccontextmanager
async def held(leadership: Leadership) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(leadership.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - a lease tells nobody that it has ended
            await asyncio.sleep(0.002)


def test_one_of_several_leads_and_the_next_one_follows_when_it_gives_up(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        first, second = (meeting.bus.leadership("it", name) for name in ("first", "second"))
        assert not first.leads
        async with held(first), held(second):
            await until(lambda: first.leads or second.leads)
            leader, other = (first, second) if first.leads else (second, first)
            for _ in range(20):
                await asyncio.sleep(HEARTBEAT / 2)
                assert (leader.leads, other.leads) == (True, False)
            await leader.give_up()
            assert not leader.leads
            await until(lambda: other.leads)
            await asyncio.sleep(4 * HEARTBEAT)
            assert not leader.leads  # it does not take it again

    play(scene, heartbeat=HEARTBEAT)


def test_one_that_falls_silent_leads_no_longer_before_another_begins(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        first, second = (meeting.bus.leadership("it", name) for name in ("first", "second"))
        async with held(first) as running:
            await until(lambda: first.leads)
            running.cancel()  # as if its process stood still: it does not say so, and its lease is not given back
            await asyncio.gather(running, return_exceptions=True)
            async with held(second):
                await until(lambda: second.leads)
                assert not first.leads

    play(scene, heartbeat=HEARTBEAT, lease=1.0)  # short: the test waits for its end


def test_each_thing_has_a_leader_of_its_own(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        one, other = meeting.bus.leadership("one", "first"), meeting.bus.leadership("other", "second")
        async with held(one), held(other):
            await until(lambda: one.leads and other.leads)

    play(scene, heartbeat=HEARTBEAT)
