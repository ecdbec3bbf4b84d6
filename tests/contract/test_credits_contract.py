"""Idle slots in line, in memory and over a Redis."""

import asyncio

from meeting import Meeting, Play


def test_the_slot_that_has_waited_longest_is_taken_first(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        line = meeting.bus.credits()
        for slot in ("c", "a", "b"):
            assert await line.post("echo", slot)
        assert [await line.take("echo", 1) for _ in range(3)] == ["c", "a", "b"]
        assert await line.take("echo", 0.01) is None

    play(scene)


def test_a_slot_that_posts_again_keeps_its_place(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        line = meeting.bus.credits()
        await line.post("echo", "a")
        await line.post("echo", "b")
        assert not await line.post("echo", "a")
        assert await line.take("echo", 1) == "a"
        await line.post("echo", "a")
        assert [await line.take("echo", 1) for _ in range(2)] == ["b", "a"]

    play(scene)


def test_whoever_waits_for_a_slot_gets_the_one_that_comes(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        line = meeting.bus.credits()

        async def taken(model: str) -> str:
            while True:  # a look into the line ends after a while, whatever was asked for
                if slot := await line.take(model, 20):
                    return slot

        waiters = [asyncio.create_task(taken(model)) for model in ("echo", "other")]
        await asyncio.sleep(0)
        await line.post("other", "b")
        await line.post("echo", "a")
        assert await asyncio.gather(*waiters) == ["a", "b"]

    play(scene)


def test_all_batchers_stand_at_one_line_and_a_slot_is_taken_once(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        one, other = meeting.bus.credits(), meeting.bus.credits()
        for number in range(20):
            await one.post("echo", str(number))
        taken = await asyncio.gather(*(line.take("echo", 1) for line in (one, other) * 10))
        assert sorted(taken, key=lambda slot: int(slot or -1)) == [str(number) for number in range(20)]

    play(scene)


def test_a_withdrawn_slot_is_not_taken(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        line = meeting.bus.credits()
        await line.post("echo", "a")
        await line.post("echo", "b")
        assert await line.withdraw("echo", "a")
        assert not await line.withdraw("echo", "a")
        assert await line.take("echo", 1) == "b"

    play(scene)
