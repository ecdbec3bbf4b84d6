"""Messages between processes, in memory and over a Redis."""

import asyncio

from meeting import Meeting, Play

from redis_servers import becomes, running


def test_messages_arrive_once_and_in_order(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        bus = meeting.bus
        box, got = bus.mailbox("g1"), list[bytes]()
        await box.create()
        assert await bus.post.send("g1", b"early")
        async with running(box.run(got.append)):
            for number in range(300):
                assert await bus.post.send("g1", b"%d" % number)
            await becomes(lambda: len(got) >= 301)
        assert got == [b"early", *(b"%d" % number for number in range(300))]

    play(scene)


def test_many_messages_go_together_and_those_to_nobody_are_told(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        bus = meeting.bus
        boxes = {name: list[bytes]() for name in ("g1", "g2", "b1")}
        for name in boxes:
            await bus.mailbox(name).create()
        messages = [("g1", b"1"), ("gone", b"2"), ("g2", b"3"), ("b1", b"4"), ("g1", b"5")]
        async with running(*(bus.mailbox(name).run(got.append) for name, got in boxes.items())):
            assert await bus.post.send_all(messages) == [True, False, True, True, True]
            assert await bus.post.send_all([]) == []
            await becomes(lambda: sum(map(len, boxes.values())) == 4)
        assert boxes == {"g1": [b"1", b"5"], "g2": [b"3"], "b1": [b"4"]}

    play(scene)


def test_what_was_sent_while_nobody_read_is_read_later(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        bus = meeting.bus
        box, got = bus.mailbox("g1"), list[bytes]()
        await box.create()
        async with running(box.run(got.append)):
            await bus.post.send("g1", b"1")
            await becomes(lambda: got == [b"1"])
        await bus.post.send("g1", b"2")
        await box.create()  # which keeps a box that is there
        async with running(box.run(got.append)):
            await becomes(lambda: got == [b"1", b"2"])

    play(scene)


def test_a_removed_box_tells_senders_that_its_owner_has_gone(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        box = meeting.bus.mailbox("g1")
        await box.create()
        await box.remove()
        assert not await meeting.bus.post.send("g1", b"")

    play(scene)


def test_many_senders_at_once_lose_and_double_nothing(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        bus = meeting.bus
        box, got = bus.mailbox("g1"), list[bytes]()
        await box.create()
        async with running(box.run(got.append)):
            sent = [b"%d" % number for number in range(100)]
            assert all(await asyncio.gather(*(bus.post.send("g1", each) for each in sent)))
            await becomes(lambda: len(got) >= 100)
        assert sorted(got) == sorted(sent)

    play(scene)
