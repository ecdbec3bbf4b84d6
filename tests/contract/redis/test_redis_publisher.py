"""From a gateway into Redis, whatever happens to the connection or the server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic

import pytest
from redis.exceptions import TimeoutError as NoAnswer
from redis_kit import all_envelopes, ask, envelopes, opened, running, until

from penstock.adapters.redis.bus import publisher as module
from penstock.adapters.redis.bus.durability import Appender
from penstock.adapters.redis.bus.publisher import Publisher
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.errors import Cancelled, Overloaded, StoreDown
from penstock.types import Accepted, Failure
from redis_servers import KINDS, Cluster, Server, patient, redis_cluster, redis_server


class Failures(list[tuple[Accepted, Failure]]):
    def note(self, requests: Sequence[Accepted], failure: Failure) -> None:
        self += [(request, failure) for request in requests]

    @property
    def codes(self) -> set[str]:
        return {failure.code for _, failure in self}


@asynccontextmanager
async def publishing(settings: RedisSettings) -> AsyncIterator[tuple[Store, Publisher, Failures]]:
    async with opened(settings) as store:
        publisher, failures = Publisher(store, "gateway", monotonic), Failures()
        publisher.on_failed = failures.note
        async with running(publisher.run()):
            yield store, publisher, failures


def test_what_is_published_together_arrives_together_and_in_order(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with publishing(redis_settings) as (store, publisher, failures):
            began = monotonic()
            sent = [ask(now=began) for _ in range(50)]
            for request in sent[:-1]:
                publisher.publish(request)
            await publisher.accepted(sent[-1])
            [envelope] = await all_envelopes(store)
            assert [wire.key for wire in envelope.requests] == [request.key for request in sent]
            assert envelope.gateway == "gateway"
            least = 100 - (monotonic() - began)
            assert all(least <= wire.expires_in <= 100 for wire in envelope.requests)
            assert not failures

    asyncio.run(body())


def test_envelopes_take_the_shards_in_turn(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with publishing(redis_settings) as (store, publisher, _):
            sent = [ask() for _ in range(store.settings.shards)]
            for request in sent:
                await publisher.accepted(request)
            assert sorted(str(request.shard) for request in sent) == sorted(map(str, range(16)))
            for request in sent:
                assert request.shard is not None
                [envelope] = await envelopes(store, request.shard)
                assert [wire.key for wire in envelope.requests] == [request.key]

    asyncio.run(body())


def test_a_request_withdrawn_before_it_is_sent_never_is(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with publishing(redis_settings) as (store, publisher, failures):
            gone, stays = ask(), ask()
            publisher.publish(gone)
            publisher.withdraw(gone)
            await publisher.accepted(stays)
            [envelope] = await all_envelopes(store)
            assert [wire.key for wire in envelope.requests] == [stays.key]
            assert not envelope.withdrawn
            assert not failures

    asyncio.run(body())


def test_whoever_waits_for_acceptance_learns_of_the_withdrawal(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with publishing(redis_settings) as (_, publisher, _failures):
            request = ask()
            acceptance = asyncio.ensure_future(publisher.accepted(request))
            asyncio.get_running_loop().call_soon(publisher.withdraw, request)
            with pytest.raises(Cancelled):
                await acceptance

    asyncio.run(body())


def test_a_withdrawal_follows_its_request_into_its_shard(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with publishing(redis_settings) as (store, publisher, _):
            request = ask()
            await publisher.accepted(request)
            publisher.withdraw(request)
            others = [ask() for _ in range(store.settings.shards)]
            for other in others:
                await publisher.accepted(other)
            assert request.shard is not None
            withdrawn = [key for each in await envelopes(store, request.shard) for key in each.withdrawn]
            assert withdrawn == [request.key]
            assert sum(len(each.withdrawn) for each in await all_envelopes(store)) == 1

    asyncio.run(body())


def test_a_withdrawal_alone_is_sent_too_and_flush_returns_when_it_is(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with publishing(redis_settings) as (store, publisher, _):
            request = ask()
            await publisher.accepted(request)
            publisher.withdraw(request)
            await publisher.flush()
            assert [key for each in await all_envelopes(store) for key in each.withdrawn] == [request.key]

    asyncio.run(body())


def test_a_flood_is_cut_into_several_envelopes(
    redis_settings: RedisSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ENVELOPE_REQUESTS", 10)
    monkeypatch.setattr(module, "ENVELOPE_BYTES", 1000)

    async def body() -> None:
        async with publishing(redis_settings) as (store, publisher, _):
            sent = [*(ask() for _ in range(25)), *(ask(b"x" * 600) for _ in range(3)), ask()]
            for request in sent[:-1]:
                publisher.publish(request)
            await publisher.accepted(sent[-1])
            got = [[wire.key for wire in each.requests] for each in await all_envelopes(store)]
            assert [len(keys) for keys in got] == [10, 10, 6, 1, 2]
            assert [key for keys in got for key in keys] == [request.key for request in sent]

    asyncio.run(body())


def test_what_is_more_than_fits_is_refused_and_not_kept(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            publisher, failures = Publisher(store, "gateway", monotonic, max_requests=3), Failures()
            publisher.on_failed = failures.note
            for request in [ask() for _ in range(5)]:
                publisher.publish(request)
            assert not failures  # not in the midst of publishing
            with pytest.raises(Overloaded):
                await publisher.accepted(ask())
            assert len(failures) == 2
            assert failures.codes == {"SERVICE_OVERLOADED"}
            assert publisher.unsent == 3

    asyncio.run(body())


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One that the test may hurt."""
    with redis_server(request.param) as server:
        yield server


