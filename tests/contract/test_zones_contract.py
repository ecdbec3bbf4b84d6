"""Shards that are at home in a zone, in memory and over a Redis."""

from time import monotonic

from houses import ask
from meeting import Meeting, Play
from test_shards_contract import BRIEF, Batcher

from penstock.ports.shards import Leases
from penstock.shard_plan import shards_at_home
from redis_servers import becomes, running

ZONES = {"a1": "a", "a2": "a", "b1": "b"}


def leases_of(meeting: Meeting, name: str, alive: set[str]) -> Leases:
    leases = meeting.shards.leases(name, lambda: alive, ZONES.__getitem__)
    leases.on_gained = leases.on_lost = lambda shard: None
    return leases


def at_home(meeting: Meeting, zone: str, zones: str = "ab") -> set[int]:
    return set(shards_at_home(meeting.shards.number, set(zones), zone))


def test_batchers_lease_the_shards_of_their_zone_and_those_of_one_that_has_none_left(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        alive = {"a1", "a2"}
        a1, a2, b1 = (leases_of(meeting, name, alive) for name in ZONES)
        async with running(a1.run(), a2.run()):
            await becomes(lambda: len(a1.owned) + len(a2.owned) == meeting.shards.number)
            alive.add("b1")
            async with running(b1.run()):
                await becomes(lambda: b1.owned == at_home(meeting, "b"))
                await becomes(lambda: a1.owned | a2.owned == at_home(meeting, "a"))
                assert abs(len(a1.owned) - len(a2.owned)) <= 1
                alive.remove("a1")
                await a1.release_all()
                await becomes(lambda: a2.owned == at_home(meeting, "a"))
                assert b1.owned == at_home(meeting, "b")
                alive.remove("a2")
                await a2.release_all()
                await becomes(lambda: len(b1.owned) == meeting.shards.number)

    play(scene, lease=BRIEF)


def test_a_gateway_sends_to_the_shards_that_it_prefers_and_withdraws_from_any(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        publisher = meeting.shards.publisher("gateway", monotonic, 1000, 1 << 20)
        batcher = Batcher(meeting, "a", {"a"})
        async with running(publisher.run(), batcher.leases.run(), batcher.intake.run()):
            await batcher.has_all_shards(meeting)
            first = ask()
            await publisher.accepted(first)
            home = at_home(meeting, "b") - {first.shard}
            publisher.prefer(home)
            sent = [ask() for _ in range(60)]
            for request in sent:
                await publisher.accepted(request)
            assert {request.shard for request in sent} == home
            publisher.withdraw(first)
            await becomes(lambda: [each.key for each in batcher.withdrawn] == [first.key])
            later = ask()
            await publisher.accepted(later)
            assert later.shard in home
            await batcher.gets(first, *sent, later)

    play(scene)
