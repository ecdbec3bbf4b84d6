"""The way to Redis becomes long and uneven. In the long form it takes 200 ms ± 100 ms, and every twentieth segment
is lost."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from cut_line import FINE, Weather, cut_line
from history import asks, percentile, poisson
from installation import installation
from redis_faults import drive_during, one_after_another, some, wait_until_served
from redis_servers import VALKEY, redis_server
from scene import report

# A slot is on its way for most of a second between two batches, so they must be large enough for all that comes.
RATE, DELAY, BATCH = 20.0, 0.01, 64
UNEVEN = Weather(delay=0.05, jitter=0.025)
BAD = Weather(delay=0.2, jitter=0.1, loss=0.05)
LEARNS = (
    3.0  # seconds of load in which gateways learn how long the way has become; until then it seems broken
)
# Of all requests. A packet that is lost three times over can take a second's with it.
SERVED, SERVED_WITHOUT_LOSSES = 0.99, 1.0


@pytest.mark.timeout(600)
def test_over_a_long_and_uneven_line_everybody_is_served_and_nearly_everybody_if_it_loses_packets(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    first = asks(poisson(RATE, LEARNS, random), timeout=None, kind="first")
    schedule = asks(poisson(RATE, 300.0 if chaos_long else 4.0, random), timeout=None)
    with redis_server(VALKEY) as redis, cut_line(redis.port, chaos_seed) as line:
        urls = dict.fromkeys(("gateway", "batcher", "worker"), line.url)
        number = some(chaos_long)
        with installation(
            tmp_path, gateways=number, workers=number, max_batch=BATCH, delay=DELAY, long=chaos_long,
            redis=redis, urls=urls,
        ) as site:  # fmt: skip
            line.turn(BAD if chaos_long else UNEVEN)
            learning = asyncio.run(drive_during(site, first, chaos_seed, one_after_another([])))
            wait_until_served(site)
            history = asyncio.run(drive_during(site, schedule, chaos_seed, one_after_another([])))
            line.turn(FINE)
            wait_until_served(site)
            site.check(learning, history)

    failed = len(history.failures())
    if chaos_long:
        waits = [history.seconds(record) for record in history.records]
        figure = f"p50 {percentile(waits, 0.5):.2f} s, p99 {percentile(waits, 0.99):.2f} s, failed {failed}"
        report(request, history.row("B6 a long and lossy line", f"{figure} | {history.endings()}"))
    served = 1 - failed / len(history.records)
    assert served >= (SERVED if chaos_long else SERVED_WITHOUT_LOSSES), history.endings()
