"""The endpoint answers 500, garbage, n ± 1 outputs, breaks off, hangs, trickles; then it is well."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from random import Random

import pytest

from endpoints import BROKEN, ENDLESS, Handle, endpoint
from history import Ask, Execution, History, asks, poisson
from open_loop import drive
from scene import Scene, report, scene
from server import eventually

TIMEOUT = 0.5  # seconds of a batch: the default is 3, and every manner of breaking waits for it several times
SICK = "resting", "offline"  # a worker that takes nothing: its breaker is open, or it is being started anew


@contextmanager
def served_endpoint(
    folder: Path, *options: str, long: bool, config: str, workers: int = 1
) -> Iterator[tuple[Scene, Handle]]:
    warm_up = asks(poisson(100.0, 5.0, Random(0)), kind="warm")
    with (
        endpoint(folder / "journal") as fixed,
        scene(
            folder, "--max-batch", "8", *options,
            long=long, config=config, target=fixed.url, workers=workers, spare=2 * workers, warm_up=warm_up,
        ) as stage,
    ):  # fmt: skip
        yield stage, fixed


def of_manner(stage: Scene, manner: str) -> list[Execution]:
    return [each for each in stage.journal.executions() if each.inputs[0].startswith(manner)]


def all_ended(stage: Scene, manner: str) -> bool:
    return all(execution.ended is not None for execution in of_manner(stage, manner))


class Episode:
    """One manner of misbehaving, from its beginning until the endpoint is trusted again."""

    def __init__(self, stage: Scene, fixed: Handle, manner: str, seed: int) -> None:
        self._stage = stage
        self._fixed = fixed
        self._manner = manner
        self._seed = seed
        self.opened_after = 0.0
        self.closed_after = 0.0

    def run(self, seconds: float) -> History:
        self._fixed.behave(self._manner)
        began = time.monotonic()
        # Just longer than the batch that is cut: what the fault took must have ended when the endpoint is mended.
        schedule = asks(poisson(60.0, seconds, Random(self._seed)), timeout=0.6, kind=self._manner)
        history = asyncio.run(self._drive(schedule, began))
        self._fixed.behave("good")
        recovered = time.monotonic()
        eventually(self._trusted_again, 60.0)
        self.closed_after = time.monotonic() - recovered
        return history

    async def _drive(self, schedule: list[Ask], began: float) -> History:
        watch = asyncio.create_task(self._watch(began))
        history = await drive(self._stage.server.url, schedule, self._seed)
        watch.cancel()
        await asyncio.wait([watch])
        return history

    async def _watch(self, began: float) -> None:
        while not self.opened_after:
            if all(state in SICK for state in await asyncio.to_thread(self._states)):
                self.opened_after = time.monotonic() - began
            await asyncio.sleep(0.05)

    @property
    def figure(self) -> str:
        return (
            f"breaker open after {self.opened_after:.2f} s, closed {self.closed_after:.2f} s after recovery"
        )

    def check_breaker(self) -> None:
        assert 0.0 < self.opened_after <= 5.0
        assert self.closed_after <= 10.0

    def _states(self) -> list[str]:
        return [row["state"] for row in self._stage.server.admin("/internal/workers").json()]

    def _trusted_again(self) -> bool:
        """A breaker is closed by a batch that succeeds, so somebody has to ask."""
        self._stage.server.post("/v1/inference", {"input": "good:again"})
        return not any(state in SICK for state in self._states())


@pytest.mark.timeout(900)
def test_an_endpoint_that_answers_wrongly_is_rested_and_nobody_gets_a_wrong_answer(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    config, workers = ("", 2) if chaos_long else ("[retries]\nbreaker_cooldown = '50ms'\n", 1)
    with served_endpoint(tmp_path, long=chaos_long, config=config, workers=workers) as (
        stage,
        fixed,
    ):
        if chaos_long:
            for manner in BROKEN:
                Episode(stage, fixed, manner, chaos_seed).run(10.0)
            stage.settle()
        for manner in BROKEN:
            episode = Episode(stage, fixed, manner, chaos_seed)
            history = episode.run(10.0 if chaos_long else 0.4)
            stage.check(history)
            assert history.ok == 0, history.endings()
            assert all(record.status in (502, 503, 504) for record in history.records), history.endings()
            if chaos_long:
                report(request, history.row(f"C2 endpoint, {manner}", episode.figure))
                episode.check_breaker()


@pytest.mark.timeout(900)
def test_an_endpoint_that_never_ends_its_answer_is_cut_off_and_comes_back_when_it_is_well(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    config, workers = ("", 2) if chaos_long else ("[retries]\nbreaker_cooldown = '50ms'\n", 1)
    options = "--processing-timeout", f"{TIMEOUT}s"
    with served_endpoint(tmp_path, *options, long=chaos_long, config=config, workers=workers) as (
        stage,
        fixed,
    ):
        if chaos_long:
            for manner in ENDLESS:
                Episode(stage, fixed, manner, chaos_seed).run(10.0)
            stage.settle()
        for manner in ENDLESS:
            episode = Episode(stage, fixed, manner, chaos_seed)
            history = episode.run(10.0 if chaos_long else 0.4)
            stage.check(history)
            assert history.ok == 0, history.endings()
            eventually(partial(all_ended, stage, manner), 60.0)  # the endpoint hears of it last
            executions = of_manner(stage, manner)
            assert executions
            cuts = [(e.ended or 0.0) - e.begun for e in executions]
            if chaos_long:
                figure = f"{len(cuts)} cut, the last after {max(cuts) * 1e3:.0f} ms of {TIMEOUT * 1e3:.0f},"
                report(request, history.row(f"C2 endpoint, {manner}", f"{figure} {episode.figure}"))
                assert max(cuts) <= TIMEOUT + 0.1
                episode.check_breaker()


@pytest.mark.timeout(900)
def test_cancelled_batches_leave_no_connection_behind(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    wanted, workers = (1000, 8) if chaos_long else (30, 2)
    config = "[retries]\nbreaker_cooldown = '5ms'\nattempts = 1\n"
    options = "--processing-timeout", "20ms", "--max-batch", "1"  # so that hundreds are cut in a minute
    with served_endpoint(tmp_path, *options, long=chaos_long, config=config, workers=workers) as (
        stage,
        fixed,
    ):
        before = fixed.connections
        rate, random = 10.0 * workers, Random(chaos_seed)
        dues = islice(poisson(rate, inf, random), int(2.5 * wanted))
        schedule = [
            Ask(due, f"{'hang' if number % 2 else 'good'}:{number}", told=False)
            for number, due in enumerate(dues)
        ]
        history = asyncio.run(drive(stage.server.url, schedule, chaos_seed))
        stage.check(history)
        hung = [e for e in stage.journal.executions() if e.inputs[0].startswith("hang")]
        assert len(hung) >= wanted
        assert {record.status for record in history.of_kind("good")} <= {200, 503, 504}, history.endings()
        eventually(lambda: fixed.connections <= before + workers, 60.0)  # the endpoint hears of it last
    if chaos_long:
        report(request, history.row("C2 cancelled batches", f"{len(hung)} cancels, 0 connections leaked"))
