"""Redis is killed and comes back with its log."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from history import History, asks, like, percentile, poisson
from installation import Installation, installation
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
AOF = ("--appendonly", "yes")
QUICK, BACK = 0.1, 2.0  # seconds: a refusal, and service after Redis


@pytest.mark.timeout(300)
def test_while_redis_is_dead_everyone_lives_and_refuses_and_after_it_everyone_serves(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    times, after, away = (5, 5.0, 5.0) if chaos_long else (1, 0.7, 1.2)
    seconds = times * (after + away + 0.3) + (3.0 if chaos_long else 1.0)
    schedule = asks(poisson(RATE, seconds, Random(chaos_seed)), timeout=None)
    with installation(
        tmp_path,
        slots=1,
        delay=DELAY,
        redis_options=AOF,
        long=chaos_long,
        gateways=some(chaos_long),
        workers=some(chaos_long),
    ) as site:
        redis = site.redis
        assert isinstance(redis, Server)
        if chaos_long:
            first = Fault(redis.kill, redis.start, 3.0, 3.0)  # its memory has grown once it has met one
            asyncio.run(drive_during(site, like(schedule), chaos_seed, first.happen()))
            site.settle()
        faults = [Fault(redis.kill, redis.start, after, away) for _ in range(times)]

        async def story() -> tuple[History, Pulse]:
            async with feeling(site.members) as pulse:
                told = await drive_during(site, schedule, chaos_seed, one_after_another(faults))
            return told, pulse

        history, pulse = asyncio.run(story())
        wait_until_served(site)
        site.check(history)
        _check_that_nobody_gave_up(site)

    assert pulse.statuses == {200}
    check_that_only_waiting_ends_in_504(history)
    in_time = {record.status for record in history.records} - {504}
    assert in_time == {200, 503}, history.endings()
    met = [record for record in history.records if any(fault.met_by(record) for fault in faults)]
    assert met
    assert [record for record in met if not record.refused] == []
    if chaos_long:
        waits = [history.seconds(record) for record in met]
        back = slowest_recovery(history, faults)
        p99 = percentile(waits, 0.99)
        figure = (
            f"refused in {p99 * 1e3:.0f} ms (p99; longest {max(waits) * 1e3:.0f}), back after {back:.2f} s"
        )
        report(request, history.row(f"B1 Redis killed x{times}", f"{figure} | {history.endings()}"))
        assert p99 <= QUICK
        assert back <= BACK


def _check_that_nobody_gave_up(site: Installation) -> None:
    """No crash, and no crash loop: the same processes, with the loops they began with."""
    for member in site.members:
        assert member.alive, member.log()
        assert "Traceback" not in member.log(), member.log()
