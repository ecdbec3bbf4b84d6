"""Kill -9 of a worker in the middle of a batch, again and again."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from history import asks, like, percentile, poisson
from open_loop import drive
from scene import Scene, report, scene

BATCH, WORKERS, DELAY = 8, 3, 0.1


def killer(stage: Scene, random: Random) -> Callable[[], None]:
    def kill_one_at_work() -> None:
        working = [e.pid for e in stage.journal.executions() if e.ended is None]
        alive = [pid for pid in working if Path(f"/proc/{pid}").exists()]
        if alive:
            os.kill(random.choice(alive), signal.SIGKILL)

    return kill_one_at_work


@pytest.mark.timeout(300)
def test_workers_killed_in_the_middle_of_a_batch_cost_no_answer(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    kills, apart = (20, 2.0) if chaos_long else (3, 1.0)
    schedule = asks(poisson(100.0, (kills + 1) * apart, random), timeout=None)
    with scene(
        tmp_path,
        "--max-batch",
        str(BATCH),
        long=chaos_long,
        workers=WORKERS,
        delay=DELAY,
        warm_up=like(schedule),
    ) as stage:
        kill = killer(stage, random)
        faults = {apart * (number + 0.5): kill for number in range(kills)}
        history = asyncio.run(drive(stage.server.url, schedule, chaos_seed, faults))
        stage.check(history)
        broken = [execution for execution in stage.journal.executions() if execution.ended is None]

    assert broken, "nobody was killed at work"
    assert history.failures() == [], history.endings()
    if chaos_long:
        touched = {text for execution in broken for text in execution.inputs}
        waits = [history.seconds(record) for record in history.records if record.ask.input in touched]
        p99 = percentile(waits, 0.99)
        report(
            request, history.row("A1 worker killed x20", f"{len(broken)} batches, affected p99 {p99:.2f} s")
        )
        assert p99 <= 1.5 + DELAY
