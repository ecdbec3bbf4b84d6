"""Told to stop under load, it finishes what it has accepted; told twice, it stops."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from history import History, asks, poisson
from open_loop import drive
from scene import Scene, report, scene
from server import eventually

BATCH, WORKERS, DELAY = 8, 2, 0.1
# Nothing but the second signal may end it.
FOR_EVER = "[server]\ndrain = '200s'\n[timeouts]\nqueue = '200s'\nprocessing = '200s'\nmax_client = '200s'\n"


def drive_and_signal(stage: Scene, seed: int, at: float, send: Callable[[], object]) -> History:
    """Load that goes on past the signal, for new clients must not keep it from ending."""
    # Longer than the default, so that it is the drain that decides what is answered, on a slow machine too.
    schedule = asks(poisson(90.0, at + 1.0, Random(seed)), timeout=20.0)
    return asyncio.run(drive(stage.server.url, schedule, seed, {at: send}))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_under_load_it_answers_everything_it_has_accepted_and_exits_with_0(
    number: signal.Signals, tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    options = "--max-batch", str(BATCH)
    with scene(tmp_path, *options, long=chaos_long, workers=WORKERS, delay=DELAY) as stage:
        process = stage.server.process
        told = 10.0 if chaos_long else 1.5
        history = drive_and_signal(stage, chaos_seed, told, lambda: process.send_signal(number))
        assert process.wait(60) == 0
        executed = stage.journal.first_begun()

    closed_on = [record for record in history.records if not record.status]
    for record in closed_on:  # a connection closed without an answer had nothing accepted on it
        assert record.sent > history.began + told or record.unsent, record
        assert record.ask.input not in executed, record
        record.unsent = True
    history.check(stage.grace)
    assert history.ok > 0
    assert {record.status for record in history.records} <= {0, 200, 503}, history.endings()
    if chaos_long:
        report(request, history.row(f"E7 {number.name} under load", history.endings()))


@pytest.mark.timeout(300)
def test_told_twice_it_stops_although_somebody_still_waits(tmp_path: Path, chaos_seed: int) -> None:
    with scene(tmp_path, long=False, config=FOR_EVER) as stage:
        process = stage.server.process
        stage.set_delay(3600.0)

        async def body() -> int:
            waiting = asyncio.create_task(drive(stage.server.url, asks([0.0], timeout=200.0), chaos_seed))
            begun = partial(eventually, lambda: "good:0" in stage.journal.first_begun(), 60.0)
            await asyncio.to_thread(begun)
            process.send_signal(signal.SIGINT)
            draining = partial(eventually, lambda: stage.server.health()["draining"], 60.0)
            await asyncio.to_thread(draining)
            process.send_signal(signal.SIGINT)
            code = await asyncio.to_thread(process.wait, 60)  # long before the client's own 200 s
            await waiting
            return code

        assert asyncio.run(body()) == 0
