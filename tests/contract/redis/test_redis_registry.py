"""Who is there, and who counts as gone."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from redis.exceptions import RedisError

from penstock.adapters.redis.bus.registry import Registry
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.words.announcements import ModelAnnouncement
from penstock.words.heartbeats import KINDS, GatewayHeartbeat, Kind
from redis_servers import KINDS as SERVERS
from redis_servers import Server, becomes, opened, redis_server, running


def quick(settings: RedisSettings, lease: float = 0.4) -> RedisSettings:
    return replace(settings, lease=lease, heartbeat=0.1, block=0.2)


def lasting(settings: RedisSettings) -> RedisSettings:
    """For members that are not to fall silent, though the machine may stand still for a moment."""
    return quick(settings, lease=60.0)


def taking(*names: str) -> ModelAnnouncement:
    return ModelAnnouncement(parameter_names=[*names])


class Process:
    """A member that notes who comes and goes, whenever it is told that something has changed."""

    def __init__(self, store: Store, kind: Kind, name: str) -> None:
        self.description = GatewayHeartbeat(host="h", waiting=1)
        self.registry = Registry(store, kind, name, lambda: self.description)
        self.told: list[str] = []
        self.changes = 0
        self._known: set[str] = set()
        self.registry.on_changed = self._look_around

    def _look_around(self) -> None:
        self.changes += 1
        here = {name for kind in KINDS for name in self.registry.members[kind]}
        self.told += [f"+{name}" for name in sorted(here - self._known)]
        self.told += [f"-{name}" for name in sorted(self._known - here)]
        self._known = here

    def sees(self, kind: Kind) -> set[str]:
        return set(self.registry.members[kind])


def test_one_that_leaves_is_gone_with_the_next_heartbeat_and_stays_so(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(lasting(redis_settings))
        stays, leaves = Process(store, "batchers", "b1"), Process(store, "batchers", "b2")
        async with running(stays.registry.run(), leaves.registry.run()):
            await becomes(lambda: stays.sees("batchers") == {"b1", "b2"})
            await unbroken(store)
            await leaves.registry.leave()
            await stays.registry.beat()
            assert stays.sees("batchers") == {"b1"}
            await leaves.registry.beat()
            await stays.registry.beat()
            assert stays.sees("batchers") == {"b1"}
        await store.close()

    asyncio.run(body())


async def unbroken(store: Store) -> None:
    """As if service had lasted for more than a lease: before, nobody counts as gone."""
    await store.commands.execute_command("HINCRBY", store.keys.registry("pulse"), "since", -61_000)


def test_one_that_falls_silent_is_gone_after_a_lease(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(quick(redis_settings))
        stays, dies = Process(store, "gateways", "g1"), Process(store, "workers", "w1")
        async with running(stays.registry.run()):
            async with running(dies.registry.run()):
                await becomes(lambda: stays.sees("workers") == {"w1"})
            await becomes(lambda: not stays.sees("workers"))
            assert stays.told[-1] == "-w1"
            async with running(dies.registry.run()):
                await becomes(lambda: stays.sees("workers") == {"w1"})
        await store.close()

    asyncio.run(body())


def test_announced_models_are_known_to_all(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(quick(redis_settings))
        gateway, worker = Process(store, "gateways", "g1"), Process(store, "workers", "w1")
        await worker.registry.announce_model("echo", ModelAnnouncement(max_batch=32))
        await gateway.registry.beat()
        assert gateway.registry.models == {"echo": ModelAnnouncement(max_batch=32)}
        await store.commands.execute_command("DEL", store.keys.registry("models"))
        await worker.registry.beat()
        assert await store.commands.execute_command("HLEN", store.keys.registry("models")) == 1
        await store.close()

    asyncio.run(body())


def test_what_is_new_of_a_model_is_said_with_the_next_heartbeat_and_once(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        store = await opened(quick(redis_settings))
        gateway, worker = Process(store, "gateways", "g1"), Process(store, "workers", "w1")
        await worker.registry.announce_model("echo", taking())
        worker.registry.describe_model("echo", taking("top_k"))
        await gateway.registry.beat()
        assert gateway.registry.models == {"echo": taking()}
        await worker.registry.beat()
        await gateway.registry.beat()
        assert gateway.registry.models == {"echo": taking("top_k")}
        other = Process(store, "workers", "w2")  # which has the last word, until there is news again
        await other.registry.announce_model("echo", taking("top_p"))
        worker.registry.describe_model("echo", taking("top_k"))
        await worker.registry.beat()
        await gateway.registry.beat()
        assert gateway.registry.models == {"echo": taking("top_p")}
        await store.close()

    asyncio.run(body())


async def goes_away(server: Server, fault: str) -> None:
    if fault == "frozen":
        server.stop()
    else:
        await asyncio.to_thread(server.kill)


async def comes_back(server: Server, fault: str) -> None:
    if fault == "frozen":
        server.cont()
    else:
        await asyncio.to_thread(server.start)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("fault", ["frozen", "restarted with its data", "restarted empty"])
def test_when_redis_was_away_nobody_alive_counts_as_gone_and_the_dead_do(kind: str, fault: str) -> None:
    """The lease is longer than the longest pause between two tries: one may come back that much after another."""
    lease = 1.5

    async def body(url: str) -> None:
        stores = [await opened(quick(RedisSettings(url, timeout=0.2), lease)) for _ in range(3)]
        watcher = Process(stores[0], "gateways", "g1")
        lives, dies = Process(stores[1], "workers", "lives"), Process(stores[2], "workers", "dies")
        async with running(watcher.registry.run(), lives.registry.run()):
            async with running(dies.registry.run()):
                await becomes(lambda: watcher.sees("workers") == {"lives", "dies"})
                with suppress(RedisError):  # in 0.2 s; else it is said with the next beat
                    await lives.registry.announce_model("echo", ModelAnnouncement())
                await becomes(lambda: "echo" in watcher.registry.models)
            await goes_away(server, fault)
            await becomes(lambda: not watcher.registry.reachable)
            await asyncio.sleep(1.1 * lease)
            await comes_back(server, fault)
            await becomes(lambda: watcher.registry.reachable)
            await becomes(lambda: watcher.sees("workers") == {"lives"})
        assert "-lives" not in watcher.told
        assert "-g1" not in watcher.told
        assert "echo" in watcher.registry.models
        for store in stores:
            await store.close()

    options = ("--appendonly", "yes", "--appendfsync", "always") if fault.endswith("data") else ()
    with redis_server(kind, *options) as server:
        asyncio.run(body(server.url))
