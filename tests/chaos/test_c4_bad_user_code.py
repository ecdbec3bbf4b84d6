"""User code blocks, leaks, segfaults, exits; the server stays up, and so do the others' answers."""

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from history import Ask, History, asks, like, percentile, poisson
from open_loop import drive
from scene import Scene, milliseconds, report, sampling, scene, watching_deaths
from server import eventually

BATCH, WORKERS = 8, 3
LIMIT = 1.0  # seconds of a quick function's batch, at the defaults
# Workers that die are started anew, several in a row, which on a slow machine takes longer than the default allows.
PATIENCE = 45.0
BLOCKS, DEATHS, LEAK = ("spin", "sleep", "hold"), ("segfault", "exit", "kill"), "leak"


def load(kinds: tuple[str, ...], seconds: float, seed: int, patience: float | None = None) -> list[Ask]:
    random = Random(seed)
    good = asks(poisson(60.0, seconds, random), timeout=patience)
    bad = [
        replace(good[0], due=seconds * (0.1 + 0.8 * place / len(kinds)), input=f"{kind}:0")
        for place, kind in enumerate(random.sample(kinds, len(kinds)))
    ]
    return bad + good


async def drive_and_look(
    stage: Scene, schedule: list[Ask], seed: int
) -> tuple[History, list[float], dict[int, float]]:
    def alive() -> None:
        assert stage.server.admin("/livez").status == 200

    async with sampling(alive) as looks, watching_deaths(stage.journal) as died:
        history = await drive(stage.server.url, schedule, seed)
    return history, looks, died


@pytest.mark.timeout(400)
def test_user_code_that_hangs_is_killed_and_takes_nobody_with_it_at_the_defaults(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    schedule = load(BLOCKS, 30.0 if chaos_long else 9.0, chaos_seed)
    with scene(
        tmp_path,
        long=chaos_long,
        workers=WORKERS,
        delay=0.02,
        warm_up=like(schedule),
    ) as stage:
        history, looks, died = asyncio.run(drive_and_look(stage, schedule, chaos_seed))
        stage.check(history)
        blocked = [execution for execution in stage.journal.executions() if execution.ended is None]
        eventually(lambda: not any(Path(f"/proc/{execution.pid}").exists() for execution in blocked), 60.0)

    assert history.failures(history.of_kind("good")) == [], history.endings()
    assert {record.status for record in history.of_kind(*BLOCKS)} == {504}, history.endings()
    assert len(blocked) >= len(BLOCKS)
    if chaos_long:
        kills = [died[execution.pid] - execution.begun for execution in blocked]
        figure = f"/livez {milliseconds(looks, 0.99)}, {len(kills)} killed, the last after {max(kills):.2f} s"
        report(request, history.row("C4 user code blocks", figure))
        assert percentile(looks, 0.99) < 0.1
        assert max(kills) <= LIMIT + 1.0


@pytest.mark.timeout(400)
def test_user_code_that_dies_or_eats_all_memory_costs_only_its_own_request(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    config = "[models.batchstring]\nmemory_limit = '512MiB'\n"
    schedule = load((*DEATHS, LEAK), 30.0 if chaos_long else 4.0, chaos_seed, PATIENCE)
    with scene(
        tmp_path,
        "--max-batch",
        str(BATCH),
        long=chaos_long,
        config=config,
        workers=WORKERS,
        delay=0.02,
        warm_up=like(schedule),
    ) as stage:
        history, looks, _ = asyncio.run(drive_and_look(stage, schedule, chaos_seed))
        stage.check(history)

    assert [record for record in history.of_kind("good") if not record.ok] == [], history.endings()
    assert {record.status for record in history.of_kind(*DEATHS)} == {502}, history.endings()
    # On a busy machine the time of its batch is over before the memory is.
    assert {record.status for record in history.of_kind(LEAK)} <= {502, 504}, history.endings()
    if chaos_long:
        figure = f"/livez {milliseconds(looks, 0.99)}"
        report(request, history.row("C4 user code dies or leaks", figure))
        assert percentile(looks, 0.99) < 0.1
