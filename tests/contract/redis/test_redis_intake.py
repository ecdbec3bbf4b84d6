"""From Redis into a batcher, whatever happens to either."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic

import pytest
from redis.exceptions import OutOfMemoryError
from redis_kit import ask, opened, running, until

from penstock.adapters.redis.bus import publisher as publisher_module
from penstock.adapters.redis.bus.intake import Intake
from penstock.adapters.redis.bus.pending import GROUP, consumers
from penstock.adapters.redis.bus.publisher import Publisher
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.runtime.collapse.passenger import Passenger
from penstock.words.envelopes import encode_envelope
from redis_servers import KINDS, Server, patient, redis_server

SHARD = 3


class Bench:
    """One intake that notes what it is told; its leases and the registry are what the test says."""

    def __init__(
        self, store: Store, me: str = "me", owned: Sequence[int] = range(16), alive: Sequence[str] = ()
    ) -> None:
        self.store = store
        self.owned = set(owned)
        self.alive = {me, *alive}
        self.intake = Intake(store, me, monotonic, self, lambda: self.alive, Passenger)
        self.intake.subscribe(self._on_request, self._on_withdraw)
        self.intake.on_inherited = self._on_inherited
        self.intake.on_lost = self._on_lost
        self.inherited: list[Passenger] = []
        self.requests: list[Passenger] = []
        self.withdrawn: list[Passenger] = []
        self.lost: list[Passenger] = []
        self.refuse = False

    def _on_request(self, request: Passenger) -> None:
        self.requests.append(request)
        if self.refuse:
            self.intake.settled([request])

    def _on_inherited(self, request: Passenger) -> None:
        self.inherited.append(request)
        self._on_request(request)

    def _on_withdraw(self, request: Passenger) -> None:
        self.withdrawn.append(request)

    def _on_lost(self, requests: Sequence[Passenger]) -> None:
        self.lost += requests

    @property
    def keys(self) -> list[str]:
        return [request.key for request in self.requests]

    async def got(self, *requests: Passenger) -> None:
        wanted = [request.key for request in requests]
        await until(lambda: len(self.requests) >= len(wanted))
        assert sorted(self.keys) == sorted(wanted)


@asynccontextmanager
async def reading(settings: RedisSettings) -> AsyncIterator[Bench]:
    async with opened(settings) as store:
        bench = Bench(store)
        async with running(bench.intake.run()):
            yield bench


async def send(
    store: Store, *requests: Passenger, withdrawn: Sequence[str] = (), shard: int = SHARD
) -> bytes:
    body = encode_envelope("gateway", requests, withdrawn, monotonic())
    await store.commands.execute_command("XADD", store.keys.shard(shard), "*", "e", body)
    return body


async def pending(store: Store, shard: int = SHARD) -> int:
    answer = await store.commands.xpending(store.keys.shard(shard), GROUP)
    return int(answer["pending"])


async def length(store: Store, shard: int = SHARD) -> int:
    return int(await store.commands.execute_command("XLEN", store.keys.shard(shard)))


async def read_by(bench: Bench) -> list[Passenger]:
    """Sends requests until one arrives there: the first may still go to a reader that has just ended."""
    sent: list[Passenger] = []

    async def arrived() -> bool:
        sent.append(ask())
        await send(bench.store, sent[-1])
        return bool(bench.requests)

    await until(arrived)
    return sent


async def empty(store: Store) -> None:
    async def holds() -> bool:
        return await length(store) == 0 and await pending(store) == 0

    await until(holds)


def test_requests_of_all_shards_arrive_with_what_is_left_of_their_time(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with reading(redis_settings) as bench:
            now = monotonic()
            sent = [ask(now=now, limit=70.0) for _ in range(16)]
            for shard, request in enumerate(sent):
                await send(bench.store, request, shard=shard)
            await bench.got(*sent)
            for request in bench.requests:
                assert now <= request.arrival <= monotonic()
                assert request.arrival <= request.expires <= monotonic() + 70.0
                assert request.deadline == request.expires
                assert request.gateway == "gateway"
            assert set(bench.intake.in_hand) == set(bench.keys)

    asyncio.run(body())


def test_an_entry_goes_when_the_last_of_its_requests_is_settled(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with reading(redis_settings) as bench:
            sent = [ask(), ask()]
            await send(bench.store, *sent)
            await send(bench.store, other := ask())
            await bench.got(*sent, other)
            bench.intake.settled([sent[0], other])

            async def one_left() -> bool:
                return await pending(bench.store) == 1

            await until(one_left)
            assert await length(bench.store) == 1
            bench.intake.settled([sent[1], sent[1], sent[0]])  # twice is once
            await empty(bench.store)
            assert not bench.intake.in_hand

    asyncio.run(body())


def test_a_request_settled_while_it_is_taken_in_is_settled(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with reading(redis_settings) as bench:
            bench.refuse = True
            sent = [ask(), ask()]
            await send(bench.store, *sent)
            await bench.got(*sent)
            await empty(bench.store)

    asyncio.run(body())


def test_a_repeated_envelope_is_taken_once_and_both_copies_go(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with reading(redis_settings) as bench:
            request = ask()
            copy = await send(bench.store, request)
            await bench.store.commands.execute_command("XADD", bench.store.keys.shard(SHARD), "*", "e", copy)
            await send(bench.store, after := ask())
            await bench.got(request, after)
            bench.intake.settled(bench.requests)
            await empty(bench.store)

    asyncio.run(body())


def test_a_withdrawal_is_told_and_settles_its_request(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with reading(redis_settings) as bench:
            request = ask()
            await send(bench.store, request)
            await send(bench.store, withdrawn=[request.key, "unknown"])
            await until(lambda: bool(bench.withdrawn))
            assert bench.withdrawn == bench.requests
            await empty(bench.store)

    asyncio.run(body())


def test_an_entry_that_cannot_be_read_is_skipped_and_removed(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with reading(redis_settings) as bench:
            key = bench.store.keys.shard(SHARD)
            await bench.store.commands.execute_command("XADD", key, "*", "e", b"\x07nonsense")
            await bench.store.commands.execute_command("XADD", key, "*", "other", b"")
            await send(bench.store, request := ask())
            await bench.got(request)
            bench.intake.settled([request])
            await empty(bench.store)

    asyncio.run(body())


def test_a_shard_that_lost_its_group_is_read_again(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with reading(redis_settings) as bench:
            await send(bench.store, first := ask())
            await bench.got(first)
            await bench.store.commands.execute_command("DEL", bench.store.keys.shard(SHARD))
            await send(bench.store, second := ask())
            await bench.got(first, second)  # what was in hand stays there
            bench.intake.settled(bench.requests)
            await empty(bench.store)
            assert not bench.lost

    asyncio.run(body())


def test_who_vanishes_without_a_word_is_inherited_from_once_it_counts_as_gone(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            sent = [ask() for _ in range(250)]
            dead = Bench(store, "dead")
            async with running(dead.intake.run()):
                for request in sent:
                    await send(store, request)
                await dead.got(*sent)
            heir = Bench(store, "heir", alive=["dead"])
            async with running(heir.intake.run()):
                fresh = await read_by(heir)
                assert not set(heir.keys) & {
                    request.key for request in sent
                }  # the living keep what they have
                heir.alive.remove("dead")
                await heir.got(*sent, *fresh)
                heir.intake.settled(heir.requests)
                await empty(store)

                async def alone() -> bool:
                    return await consumers(store.commands, store.keys.shard(SHARD)) == ["heir"]

                await until(alone)

    asyncio.run(body())


def impatient(seconds: float = 100.0) -> Passenger:
    """One whose queue limit has passed when it arrives."""
    request = ask(limit=seconds)
    request.expires = 0.0
    return request


def test_what_is_inherited_is_bounded_by_its_deadline_alone_and_what_comes_later_by_both_limits(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            dead = Bench(store, "dead")
            taken, lay, fresh = impatient(), impatient(), impatient()
            async with running(dead.intake.run()):
                await send(store, taken)
                await dead.got(taken)
            await send(store, lay)  # while nobody has the shard
            heir = Bench(store, "heir")
            async with running(heir.intake.run()):
                await heir.got(taken, lay)
                await send(store, fresh)
                await heir.got(taken, lay, fresh)
            assert {request.key for request in heir.inherited} == {taken.key, lay.key}
            assert all(request.expires >= request.deadline for request in heir.inherited)
            [last] = [request for request in heir.requests if request.key == fresh.key]
            assert last.expires < last.deadline

    asyncio.run(body())


def test_a_registry_that_does_not_know_the_reader_itself_makes_nobody_dead(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            other, new = Bench(store, "other"), Bench(store, "new")
            new.alive.clear()  # it has not been read yet
            async with running(other.intake.run()):
                await send(store, request := ask())
                await other.got(request)
            async with running(new.intake.run()):
                fresh = await read_by(new)
                assert request.key not in new.keys
                new.alive.add("new")
                await new.got(request, *fresh)

    asyncio.run(body())


def test_who_was_thought_dead_lets_go_of_what_was_taken_from_it(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            paused, heir = Bench(store, "paused"), Bench(store, "heir", owned=())
            async with running(paused.intake.run(), heir.intake.run()):
                await send(store, request := ask())
                await paused.got(request)
                heir.owned = set(range(16))  # the lease ran out, and so did the heartbeat
                await heir.got(request)
                paused.owned.clear()
                await until(lambda: paused.lost == paused.requests)
                assert not paused.intake.in_hand
                paused.intake.settled(paused.requests)  # its late answer counts for nothing here
                heir.intake.settled(heir.requests)
                await empty(store)

    asyncio.run(body())


def test_who_gave_a_shard_away_finishes_what_it_has_in_hand(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            old = Bench(store, "old", alive=["new"])
            new = Bench(store, "new", alive=["old"], owned=())
            async with running(old.intake.run(), new.intake.run()):
                await send(store, first := ask())
                await old.got(first)
                old.owned.discard(SHARD)
                old.intake.shards_changed()
                new.owned.add(SHARD)

                await read_by(new)
                assert first.key not in new.keys
                assert not old.lost

                async def all_gone() -> bool:
                    for bench in (
                        old,
                        new,
                    ):  # what was sent while the shard changed hands may have come to either
                        bench.intake.settled(bench.requests)
                    return await length(store) == 0

                await until(all_gone)

    asyncio.run(body())


def test_release_returns_when_all_in_hand_is_settled_and_leaves_nothing_behind(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with reading(redis_settings) as bench:
            await send(bench.store, request := ask())
            await bench.got(request)
            released = asyncio.ensure_future(bench.intake.release())
            await asyncio.wait([released], timeout=0.4)
            assert not released.done()
            bench.intake.settled([request])
            await released
            assert await length(bench.store) == 0
            assert await consumers(bench.store.commands, bench.store.keys.shard(SHARD)) == []

    asyncio.run(body())


# ---- servers and connections that break ------------------------------------------------------------------


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One that the test may hurt."""
    with redis_server(request.param, "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


def test_an_answer_that_broke_off_on_its_way_is_fetched_again(server: Server) -> None:
    async def body() -> None:
        async with reading(patient(server.url)) as bench:
            await send(bench.store, first := ask())
            await bench.got(first)
            lost = ask()
            stream = bench.store.keys.shard(SHARD)
            async with bench.store.commands.pipeline(transaction=True) as at_once:
                body = encode_envelope("gateway", [lost], [], monotonic())
                at_once.execute_command("XADD", stream, "*", "e", body)
                at_once.execute_command("XREADGROUP", "GROUP", GROUP, "me", "STREAMS", stream, ">")
                await at_once.execute()  # now Redis thinks that the intake has it
            server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await bench.got(first, lost)
            bench.intake.settled(bench.requests)
            await empty(bench.store)

    asyncio.run(body())


def test_connections_killed_again_and_again_lose_and_double_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        publisher_module, "LONGEST_RETRY", 60.0
    )  # the second try may come late, and is not given up

    async def body() -> None:
        async with reading(patient(server.url)) as bench:
            publisher = Publisher(bench.store, "gateway", monotonic)
            async with running(publisher.run()):
                sent = []
                for _ in range(20):
                    together = [ask() for _ in range(20)]
                    sent += together
                    acceptances = asyncio.gather(*map(publisher.accepted, together))
                    server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                    await acceptances
                await until(lambda: set(bench.keys) == {request.key for request in sent})
            assert len(bench.requests) == len(sent)
            bench.intake.settled(bench.requests)

            async def all_gone() -> bool:
                return not sum([await length(bench.store, shard) for shard in range(16)])

            await until(all_gone)

    asyncio.run(body())


