"""Redis is stopped and goes on, a batcher likewise, and connections are cut again and again."""

import asyncio
import os
import signal
from collections.abc import Iterator
from random import Random

import psutil
import pytest

from history import History, asks, like, percentile, poisson
from installation import Installation, installation, patiently
from redis_faults import (
    Fault,
    Pulse,
    check_that_only_waiting_ends_in_504,
    drive_during,
    feeling,
    one_after_another,
    slowest_recovery,
    some,
    wait_until_served,
)
from redis_servers import Server
from scene import report

RATE, DELAY = 100.0, 0.01
QUICK = 0.1  # seconds until the first refusal
LAG, BACK = 0.05, 2.0  # seconds: of an event loop, and of service after Redis goes on
TAKEN_OVER = 1.5 + DELAY
EXTRA = 0.5  # seconds that connections killed each second may add to the p99


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    long = bool(request.config.getoption("--chaos-long"))
    with installation(
        tmp_path_factory.mktemp("stopped"),
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
        yield found


@pytest.mark.timeout(300)
def test_a_redis_that_stands_still_holds_up_no_event_loop_and_nothing_comes_twice_when_it_goes_on(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    redis = site.redis
    assert isinstance(redis, Server)
    times, after, still = (3, 4.0, 5.0) if chaos_long else (1, 0.5, 1.5)
    seconds = times * (after + still) + (4.0 if chaos_long else 1.0)
    schedule = asks(poisson(RATE, seconds, Random(chaos_seed)), timeout=None, kind="b4")
    faults = [Fault(redis.stop, redis.cont, after, still) for _ in range(times)]

    async def story() -> tuple[History, Pulse]:
        async with feeling(site.gateways) as pulse:
            told = await drive_during(site, schedule, chaos_seed, one_after_another(faults))
        return told, pulse

    history, pulse = asyncio.run(story())
    wait_until_served(site)
    site.check(history)

    assert pulse.statuses == {200}
    check_that_only_waiting_ends_in_504(history)
    in_time = {record.status for record in history.records} - {504}
    assert in_time == {200, 503}, history.endings()
    if chaos_long:
        back = slowest_recovery(history, faults)
        begun = site.journal.first_begun()
        late = history.count(lambda record: record.refused and record.ask.input in begun)
        lag = percentile(pulse.seconds, 0.99)
        first = max(first_refusal(history, fault) for fault in faults)
        figure = (
            f"first 503 after {first * 1e3:.0f} ms, /livez p99 {lag * 1e3:.0f} ms, back after {back:.2f} s, "
            f"executed though refused {late}"
        )
        report(request, history.row(f"B4 Redis stopped x{times}", f"{figure} | {history.endings()}"))
        assert first <= QUICK
        assert lag < LAG
        assert back <= BACK


def first_refusal(history: History, fault: Fault) -> float:
    """Seconds from the beginning of the fault."""
    refused = [record.done for record in history.records if record.refused and record.done > fault.began]
    return min(refused) - fault.began


@pytest.mark.timeout(300)
def test_a_batcher_that_stood_still_for_longer_than_its_lease_answers_nobody_twice(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    zombie = site.batchers[0]
    times, after, still = (3, 2.0, 5.0) if chaos_long else (1, 0.3, 1.8)
    schedule = asks(poisson(RATE, times * (after + still) + 2.0, Random(chaos_seed)), timeout=None, kind="z")
    faults = [
        Fault(
            lambda: os.kill(zombie.pid, signal.SIGSTOP),
            lambda: os.kill(zombie.pid, signal.SIGCONT),
            after,
            still,
        )
        for _ in range(times)
    ]
    history = asyncio.run(drive_during(site, schedule, chaos_seed, one_after_another(faults)))
    site.check(history)
    site.wait_until_known()

    assert history.failures() == [], history.endings()
    if chaos_long:
        longest = max(history.seconds(record) for record in history.records)
        report(request, history.row(f"B4 batcher stopped x{times}", f"longest wait {longest:.2f} s"))
        assert longest <= TAKEN_OVER


class Cutter:
    """Kills every connection that the gateways have to Redis."""

    def __init__(self, site: Installation, redis: Server) -> None:
        self._site = site
        self._port = redis.port
        self.killed = 0

    async def cut(self, times: int, apart: float) -> None:
        for _ in range(times):
            await asyncio.sleep(apart)
            await asyncio.to_thread(self._kill_some)

    def _kill_some(self) -> None:
        """All there are, and two at least: those killed last time may not be back yet."""
        enough = self.killed + 2
        patiently(lambda: self._kill_all() >= enough)

    def _kill_all(self) -> int:
        for gateway in self._site.gateways:
            for connection in psutil.Process(gateway.pid).net_connections():
                if connection.raddr and connection.raddr.port == self._port:
                    where = f"{connection.laddr.ip}:{connection.laddr.port}"
                    self.killed += int(self._site.client.execute_command("CLIENT", "KILL", "ADDR", where))
        return self.killed


@pytest.mark.timeout(300)
def test_connections_of_the_gateways_that_are_killed_again_and_again_show_nobody_an_error(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    assert isinstance(site.redis, Server)
    times, apart = (30, 1.0) if chaos_long else (5, 0.3)
    random = Random(chaos_seed)
    usual = None
    if chaos_long:
        usual = asyncio.run(
            drive_during(
                site, asks(poisson(RATE, 10.0, random), kind="b7-usual"), chaos_seed, one_after_another([])
            )
        )
    schedule = asks(poisson(RATE, times * apart + 1.0, random), timeout=None, kind="b7")
    cutter = Cutter(site, site.redis)
    history = asyncio.run(drive_during(site, schedule, chaos_seed, cutter.cut(times, apart)))
    site.check(history)

    assert cutter.killed >= 2 * times
    assert history.failures() == [], history.endings()
    if usual is not None:
        before, during = (
            percentile([told.seconds(record) for record in told.records], 0.99) for told in (usual, history)
        )
        figure = f"{cutter.killed} killed, p99 {before * 1e3:.0f} ms before, {during * 1e3:.0f} ms during"
        report(request, history.row(f"B7 connections killed x{times}", figure))
        assert during - before <= EXTRA
