"""From the gateways through the shards to the batchers that lease them, in memory and over a Redis."""

from collections.abc import Sequence
from time import monotonic

from houses import ask
from meeting import Meeting, Play

from penstock.ports.shards import Intake, Leases, Publisher
from penstock.types import Accepted
from redis_servers import becomes, running

BRIEF = 0.4  # seconds of a lease that is to run out


class Batcher:
    """Leases and an intake that note what they are told. It says itself who is alive."""

    def __init__(self, meeting: Meeting, name: str, alive: set[str], among: set[str] | None = None) -> None:
        """`among`: who has a share of the shards; all who are alive if that is not said."""
        self.leases: Leases = meeting.shards.leases(name, lambda: alive if among is None else among)
        self.intake: Intake[Accepted] = meeting.shards.intake(
            name, monotonic, self.leases, lambda: alive, Accepted
        )
        self.told: set[int] = set()  # shards
        self.leases.on_gained = self._gain
        self.leases.on_lost = self._lose
        self.intake.subscribe(self._take, self._give_up)
        self.intake.on_inherited = self._inherit
        self.intake.on_lost = self._lost
        self.requests: list[Accepted] = []
        self.inherited: list[Accepted] = []
        self.withdrawn: list[Accepted] = []
        self.lost: list[Accepted] = []

    def _gain(self, shard: int) -> None:
        self.told.add(shard)
        self.intake.shards_changed()

    def _lose(self, shard: int) -> None:
        self.told.remove(shard)
        self.intake.shards_changed()

    def _take(self, request: Accepted) -> None:
        self.requests.append(request)

    def _inherit(self, request: Accepted) -> None:
        self.inherited.append(request)
        self.requests.append(request)

    def _give_up(self, request: Accepted) -> None:
        self.withdrawn.append(request)

    def _lost(self, requests: Sequence[Accepted]) -> None:
        self.lost += requests

    @property
    def keys(self) -> list[str]:
        return [request.key for request in self.requests]

    async def has_all_shards(self, meeting: Meeting) -> None:
        await becomes(lambda: len(self.leases.owned) == meeting.shards.number)

    async def gets(self, *requests: Accepted) -> None:
        wanted = {request.key for request in requests}
        await becomes(lambda: wanted <= set(self.keys))


def publisher_of(meeting: Meeting) -> Publisher:
    return meeting.shards.publisher("gateway", monotonic, 1000, 1 << 20)


def shared(batchers: Sequence[Batcher], counts: list[int]) -> bool:
    """Every shard has one owner, and each owner its number of them."""
    owned = [batcher.leases.owned for batcher in batchers]
    assert sum(map(len, owned)) == len(frozenset().union(*owned)), "a shard has two owners"
    return sorted(map(len, owned)) == counts


