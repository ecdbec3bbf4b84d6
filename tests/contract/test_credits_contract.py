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


def test_each_zone_has_a_line_of_its_own_and_others_are_asked_in_the_order_given(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        nowhere, a, b = (meeting.bus.credits(*zone) for zone in ((), ("a",), ("b",)))
        await nowhere.post("echo", "n")
        await a.post("echo", "a1")
        await a.post("echo", "a2")
        await b.post("echo", "b1")
        assert await b.take("echo", 1) == "b1"
        assert await b.take("echo", 0.01) is None
        assert await b.take("echo", 1, ["a", ""]) == "a1"
        assert await b.take("echo", 1, ["", "a"]) == "n"
        assert not await b.withdraw("echo", "a2")
        assert await b.post("echo", "a1", "a")  # given back into the line that it came from
        assert [await a.take("echo", 1) for _ in range(2)] == ["a2", "a1"]
        assert await b.take("echo", 0.01, ["a", ""]) is None

    play(scene)


def test_whoever_waits_for_a_slot_of_several_zones_gets_the_one_that_comes_and_only_that(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        lines = {zone: meeting.bus.credits(zone) for zone in "abc"}

        async def taken() -> str:
            while True:
                if slot := await lines["a"].take("echo", 20, ["b", "c"]):
                    return slot

        waiter = asyncio.create_task(taken())
        await asyncio.sleep(0)
        await lines["a"].post("echo", "a1")
        await lines["c"].post("echo", "c1")
        assert await waiter == "c1"
        await lines["b"].post("echo", "b1")  # nobody waits there any more
        assert [await lines[zone].take("echo", 1) for zone in "ab"] == ["a1", "b1"]

    play(scene)
