"""The way to Redis is long, uneven and lossy: 200 ms, give or take 100, and every twentieth segment is lost."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from cut_line import Weather, cut_line
from history import asks, percentile, poisson
from installation import installation
from redis_faults import drive_during, one_after_another
from redis_servers import VALKEY, redis_server
from scene import report

RATE, DELAY = 40.0, 0.01
BAD = Weather(delay=0.2, jitter=0.1, loss=0.05)
SERVED = 0.999  # of all requests


@pytest.mark.timeout(300)
def test_over_a_long_and_lossy_line_practically_everybody_is_served(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    seconds = 120.0 if chaos_long else 6.0
    schedule = asks(poisson(RATE, seconds, Random(chaos_seed)), timeout=None)
    with redis_server(VALKEY) as redis, cut_line(redis.port, chaos_seed) as line:
        urls = dict.fromkeys(("gateway", "batcher", "worker"), line.url)
        line.turn(BAD)
        with installation(tmp_path, delay=DELAY, long=chaos_long, redis=redis, urls=urls) as site:
            history = asyncio.run(drive_during(site, schedule, chaos_seed, one_after_another([])))
            waits = [history.seconds(record) for record in history.records]
            print(history.row("B6", f"{percentile(waits, 0.5):.2f} {percentile(waits, 0.99):.2f} {history.endings()}"))
            site.check(history)
    assert history.ok >= SERVED * len(history.records), history.endings()