def test_a_redis_that_comes_back_with_its_log_has_everything_again(server: Server) -> None:
    async def body() -> None:
        async with reading(patient(server.url)) as bench:
            await send(bench.store, before := ask())
            await bench.got(before)
            await asyncio.to_thread(server.restart)
            await send(bench.store, after := ask())
            await bench.got(before, after)
            bench.intake.settled(bench.requests)
            await empty(bench.store)
            assert not bench.lost

    asyncio.run(body())


@pytest.mark.parametrize("kind", KINDS)
def test_a_redis_that_comes_back_empty_takes_nothing_out_of_hand(kind: str) -> None:
    async def body(server: Server) -> None:
        async with reading(patient(server.url)) as bench:
            await send(bench.store, before := ask())
            await bench.got(before)
            await asyncio.to_thread(server.restart)
            await send(bench.store, after := ask())
            await bench.got(before, after)
            assert len(bench.intake.in_hand) == 2
            bench.intake.settled(bench.requests)
            await empty(bench.store)
            assert not bench.lost

    with redis_server(kind) as server:
        asyncio.run(body(server))


def test_a_full_redis_can_still_be_taken_over_read_and_emptied(server: Server) -> None:
    async def body() -> None:
        async with opened(patient(server.url)) as store:
            dead, heir = Bench(store, "dead"), Bench(store, "heir")
            async with running(dead.intake.run()):
                await send(store, first := ask())
                await dead.got(first)
            await send(store, second := ask())
            server.command("CONFIG", "SET", "maxmemory", "1")
            with pytest.raises(OutOfMemoryError):
                await send(store, ask())
            async with running(heir.intake.run()):
                await heir.got(first, second)
                heir.intake.settled(heir.requests)
                await empty(store)

    asyncio.run(body())