def test_a_connection_killed_in_the_midst_of_a_send_loses_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_RETRY", 60.0)  # however long the killing took, there is a second try

    async def body() -> None:
        async with publishing(patient(server.url)) as (store, publisher, failures):
            await publisher.accepted(ask())
            for _ in range(5):
                server.command("CLIENT", "PAUSE", 60_000, "WRITE")
                request = ask()
                acceptance = asyncio.ensure_future(publisher.accepted(request))
                await until(lambda: blocked(server))
                server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                server.command("CLIENT", "UNPAUSE")
                await acceptance
                keys = [wire.key for each in await all_envelopes(store) for wire in each.requests]
                assert request.key in keys
            assert not failures
            assert not publisher.down

    asyncio.run(body())


def blocked(server: Server) -> bool:
    """Whether a write is held up by CLIENT PAUSE."""
    with server.client() as client:
        return int(client.info("clients")["blocked_clients"]) > 0


def test_a_redis_that_died_fails_what_it_did_not_acknowledge_and_is_found_again(server: Server) -> None:
    async def body() -> None:
        async with publishing(patient(server.url)) as (store, publisher, failures):
            await publisher.accepted(ask())
            server.kill()
            lost = ask()
            publisher.publish(lost)
            with pytest.raises(StoreDown):
                await publisher.accepted(ask())
            assert publisher.down
            assert [request for request, _ in failures] == [lost]
            refused = ask()
            publisher.publish(refused)
            await until(lambda: len(failures) == 2)
            assert failures.codes == {"STORE_UNAVAILABLE"}
            server.start()
            await until(lambda: not publisher.down)
            await publisher.accepted(ask())
            keys = {wire.key for each in await all_envelopes(store) for wire in each.requests}
            assert not keys & {lost.key, refused.key}

    asyncio.run(body())


def test_what_must_be_done_before_anything_is_sent_again_is_done_first_and_tried_until_it_succeeds(
    server: Server,
) -> None:
    async def body() -> None:
        tried: list[bool] = []
        async with publishing(patient(server.url)) as (_, publisher, _):

            async def prepare() -> None:
                tried.append(publisher.down)
                if len(tried) == 1:
                    raise StoreDown("not yet")

            publisher.on_back = prepare
            await publisher.accepted(ask())
            assert tried == []
            server.kill()
            with pytest.raises(StoreDown):
                await publisher.accepted(ask())
            server.start()
            await until(lambda: not publisher.down)
            await publisher.accepted(ask())
            assert len(tried) >= 2
            assert tried[:2] == [True, True]

    asyncio.run(body())


def test_what_could_not_be_acknowledged_is_withdrawn_once_redis_is_back(server: Server) -> None:
    async def body() -> None:
        async with publishing(patient(server.url)) as (store, publisher, failures):
            await publisher.accepted(ask())
            server.kill()
            lost = ask()
            publisher.publish(lost)
            await until(lambda: bool(failures))
            server.start()
            await until(lambda: not publisher.down)
            await publisher.flush()
            assert lost.key in [key for each in await all_envelopes(store) for key in each.withdrawn]

    asyncio.run(body())


def hurt_memory(server: Server) -> None:
    server.command("CONFIG", "SET", "maxmemory", "1")


