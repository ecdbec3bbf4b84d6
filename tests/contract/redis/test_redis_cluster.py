"""What only a cluster can do: move a slot, and lose a primary."""

import asyncio
from collections.abc import Iterator

import pytest
from redis.asyncio.cluster import RedisCluster
from redis_kit import until

from penstock.adapters.redis.bus.leases import Leases
from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.link.connect import Store
from redis_servers import Cluster, becomes, patient, redis_cluster, running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One that these tests may hurt."""
    with redis_cluster() as cluster:
        yield cluster


async def opened(cluster: Cluster, namespace: str, lease: float = 2.0) -> Store:
    store = Store(patient(cluster.url, namespace=namespace, lease=lease))
    await store.open()
    return store


def test_a_slot_that_moves_during_traffic_shows_to_nobody(cluster: Cluster) -> None:
    async def body() -> None:
        cluster.give_up_after(60.0)  # no node is lost here
        store = await opened(cluster, "moving")
        post, got, sent = Post(store), list[bytes](), list[bytes]()
        box = Mailbox(store, "g1")
        await box.create()
        moving = asyncio.create_task(asyncio.to_thread(cluster.move_slot, store.keys.box("g1"), 0.5))

        async def traffic(sender: int) -> None:
            while not moving.done():
                message = b"%d %d" % (sender, len(sent))
                assert await post.send("g1", message, give_up_after=0)  # not even one second try
                sent.append(message)
                await store.commands.execute_command("XLEN", store.keys.box("g1"))

        async with running(box.run(got.append)):
            await asyncio.gather(*(traffic(sender) for sender in range(5)))
            await moving
            await becomes(lambda: len(got) >= len(sent))
        assert sorted(got) == sorted(sent)
        await store.close()

    asyncio.run(body())


def test_a_client_that_lost_a_connection_leaves_no_other_open(cluster: Cluster) -> None:
    async def body() -> None:
        store = await opened(cluster, "closing")
        client = store.commands
        assert isinstance(client, RedisCluster)
        connections = [connection for node in client.get_nodes() for connection in node._connections]
        assert any(connection.is_connected for connection in connections)
        client._initialize = True  # as a lost connection leaves it
        await store.close()
        assert not any(connection.is_connected for connection in connections)

    asyncio.run(body())


def test_when_a_primary_dies_messages_and_leases_go_on_at_its_replica(cluster: Cluster) -> None:
    """A lease outlives the failover: until the replica is in its place the others serve nobody either."""
    lease, fresh = 6.0, 4000  # seconds; ms left of a lease that was renewed since the primary died

    async def body() -> None:
        cluster.give_up_after(2.0)
        store = await opened(cluster, "failing-over", lease)
        names = [f"g{number}" for number in range(8)]  # on all primaries
        got: dict[str, set[bytes]] = {name: set() for name in names}
        boxes = [Mailbox(store, name) for name in names]
        for box in boxes:
            await box.create()
        leases, lost, ever = Leases(store, "b1", lambda: ["b1"]), set[int](), frozenset(range(16))
        leases.on_lost = lost.add
        async with running(leases.run(), *(box.run(got[box.owner].add) for box in boxes)):
            await becomes(lambda: leases.owned == ever)
            await asyncio.to_thread(cluster.copy)
            await asyncio.to_thread(cluster.primaries[0].kill)
            sent = await Post(store).send_all([(name, b"after") for name in names], give_up_after=60.0)
            assert sent == [True] * 8
            await becomes(lambda: all(b"after" in messages for messages in got.values()))

            async def renewed() -> bool:
                left = await store.each([("PTTL", store.keys.lease(shard)) for shard in sorted(ever)])
                return all(isinstance(ms, int) and ms > fresh for ms in left)

            await until(renewed)
            await becomes(lambda: leases.owned == ever)
        assert len(lost) < 16  # those of the other primaries were kept throughout
        await store.close()

    asyncio.run(body())
