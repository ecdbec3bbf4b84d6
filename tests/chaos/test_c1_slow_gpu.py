"""The GPU becomes ten times slower under load."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from history import asks, like, percentile, poisson
from open_loop import drive
from scene import report, scene

WORKERS, BATCH, QUICK, SLOW = 2, 8, 0.04, 0.4
CAPACITY_WHEN_SLOW = WORKERS * BATCH / SLOW  # 40 a second
LEARNING = 2.0  # seconds in which it cannot know yet
RATE = 0.6 * WORKERS * BATCH / QUICK


@pytest.mark.timeout(300)
def test_a_gpu_ten_times_slower_is_kept_fed_and_what_it_cannot_serve_is_refused_at_once(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    before, slow = (10.0, 40.0) if chaos_long else (1.5, 5.0)
    # Five batches of the slow GPU: at the default, 4 s, its queue would take all of the short form to fill.
    schedule = asks(poisson(RATE, before + slow, Random(chaos_seed)), timeout=2.0)
    with scene(
        tmp_path, "--max-batch", str(BATCH),
        long=chaos_long, workers=WORKERS, delay=SLOW if chaos_long else QUICK, warm_up=like(schedule),
    ) as stage:  # fmt: skip
        stage.set_delay(QUICK)
        slowing = {before: lambda: stage.set_delay(SLOW)}
        history = asyncio.run(drive(stage.server.url, schedule, chaos_seed, slowing))
        stage.check(history)

    fault = history.began + before
    learned = fault + LEARNING
    good = sum(record.ok for record in history.records if learned < record.done < fault + slow)
    share = good / (slow - LEARNING) / CAPACITY_WHEN_SLOW
    stalled = history.stalled(learned, fault + slow) / (slow - LEARNING)  # time in which nobody got to work
    assert share > 0.5 * (1.0 - stalled), f"{share:.0%}, stalled for {stalled:.0%}: {history.endings()}"
    assert {record.status for record in history.records} <= {200, 503, 504}, history.endings()
    if chaos_long:
        excess = [record for record in history.records if record.sent > learned and not record.ok]
        refusals = [history.seconds(record) for record in excess if record.refused]
        p99, at_once = percentile(refusals, 0.99), len(refusals) / len(excess)
        figure = (
            f"goodput {share:.1%} of capacity, {at_once:.1%} of the excess refused, p99 {p99 * 1e3:.1f} ms"
        )
        report(request, history.row("C1 GPU 10x slower", figure))
        assert share >= 0.9
        assert at_once >= 0.9
        assert p99 <= 0.02