def heal_memory(server: Server) -> None:
    server.command("CONFIG", "SET", "maxmemory", "0")


def hurt_role(server: Server) -> None:
    server.command("REPLICAOF", "127.0.0.1", 1)


def heal_role(server: Server) -> None:
    server.command("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize(
    ("hurt", "heal"), [(hurt_memory, heal_memory), (hurt_role, heal_role)], ids=["full", "read-only"]
)
def test_a_redis_that_cannot_take_more_is_down_until_it_can(
    server: Server, hurt: Callable[[Server], None], heal: Callable[[Server], None]
) -> None:
    async def body() -> None:
        async with publishing(patient(server.url)) as (_, publisher, failures):
            await publisher.accepted(ask())
            hurt(server)
            publisher.publish(ask())
            await until(lambda: bool(failures))
            assert failures.codes == {"STORE_UNAVAILABLE"}
            assert publisher.down
            heal(server)
            await until(lambda: not publisher.down)
            await publisher.accepted(ask())

    asyncio.run(body())


async def gets_through(publisher: Publisher) -> None:
    """A server that is well but late is asked again."""

    async def accepted() -> bool:
        try:
            await publisher.accepted(ask())
        except StoreDown:
            return False
        return True

    await until(accepted)


async def learns_what_is_usual(store: Store, publisher: Publisher) -> None:
    """Until Redis has answered so often and so quickly that silence tells more than the time-out of a command."""

    async def learned() -> bool:
        await gets_through(publisher)
        return store.link.patience < 1.0

    await until(learned)


@pytest.mark.timeout(120)
def test_a_redis_that_hangs_is_told_by_its_silence_long_before_a_command_times_out(server: Server) -> None:
    """A command may take ten minutes here, so that nothing else can tell."""

    async def body() -> None:
        async with publishing(patient(server.url, timeout=600.0)) as (store, publisher, failures):
            await learns_what_is_usual(store, publisher)
            server.stop()
            try:
                sent, behind = ask(), ask()
                publisher.publish(sent)
                with pytest.raises(StoreDown):
                    await publisher.accepted(behind)
                assert publisher.down
                assert [request for request, _ in failures] == [sent]
                with pytest.raises(StoreDown):  # at once
                    await publisher.accepted(ask())
            finally:
                server.cont()
            await until(lambda: not publisher.down)
            await gets_through(publisher)
            assert sent.key in [key for each in await all_envelopes(store) for key in each.withdrawn]

    asyncio.run(body())


def test_a_redis_that_is_slow_with_a_write_but_is_heard_fails_nothing(server: Server) -> None:
    async def body() -> None:
        async with publishing(patient(server.url)) as (store, publisher, failures):
            await learns_what_is_usual(store, publisher)
            server.command("CLIENT", "PAUSE", 1_000, "WRITE")
            await publisher.accepted(ask())
            assert not failures
            assert not publisher.down

    asyncio.run(body())


def test_an_answer_that_is_lost_on_the_way_while_redis_is_heard_fails_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, lost = Appender.append, 0

    async def loses_one(appender: Appender, key: str, bodies: Sequence[bytes]) -> None:
        nonlocal lost
        if not lost:
            lost += 1
            for _ in range(30):  # for far longer than clients are kept waiting for a Redis that is not heard
                appender._store.link.heard()
                await asyncio.sleep(0.01)
            raise NoAnswer("Timeout reading from Redis")
        await append(appender, key, bodies)

    async def body() -> None:
        async with publishing(patient(server.url)) as (_, publisher, failures):
            await learns_what_is_usual(publisher._store, publisher)
            monkeypatch.setattr(Appender, "append", loses_one)
            await publisher.accepted(ask())
            assert (lost, failures, publisher.down) == (1, [], False)

    asyncio.run(body())


def test_what_a_lost_node_of_a_cluster_did_not_acknowledge_goes_to_the_others() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.give_up_after(60.0)  # until the others know that one is dead, they serve
        async with publishing(patient(cluster.url)) as (store, publisher, failures):
            await asyncio.gather(*(publisher.accepted(ask()) for _ in range(20)))
            cluster.primaries[0].kill()
            sent = [ask() for _ in range(3 * store.settings.shards)]
            for request in sent:
                await publisher.accepted(request)
            assert not failures
            assert not publisher.down

    with redis_cluster() as cluster:
        asyncio.run(body(cluster))
