"""CHAOS C1: the GPU becomes ten times slower under load."""

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
    schedule = asks(poisson(RATE, before + slow, Random(chaos_seed)), timeout=2.0)
    with scene(
        tmp_path,
        "--max-batch",
        str(BATCH),
        long=chaos_long,
        workers=WORKERS,
        delay=QUICK,
        warm_up=like(schedule),
    ) as stage:
        slowing = {before: lambda: stage.set_delay(SLOW)}
        history = asyncio.run(drive(stage.server.url, schedule, chaos_seed, slowing))
        stage.check(history)

    fault = history.began + before
    learned = fault + LEARNING
    good = sum(record.ok for record in history.records if learned < record.done < fault + slow)
    share = good / (slow - LEARNING) / CAPACITY_WHEN_SLOW
    refusals = [history.seconds(r) for r in history.records if r.refused and r.sent > learned]
    assert refusals
    assert share > 0.5
    if chaos_long:
        figure = f"goodput {share:.1%} of capacity, refusals p99 {percentile(refusals, 0.99) * 1e3:.1f} ms"
        report(request, history.row("C1 GPU 10x slower", figure))
        assert share >= 0.9
        assert percentile(refusals, 0.99) <= 0.02