def test_what_is_published_arrives_once_and_says_who_sent_it(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        publisher, batcher = publisher_of(meeting), Batcher(meeting, "a", {"a"})
        sent = [ask() for _ in range(200)]
        async with running(publisher.run(), batcher.leases.run(), batcher.intake.run()):
            await batcher.has_all_shards(meeting)
            for request in sent:
                publisher.publish(request)
            await batcher.gets(*sent)
            assert sorted(batcher.keys) == sorted(request.key for request in sent)
            assert {request.gateway for request in batcher.requests} == {"gateway"}
            assert set(batcher.intake.in_hand) == set(batcher.keys)

    play(scene)


def test_what_is_withdrawn_is_given_up_and_needs_no_answer(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        publisher, batcher = publisher_of(meeting), Batcher(meeting, "a", {"a"})
        one, other = ask(), ask()
        async with running(publisher.run(), batcher.leases.run(), batcher.intake.run()):
            await batcher.has_all_shards(meeting)
            await publisher.accepted(one)
            await publisher.accepted(other)
            await batcher.gets(one, other)
            publisher.withdraw(one)
            await becomes(lambda: [request.key for request in batcher.withdrawn] == [one.key])
            assert list(batcher.intake.in_hand) == [other.key]

    play(scene)


def test_what_is_withdrawn_before_it_was_sent_never_arrives(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        publisher, batcher = publisher_of(meeting), Batcher(meeting, "a", {"a"})
        gone, stays = ask(), ask()
        publisher.publish(gone)
        publisher.withdraw(gone)
        publisher.publish(stays)
        async with running(publisher.run(), batcher.leases.run(), batcher.intake.run()):
            await batcher.gets(stays)
            await publisher.flush()
            assert batcher.keys == [stays.key]

    play(scene)


def test_two_batchers_share_the_shards_and_once_shared_nothing_moves(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        alive = {"a"}
        a, b = (Batcher(meeting, name, alive) for name in "ab")
        async with running(a.leases.run()):
            await a.has_all_shards(meeting)
            alive.add("b")
            async with running(b.leases.run()):
                await becomes(lambda: shared((a, b), [8, 8]))
                owned = {shard: a.leases.fence(shard) for shard in a.leases.owned}
                a.leases.batchers_changed()
                b.leases.batchers_changed()
                await becomes(lambda: shared((a, b), [8, 8]))
                assert owned == {shard: a.leases.fence(shard) for shard in a.leases.owned}
                assert all(each.told == set(each.leases.owned) for each in (a, b))
                alive.remove("b")
                await b.leases.release_all()
                await a.has_all_shards(meeting)
                assert not b.leases.owned

    play(scene)


def test_the_shards_of_a_dead_batcher_are_taken_over_with_a_higher_fence(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        alive = {"a", "b"}
        a, b = (Batcher(meeting, name, alive) for name in "ab")
        async with running(a.leases.run()):
            async with running(b.leases.run()):
                await becomes(lambda: shared((a, b), [8, 8]))
            fences = {shard: b.leases.fence(shard) for shard in b.leases.owned}  # it gives nothing back
            alive.remove("b")
            await a.has_all_shards(meeting)
            assert all(a.leases.fence(shard) > fence for shard, fence in fences.items())

    play(scene, lease=BRIEF)


def test_what_a_dead_batcher_had_in_hand_is_inherited_and_bounded_by_its_deadline_alone(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        alive = {"dead", "heir"}
        publisher = publisher_of(meeting)
        dead, heir = (Batcher(meeting, name, alive) for name in ("dead", "heir"))
        sent = [ask() for _ in range(50)]
        for request in sent:
            request.expires -= 1.0
        async with running(publisher.run(), heir.leases.run(), heir.intake.run()):
            async with running(dead.leases.run(), dead.intake.run()):
                await becomes(lambda: shared((dead, heir), [8, 8]))
                for request in sent:
                    await publisher.accepted(request)
                await becomes(lambda: len(dead.requests) + len(heir.requests) == 50)
            held = {request.key for request in dead.requests}
            assert held
            assert not held & set(heir.keys)  # the living keep what they have
            # On a machine that stands still a lease may have ended before, and a shard changed hands.
            before = {request.key for request in heir.inherited}
            alive.remove("dead")
            heir.intake.shards_changed()
            await heir.gets(*sent)
            assert {request.key for request in heir.inherited} == held | before
            assert all(request.expires >= request.deadline for request in heir.inherited)
            heir.intake.settled(heir.requests)
            assert not heir.intake.in_hand

    play(scene, lease=BRIEF)


def test_what_was_sent_before_anybody_leased_the_shards_is_inherited(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        publisher, batcher = publisher_of(meeting), Batcher(meeting, "a", {"a"})
        early, late = ask(), ask()
        async with running(publisher.run()):
            await publisher.accepted(early)
            async with running(batcher.leases.run(), batcher.intake.run()):
                await batcher.gets(early)
                await publisher.accepted(late)
                await batcher.gets(early, late)
        assert [request.key for request in batcher.inherited] == [early.key]

    play(scene)


def test_what_is_settled_is_nobodys_any_more_and_the_rest_is_the_heirs(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        alive = {"a", "b"}
        publisher, first, heir = (
            publisher_of(meeting),
            Batcher(meeting, "a", alive, {"a"}),
            Batcher(meeting, "b", alive, {"b"}),
        )
        settled, left = ask(), ask()
        async with running(publisher.run()), running(first.leases.run(), first.intake.run()):
            await first.has_all_shards(meeting)
            await publisher.accepted(settled)
            await publisher.accepted(left)
            await first.gets(settled, left)
            first.intake.settled([request for request in first.requests if request.key == settled.key])
            await first.leases.release_all()
            await becomes(lambda: list(first.intake.in_hand) == [left.key])
            released = ask()
            await publisher.accepted(released)
            async with running(heir.leases.run(), heir.intake.run()):
                await heir.has_all_shards(meeting)
                # What was sent while the shards changed hands may have come to either.
                await becomes(lambda: released.key in first.keys + heir.keys)
                assert left.key not in heir.keys  # whoever gave the shards away finishes what it has
                alive.remove("a")
                heir.intake.shards_changed()
                await heir.gets(left)
                assert settled.key not in heir.keys

    play(scene, lease=BRIEF)


def test_who_was_thought_dead_lets_go_of_what_was_taken_from_it(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        alive = {"paused"}
        publisher, paused = publisher_of(meeting), Batcher(meeting, "paused", alive)
        heir = Batcher(meeting, "heir", {"heir"})
        request = ask()
        async with running(publisher.run(), paused.intake.run()):
            async with running(paused.leases.run()):
                await paused.has_all_shards(meeting)
                await publisher.accepted(request)
                await paused.gets(request)
            # On a machine that stood still its leases ran out too early, and it knows that they did.
            while len(paused.leases.owned) < meeting.shards.number:
                async with running(paused.leases.run()):
                    await paused.has_all_shards(meeting)
            async with running(heir.leases.run(), heir.intake.run()):
                await heir.gets(request)  # the leases ran out
                async with running(paused.leases.run()):
                    await becomes(lambda: [each.key for each in paused.lost] == [request.key])
                assert not paused.intake.in_hand
                paused.intake.settled(paused.requests)  # its late answer counts for nothing
                assert list(heir.intake.in_hand) == [request.key]

    play(scene, lease=BRIEF)


def test_release_returns_when_all_in_hand_is_settled(play: Play) -> None:
    async def scene(meeting: Meeting) -> None:
        publisher, batcher = publisher_of(meeting), Batcher(meeting, "a", {"a"})
        request = ask()
        async with running(publisher.run(), batcher.leases.run(), batcher.intake.run()):
            await batcher.has_all_shards(meeting)
            await publisher.accepted(request)
            await batcher.gets(request)
            released = []

            async def release() -> None:
                await batcher.intake.release()
                released.append(True)

            async with running(release()):
                await publisher.accepted(ask())  # a round trip
                assert not released

                def all_settled() -> bool:
                    """A read that was under way when the release began may still bring the second request."""
                    batcher.intake.settled(batcher.requests)
                    return bool(released)

                await becomes(all_settled)

    play(scene)
