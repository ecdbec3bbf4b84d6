"""In a Redis Cluster a primary dies, and hot slots move."""

import asyncio
import time
from collections.abc import Iterator
from random import Random

import pytest

from history import asks, like, percentile, poisson
from installation import Installation, installation, patiently
from redis_faults import drive_during, one_after_another, some, troubled_for, wait_until_served
from redis_servers import Cluster, Server
from scene import Holdings, report

RATE, DELAY = 60.0, 0.01
UNAVAILABLE = 8.0  # seconds
# What a cluster costs besides, once slots have moved to other nodes: to each node as many idle connections
# as were ever needed at once, and room for maps of all slots, which the allocator keeps after they were drawn anew.
IDLE, MAPS = 48, 100 * 2**20


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    long = bool(request.config.getoption("--chaos-long"))
    with installation(
        tmp_path_factory.mktemp("cluster"),
        cluster=True,
        gateways=some(long),
        workers=some(long),
        slots=1,
        delay=DELAY,
        long=long,
    ) as found:
        if long:
            warm_up = like(asks(poisson(RATE, 10.0, Random(0))))
            asyncio.run(drive_during(found, warm_up, 0, one_after_another([])))
            found.settle()
        for member in found.members:
            rest = member.at_rest
            assert rest is not None
            member.at_rest = Holdings(rest.descriptors + IDLE, rest.memory + MAPS)
        yield found


class Killer:
    """Kills primaries, and takes them back as replicas once another has stepped in."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self.killed_at: list[float] = []

    async def kill(self, times: int, apart: float) -> None:
        for _ in range(times):
            await asyncio.sleep(apart)
            victim = self._random.choice(await asyncio.to_thread(self._owners))
            await asyncio.to_thread(self._cluster.copy)
            self.killed_at.append(time.monotonic())
            await asyncio.to_thread(self._replace, victim)

    def _owners(self) -> list[Server]:
        """Primaries that hold something of ours: others would not be missed."""
        return [server for server in self._cluster.primaries if server.command("DBSIZE")]

    def _replace(self, victim: Server) -> None:
        before = set(self._cluster.primaries)
        victim.kill()
        patiently(lambda: len(self._cluster.primaries) == 3)
        [heir] = set(self._cluster.primaries) - before
        victim.start()
        patiently(lambda: victim in self._cluster.replicas)
        patiently(lambda: _scripts(heir) > 0)  # it takes the scripts from those who call them
        patiently(lambda: _is_copied(victim))


def _scripts(server: Server) -> int:
    with server.client() as client:
        return int(client.info("memory")["number_of_cached_scripts"])


def _is_copied(server: Server) -> bool:
    with server.client() as client:
        return bool(client.info("replication")["master_link_status"] == "up")


@pytest.mark.timeout(600)
def test_after_a_primary_of_the_cluster_died_its_replica_serves(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    cluster = site.redis
    assert isinstance(cluster, Cluster)
    times, apart = (10, 5.0) if chaos_long else (1, 0.5)
    random = Random(chaos_seed)
    seconds = times * (apart + (9.0 if chaos_long else 6.0))
    schedule = asks(poisson(RATE, seconds, random), timeout=None, kind="b3")
    killer = Killer(cluster, random)
    history = asyncio.run(drive_during(site, schedule, chaos_seed, killer.kill(times, apart)))
    wait_until_served(site)
    site.check(history)

    assert {record.status for record in history.records} <= {200, 503, 504}, history.endings()
    if chaos_long:
        ends = [*killer.killed_at[1:], float("inf")]
        gaps = [troubled_for(history, *span) for span in zip(killer.killed_at, ends, strict=True)]
        figure = f"unavailable for {max(gaps):.1f} s at most | {history.endings()}"
        report(request, history.row(f"B3 primary killed x{times}", figure))
        assert max(gaps) <= UNAVAILABLE


def hot_keys(site: Installation, long: bool) -> list[str]:
    """What every request passes: a shard, the line of idle workers, the mailboxes; and what all of them beat."""
    keys = [site.key("s0", ":requests"), site.key("m:batchstring", ":idle"), site.key("reg", ":workers")]
    members = site.members if long else [site.gateways[0], site.workers[0]]
    keys += [site.key(f"box:{member.health()['name']}") for member in members]
    return [*keys, *(site.key(f"s{shard}", ":requests") for shard in range(1, 16))] if long else keys


@pytest.mark.timeout(300)
def test_slots_that_move_under_load_show_nobody_an_error(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    cluster = site.redis
    assert isinstance(cluster, Cluster)
    random = Random(chaos_seed)
    keys = hot_keys(site, chaos_long)
    random.shuffle(keys)
    apart = 1.0 if chaos_long else 0.3

    async def move_them() -> None:
        for key in keys:
            await asyncio.sleep(apart)
            await asyncio.to_thread(cluster.move_slot, key, random.uniform(0.0, 0.3))

    seconds = len(keys) * (apart + 0.3) + 1.0
    schedule = asks(poisson(RATE, seconds, random), timeout=None, kind="b8")
    history = asyncio.run(drive_during(site, schedule, chaos_seed, move_them()))
    site.check(history)

    assert history.failures() == [], history.endings()
    if chaos_long:
        waits = [history.seconds(record) for record in history.records]
        figure = f"longest gap {history.longest_gap():.2f} s, p99 {percentile(waits, 0.99):.2f} s"
        report(request, history.row(f"B8 hot slots moved x{len(keys)}", figure))
