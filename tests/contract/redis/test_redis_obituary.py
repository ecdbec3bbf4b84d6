"""A supervisor saw its child die: the others know it at once, however long a lease is."""

import asyncio
import os
import socket
from typing import Any

from redis_kit import opened, running, until

from penstock.adapters.redis.bus.leases import Leases
from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.bus.obituary import Obituaries
from penstock.adapters.redis.bus.registry import Registry
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.words.heartbeats import Heartbeat, Kind
from penstock.words.messages import Departed, Message, decode

HERE = socket.gethostname()


class Process:
    """A member of the installation, as far as the registry and the post are concerned."""

    def __init__(self, store: Store, kind: Kind, name: str, pid: int, parent: int | None = None) -> None:
        said = Heartbeat(host=HERE, pid=pid, parent=os.getpid() if parent is None else parent)
        self.registry = Registry(store, kind, name, lambda: said)
        self.mailbox = Mailbox(store, name)
        self.messages: list[Message] = []

    async def join(self) -> None:
        await self.mailbox.create()
        await self.registry.beat()

    async def listen(self) -> None:
        await self.mailbox.run(self._received)

    def _received(self, payload: bytes) -> None:
        message = decode(payload)
        self.messages.append(message)
        if isinstance(message, Departed):
            self.registry.departed(message.kind, message.name)


def test_a_dead_worker_is_out_of_the_registry_and_everybody_is_told(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            batcher, dead = Process(store, "batchers", "b1", 11), Process(store, "workers", "w1", 12)
            alike = Process(
                store, "workers", "w2", 12, parent=1
            )  # of another supervisor, on a machine of that name
            changes: list[set[str]] = []
            batcher.registry.on_changed = lambda: changes.append(set(batcher.registry.members["workers"]))
            for process in (dead, alike, batcher):
                await process.join()
            assert changes[-1] == {"w1", "w2"}
            async with running(batcher.listen()):
                assert await Obituaries(redis_settings).tell("workers", 12) == ["w1"]
                await until(lambda: bool(batcher.messages))
            assert batcher.messages == [Departed("workers", "w1")]
            assert changes[-1] == {"w2"}
            await batcher.registry.beat()
            assert set(batcher.registry.members["workers"]) == {"w2"}
            assert not await Post(store).send("w1", b"a batch")  # and whoever sends to it learns so too

    asyncio.run(body())


def test_the_dead_are_missing_until_their_supervisor_has_started_others(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            gateway = Process(store, "gateways", "g1", 10)
            workers = [Process(store, "workers", f"w{number}", number) for number in (1, 2, 3)]
            for process in (*workers, gateway):
                await process.join()
            async with running(gateway.listen()):
                for number in (1, 2):
                    await Obituaries(redis_settings).tell("workers", number)
                await until(lambda: len(gateway.messages) == 2)
            lost = gateway.registry.lost_workers
            assert set(lost) == {"w1", "w2"}, "at once"
            await Process(store, "workers", "other", 4, parent=1).join()
            await gateway.registry.beat()
            assert set(lost) == {"w1", "w2"}, "another supervisor's is no replacement"
            await Process(store, "workers", "w1 again", 5).join()
            await gateway.registry.beat()
            assert set(lost) == {"w2"}
            await Process(store, "workers", "w2 again", 6).join()
            await gateway.registry.beat()
            assert lost == {}

    asyncio.run(body())


def test_the_shards_of_a_dead_batcher_can_be_taken_at_once(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            alive = {"b1", "b2"}
            leases = {name: Leases(store, name, lambda: alive) for name in alive}
            for each in leases.values():
                await each.step()
            assert [len(each.owned) for each in leases.values()] == [8, 8]
            for number, name in enumerate(sorted(alive)):
                await Process(store, "batchers", name, 20 + number).join()
            assert await Obituaries(redis_settings).tell("batchers", 20) == ["b1"]
            alive.remove("b1")
            await leases["b2"].step()
            assert leases["b2"].owned == frozenset(range(16))

    asyncio.run(body())


def test_who_is_told_that_a_batcher_came_or_went_looks_at_the_shards_now(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        settings: dict[str, Any] = {"heartbeat": 600.0, "lease": 3600.0}  # nothing happens by itself
        async with opened(RedisSettings(redis_settings.url, redis_settings.namespace, **settings)) as store:
            alive = {"b1", "b2"}
            leases = Leases(store, "b1", lambda: alive)
            async with running(leases.run()):
                await until(lambda: len(leases.owned) == 8)
                alive.remove("b2")
                leases.batchers_changed()
                await until(lambda: len(leases.owned) == 16)

    asyncio.run(body())


def test_nobody_is_told_of_a_process_that_never_joined(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        async with opened(redis_settings) as store:
            await Process(store, "workers", "w1", 12).join()
            assert await Obituaries(redis_settings).tell("workers", 13) == []
            assert await Obituaries(redis_settings).tell("batchers", 12) == []

    asyncio.run(body())
