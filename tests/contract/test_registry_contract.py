"""Who is there and who counts as gone, in memory and over a Redis."""

import asyncio

from meeting import Meeting, Play

from penstock.words.announcements import ModelAnnouncement
from penstock.words.heartbeats import GatewayHeartbeat, Heartbeat, Kind, SlotReport, WorkerHeartbeat
from penstock.words.slot_name import SlotName
from redis_servers import becomes, running

SLOT = SlotName("w1", "echo", 0).text
BRIEF = 0.4  # seconds of a lease that is to run out


class Process:
    """A member that notes who comes and goes, whenever it is told that something has changed."""

    def __init__(self, meeting: Meeting, kind: Kind, name: str, said: Heartbeat | None = None) -> None:
        self.said = said or GatewayHeartbeat(host="here", pid=1)
        self.registry = meeting.bus.registry(kind, name, lambda: self.said)
        self.told: list[str] = []
        self.heard = 0
        self._known: set[str] = set()
        self.registry.on_changed = self._look_around
        self.registry.on_heard = self._hear

    def _hear(self) -> None:
        self.heard += 1

    def _look_around(self) -> None:
        here = {name for kind in ("gateways", "batchers", "workers") for name in self.sees(kind)}
        self.told += [f"+{name}" for name in sorted(here - self._known)]
        self.told += [f"-{name}" for name in sorted(self._known - here)]
        self._known = here

    def sees(self, kind: Kind) -> set[str]:
        return set(self.registry.members[kind])


def worker(meeting: Meeting, name: str = "w1") -> Process:
    slots = {SLOT: SlotReport(model="echo", status="healthy")}
    return Process(meeting, "workers", name, WorkerHeartbeat(host="here", pid=2, slots=slots))


def test_members_see_each_other_and_what_they_said_last(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        one, other = Process(meeting, "gateways", "g1"), worker(meeting)
        async with running(one.registry.run(), other.registry.run()):
            await becomes(lambda: one.sees("workers") == {"w1"} and other.sees("gateways") == {"g1"})
            assert one.registry.reachable
            assert one.registry.members["workers"]["w1"].slots[SLOT].model == "echo"
            other.said = WorkerHeartbeat(host="there", pid=2)
            await becomes(lambda: one.registry.members["workers"]["w1"].host == "there")
            assert one.registry.age("w1") < 60.0
            assert not one.registry.is_silent("w1")
        assert sorted(one.told) == ["+g1", "+w1"]
        assert one.heard >= 2

    play(scene)


def test_one_that_falls_silent_is_doubted_then_gone_after_a_lease_and_its_slots_are_missed(
    play: Play,
) -> None:
    async def scene(meeting: Meeting) -> None:
        stays, dies = Process(meeting, "gateways", "g1"), worker(meeting)
        async with running(stays.registry.run()):
            async with running(dies.registry.run()):
                await becomes(lambda: stays.sees("workers") == {"w1"})
            await becomes(lambda: not stays.sees("workers"))
            assert stays.told[-1] == "-w1"
            age, said = stays.registry.lost_workers["w1"]
            assert age > BRIEF
            assert said.slots[SLOT].model == "echo"
            async with running(dies.registry.run()):
                await becomes(lambda: stays.sees("workers") == {"w1"})

    play(scene, lease=BRIEF)


def test_one_that_leaves_is_gone_at_once_and_a_late_heartbeat_does_not_bring_it_back(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        stays, leaves = Process(meeting, "gateways", "g1"), worker(meeting)
        async with running(stays.registry.run()):
            await leaves.registry.beat()
            await becomes(lambda: stays.sees("workers") == {"w1"})
            await asyncio.sleep(BRIEF)  # of service without a break: before, nobody counts as gone
            await leaves.registry.leave()
            await leaves.registry.beat()
            await becomes(lambda: not stays.sees("workers"))
            heard = stays.heard
            await becomes(lambda: stays.heard > heard + 2)
            assert not stays.sees("workers")

    play(scene, lease=BRIEF)


def test_one_whose_death_was_seen_is_gone_at_once(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        stays, dies = Process(meeting, "gateways", "g1"), worker(meeting)
        await dies.registry.beat()
        await stays.registry.beat()
        assert stays.sees("workers") == {"w1"}
        stays.registry.departed("workers", "w1")
        assert not stays.sees("workers")
        assert stays.told[-1] == "-w1"

    play(scene)


def test_announced_models_are_known_to_all_and_news_is_told_with_the_next_heartbeat(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        gateway, one = Process(meeting, "gateways", "g1"), worker(meeting)
        await one.registry.announce_model("echo", ModelAnnouncement(max_batch=32))
        await gateway.registry.beat()
        assert gateway.registry.models == {"echo": ModelAnnouncement(max_batch=32)}
        one.registry.describe_model("echo", ModelAnnouncement(max_batch=16))
        await gateway.registry.beat()
        assert gateway.registry.models["echo"].max_batch == 32
        await one.registry.beat()
        await gateway.registry.beat()
        assert gateway.registry.models["echo"].max_batch == 16
        other = worker(meeting, "w2")  # which has the last word, until there is news again
        await other.registry.announce_model("echo", ModelAnnouncement(max_batch=8))
        one.registry.describe_model("echo", ModelAnnouncement(max_batch=16))
        await one.registry.beat()
        await gateway.registry.beat()
        assert gateway.registry.models["echo"].max_batch == 8

    play(scene)
