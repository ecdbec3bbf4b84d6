"""One input kills every batch it is in; the others must not pay for it."""

import asyncio
from dataclasses import replace
from math import ceil, log2
from pathlib import Path
from random import Random

import pytest

from history import asks, like, poisson
from open_loop import drive
from scene import report, scene

BATCH, WORKERS, ATTEMPTS = 16, 3, 3
# Each crash starts a process anew, five in a row, which on a slow machine takes longer than the default allows.
PATIENCE = {"die": 40.0, "raise": None, "short": None}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["raise", "short", "die"])
def test_one_input_that_kills_its_batch_fails_alone_and_the_innocent_are_all_served(
    kind: str, tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    seconds, poisons = (30.0, 6) if chaos_long else (3.0, 1)
    schedule = asks(poisson(100.0, seconds, random), timeout=PATIENCE[kind])
    schedule += [
        replace(schedule[0], due=random.uniform(0.2, 0.8) * seconds, input=f"{kind}:{number}")
        for number in range(poisons)
    ]
    with scene(
        tmp_path, "--max-batch", str(BATCH),
        long=chaos_long, workers=WORKERS, delay=0.1, warm_up=like(schedule),
    ) as stage:  # fmt: skip
        history = asyncio.run(drive(stage.server.url, schedule, chaos_seed))
        stage.check(history)
        executions = stage.journal.executions()

    innocent, guilty = history.of_kind("good"), history.of_kind(kind)
    assert history.failures(innocent) == [], history.endings()
    assert {record.status for record in guilty} == {502}, history.endings()
    crashes = []
    for record in guilty:
        batches = [execution.inputs for execution in executions if record.ask.input in execution.inputs]
        sizes = [len(batch) for batch in batches]
        alone = sizes.index(1)
        assert alone <= ceil(log2(sizes[0])), sizes
        assert len(sizes) <= max(ATTEMPTS, ceil(log2(sizes[0])) + 1), sizes
        crashes.append(sizes)
    if chaos_long:
        report(request, history.row(f"C3 poison, {kind}", f"innocent 100 %, batches of the guilty {crashes}"))
