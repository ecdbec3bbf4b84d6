"""Redis is full, cannot write its disk, forgets its scripts, is held up by somebody else's long one."""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from history import History, asks, like, poisson
from installation import Installation, installation, patiently
from redis_faults import (
    Fault,
    check_that_only_waiting_ends_in_504,
    drive_during,
    one_after_another,
    some,
    troubled_for,
    wait_until_served,
)
from redis_servers import Server
from scene import report

RATE, DELAY = 100.0, 0.01
BACK = 2.0  # seconds
AFTER_A_SCRIPT = 1.0
# Answers nobody, then says so to everybody; and a snapshot is asked of it, which a full disk makes fail.
OPTIONS = ("--lua-time-limit", "500", "--save", "3600 1000000")
HOLD_UP = """
local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
local ends = now() + ARGV[1]
while now() < ends do end
"""


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    long = bool(request.config.getoption("--chaos-long"))
    with installation(
        tmp_path_factory.mktemp("full"),
        gateways=some(long),
        workers=some(long),
        slots=1,
        delay=DELAY,
        redis_options=OPTIONS,
        long=long,
    ) as found:
        if long:
            warm_up = like(asks(poisson(RATE, 10.0, Random(0))))
            asyncio.run(drive_during(found, warm_up, 0, one_after_another([])))
            found.settle()
        yield found


def server(site: Installation) -> Server:
    assert isinstance(site.redis, Server)
    return site.redis


def info(site: Installation, section: str) -> dict[str, int | str]:
    with server(site).client() as client:
        return dict(client.info(section))


def outage(site: Installation, fault: Fault, seconds: float, seed: int, kind: str) -> History:
    schedule = asks(poisson(RATE, seconds, Random(seed)), timeout=None, kind=kind)
    history = asyncio.run(drive_during(site, schedule, seed, fault.happen()))
    wait_until_served(site)
    site.check(history)
    check_that_only_waiting_ends_in_504(history)
    assert {record.status for record in history.records} <= {200, 503, 504}, history.endings()
    return history


def tail(long: bool) -> float:
    """Seconds of load after a fault."""
    return 3.0 if long else 1.0


def figure(history: History, fault: Fault) -> str:
    return f"back after {troubled_for(history, fault.ended):.2f} s | {history.endings()}"


@pytest.mark.timeout(120)
def test_a_redis_whose_memory_is_full_evicts_nothing_and_requests_are_refused_until_there_is_room(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    redis = server(site)
    after, full = (3.0, 5.0) if chaos_long else (0.5, 1.1)
    fault = Fault(
        lambda: redis.command("CONFIG", "SET", "maxmemory", int(info(site, "memory")["used_memory"]) // 2),
        lambda: redis.command("CONFIG", "SET", "maxmemory", 0),
        after,
        full,
    )
    history = outage(site, fault, after + full + tail(chaos_long), chaos_seed, "memory")
    assert info(site, "stats")["evicted_keys"] == 0
    met = [record for record in history.records if fault.met_by(record)]
    assert [record for record in met if not record.refused] == []
    if chaos_long:
        report(request, history.row("B9 memory full", figure(history, fault)))
        assert troubled_for(history, fault.ended) <= BACK


@pytest.mark.timeout(120)
def test_scripts_that_are_flushed_again_and_again_show_nobody_an_error(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    times, apart = (60, 0.5) if chaos_long else (8, 0.2)

    async def flush() -> None:
        for _ in range(times):
            await asyncio.sleep(apart)
            await asyncio.to_thread(server(site).command, "SCRIPT", "FLUSH")
            await asyncio.to_thread(server(site).command, "FUNCTION", "FLUSH")

    schedule = asks(poisson(RATE, times * apart + 0.5, Random(chaos_seed)), timeout=None, kind="flush")
    history = asyncio.run(drive_during(site, schedule, chaos_seed, flush()))
    site.check(history)
    assert history.failures() == [], history.endings()
    if chaos_long:
        longest = max(history.seconds(record) for record in history.records)
        report(request, history.row(f"B9 scripts flushed x{times}", f"longest wait {longest:.2f} s"))


@pytest.mark.timeout(120)
def test_a_script_that_holds_up_redis_for_two_seconds_costs_no_answer(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    fault = Fault(
        lambda: None, lambda: server(site).command("EVAL", HOLD_UP, 0, 2000), 3.0 if chaos_long else 0.5, 0.0
    )
    history = outage(site, fault, 10.0 if chaos_long else 3.5, chaos_seed, "script")
    if chaos_long:
        report(request, history.row("B9 a 2 s script", figure(history, fault)))
        assert troubled_for(history, fault.ended) <= AFTER_A_SCRIPT


@pytest.mark.timeout(120)
def test_a_redis_that_cannot_write_its_disk_makes_requests_be_refused_until_it_can(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    """Redis takes no writes after a snapshot that failed: here because a directory is where its file should be."""
    redis = server(site)
    in_the_way = redis.directory / "dump.rdb"
    after, full = (3.0, 5.0) if chaos_long else (0.5, 1.1)

    def snapshot(ends: str) -> None:
        redis.command("BGSAVE")
        patiently(lambda: info(site, "persistence")["rdb_last_bgsave_status"] == ends)

    def fill() -> None:
        in_the_way.mkdir()
        snapshot("err")

    def free() -> None:
        in_the_way.rmdir()
        snapshot("ok")

    fault = Fault(fill, free, after, full)
    history = outage(site, fault, after + full + tail(chaos_long), chaos_seed, "disk")
    met = [record for record in history.records if fault.met_by(record)]
    assert [record for record in met if not record.refused] == []
    if chaos_long:
        report(request, history.row("B9 disk full", figure(history, fault)))
        assert troubled_for(history, fault.ended) <= BACK
