"""The parts of the measurement, in the order in which they are run for one model. The command (`__main__.py`) calls
`play`.

A part that fails says so and loses nothing of the others. All stop when the time that was given is over.
"""

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cores import pinned
from benchmarks.figure import Say, number
from benchmarks.gpu.contenders import CONTENDERS, DEFAULT, TARGET, Contender, cold, crowd, model_flags
from benchmarks.gpu.field import ROOT, Running, stamps_of, variables
from benchmarks.gpu.field import field as up_at_once
from benchmarks.gpu.loads import Result, closed, opened
from benchmarks.gpu.settings import Settings
from benchmarks.installation import Layout, installation

ALONE, CLOSED, OPEN, COLD, TWO, REDIS = "alone", "closed", "open", "cold", "two", "redis"
PARTS = (ALONE, CLOSED, OPEN, TWO, COLD, REDIS)
ALONE_SECONDS = 150.0  # at most, with the loading of a model from a cold disk
REDIS_LOAD = 90.0  # percent
HOPELESS = 1.02  # times what a server took in the closed loop: more is not offered to it


@dataclass(slots=True)
class Plan:
    """What is to be measured, and how."""

    parts: Sequence[str]
    contenders: Sequence[Contender]
    loads: Sequence[float]
    cold_loads: Sequence[float]
    seconds: float
    cold_seconds: float
    generators: int
    workers: int  # on one GPU, in the part of several
    give_up: float  # when no measurement is begun any more
    folder: Path  # of the stamps
    journal: Path  # each result is added to it as it is known
    say: Say
    servers: set[int] | None = None  # their cores
    clients: set[int] | None = None  # the generators'

    @property
    def over(self) -> bool:
        return time.monotonic() > self.give_up


@dataclass(slots=True)
class Findings:
    """What is known of one model."""

    settings: Settings
    alone: dict[str, Any] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def of(self, part: str) -> list[Result]:
        return [result for result in self.results if result.part == part]

    def rate(self, contender: str) -> float | None:
        """What it took in the closed loop."""
        rates = [each.rate for each in self.results if each.contender == contender and each.load is None]
        return rates[0] if rates else None


def play(plan: Plan, settings: Settings) -> Findings:
    found = Findings(settings)
    plan.say(f"\n{settings.shape.title}")
    alone(plan, found)
    if not found.alone:
        return found
    with _surviving(plan, found, "servers that are warm"):
        _warm(plan, found)
    with _surviving(plan, found, COLD):
        _cold(plan, found)
    with _surviving(plan, found, REDIS):
        _redis(plan, found)
    return found


def alone(plan: Plan, found: Findings) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu.alone", f"{plan.seconds:g}"]
    environment = {**os.environ, **found.settings.environment()}
    with _surviving(plan, found, ALONE), pinned(plan.servers):
        finished = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=ALONE_SECONDS, check=False
        )  # fmt: skip
        if finished.returncode:
            raise RuntimeError(finished.stderr.strip()[-2000:] or f"it ended with {finished.returncode}")
        found.alone = json.loads(finished.stdout.splitlines()[-1])
        _note(plan, {"part": ALONE, "model": found.settings.model, **found.alone})
        for each in found.alone["sizes"]:
            plan.say(
                f"  alone, {each['size']:>4}: first {number(each['first_ms'])} ms, "
                f"then {number(each['mean_ms'])} ms, {each['rate']:,.0f}/s"
            )
        plan.say(
            f"  alone, best: {found.alone['best_size']} at {found.alone['best_rate']:,.0f}/s; a new size "
            f"{'/'.join(number(each) for each in found.alone['new_size_ms'])} ms; two sizes in turns "
            f"{found.alone['alternating']:.2f} × as long as each by itself"
        )


def _warm(plan: Plan, found: Findings) -> None:
    """Closed loop, open loop and several workers, of servers that have run every size."""
    crowds = [crowd(CONTENDERS[name], plan.workers) for name in (DEFAULT, "powers")]
    wanted = [
        *(plan.contenders if CLOSED in plan.parts or OPEN in plan.parts else []),
        *(crowds if TWO in plan.parts else []),
    ]
    if not wanted:
        return
    with _up(plan, found, wanted) as running:
        crowded = {each.name for each in crowds}
        own = [each for each in running if each.contender.name not in crowded]
        many = [each for each in running if each.contender.name in crowded]
        if CLOSED in plan.parts:
            _closed(plan, found, CLOSED, own)
        if TWO in plan.parts:
            _closed(plan, found, TWO, many)
        if OPEN in plan.parts:
            _open(plan, found, OPEN, own, plan.loads)
        if TWO in plan.parts:
            _open(plan, found, TWO, many, [max(plan.loads)])


def _cold(plan: Plan, found: Findings) -> None:
    """A schedule that begins as soon as a server is ready, with what it has learned by then. One load for each."""
    if COLD not in plan.parts:
        return
    for load in plan.cold_loads:  # a server is cold once
        if plan.over:
            found.notes.append(f"Left out, since the time was over: {COLD}, {load:g} %.")
            continue
        with _up(plan, found, [cold(each) for each in plan.contenders]) as running:
            _open(plan, found, COLD, running, [load], seconds=plan.cold_seconds, warm_up=0.0)


def _redis(plan: Plan, found: Findings) -> None:
    if REDIS not in plan.parts:
        return
    for name in (DEFAULT, "powers"):
        if plan.over:
            found.notes.append(f"Left out, since the time was over: {REDIS}, {name}.")
            continue
        contender = replace(
            CONTENDERS[name], name=f"{name}-redis", title=f"{CONTENDERS[name].title}, over Redis"
        )
        stamps = stamps_of(_folder(plan, found), contender)
        layout = Layout(
            TARGET,
            flags=model_flags(contender, found.settings),
            settings=variables(contender, found.settings, stamps),
        )
        with _surviving(plan, found, contender.title), ExitStack() as held:
            with pinned(plan.servers):
                up = held.enter_context(installation(layout))
            running = Running(
                contender,
                [f"{url}/v1/inference" for url in up.urls],
                [each.admin for each in up.batchers],
                stamps,
            )
            _closed(plan, found, REDIS, [running])
            _open(plan, found, REDIS, [running], [REDIS_LOAD])


def _closed(plan: Plan, found: Findings, part: str, running: Sequence[Running]) -> None:
    for each in running:
        _measured(
            plan,
            found,
            f"{part}, {each.contender.title}",
            partial(closed, part, each, found.settings, plan.seconds, plan.generators),
        )


def _open(
    plan: Plan,
    found: Findings,
    part: str,
    running: Sequence[Running],
    loads: Sequence[float],
    seconds: float | None = None,
    warm_up: float = 1.0,
) -> None:
    best = found.alone["best_rate"]
    for load in loads:
        for each in running:
            what = f"{part}, {load:g} %, {each.contender.title}"
            most = found.rate(each.contender.name)
            if most is not None and best * load / 100 > HOPELESS * most:
                plan.say(f"  {what}: not offered, since it took {most:,.0f}/s in the closed loop")
                continue
            _measured(
                plan,
                found,
                what,
                partial(
                    opened,
                    part,
                    each,
                    found.settings,
                    load,
                    best,
                    seconds or plan.seconds,
                    plan.generators,
                    warm_up,
                ),
            )


def _measured(plan: Plan, found: Findings, what: str, measure: Callable[[], Result]) -> None:
    if plan.over:
        found.notes.append(f"Left out, since the time was over: {what}.")
        plan.say(f"  {what}: no time left")
        return
    with _surviving(plan, found, what):
        with pinned(plan.clients):
            result = measure()
        found.results.append(result)
        _note(plan, result.as_data)
        plan.say(f"  {what}: {_in_words(result)}")


def _in_words(result: Result) -> str:
    parts = [f"{result.rate:,.0f}/s"]
    if (got := result.measured) is not None:
        parts.append(f"mean {number(got.mean)}, p95 {number(got.p95)}, p99 {number(got.p99)} ms")
        parts.append(f"late {number(got.lateness_p99)}")
    if (did := result.busy) is not None:
        parts.append(
            f"batch {number(did.size)}, {number(did.inside)} ms inside, gap {number(did.gap)} ms, "
            f"busy {did.share:.1%}"
        )
    if result.errors:
        parts.append(f"{result.errors:,} errors")
    return "; ".join(parts)


@contextmanager
def _up(plan: Plan, found: Findings, contenders: Sequence[Contender]) -> Iterator[list[Running]]:
    with ExitStack() as held:
        with pinned(plan.servers):
            running = held.enter_context(
                up_at_once(contenders, found.settings, _folder(plan, found), plan.say)
            )
        yield running


def _folder(plan: Plan, found: Findings) -> Path:
    """A new one each time, so that the stamps of one server are not taken for those of another."""
    folder = plan.folder / f"{found.settings.model}-{len(list(plan.folder.iterdir()))}"
    folder.mkdir()
    return folder


@contextmanager
def _surviving(plan: Plan, found: Findings, what: str) -> Iterator[None]:
    """Whatever goes wrong is told and noted, and the rest goes on."""
    try:
        yield
    except Exception as error:
        found.notes.append(f"Failed: {what}: {type(error).__name__}: {str(error)[-300:]}.")
        plan.say(f"  {what}: failed\n{traceback.format_exc()}")


def _note(plan: Plan, data: dict[str, Any]) -> None:
    with plan.journal.open("a", encoding="utf-8") as file:
        file.write(json.dumps(data) + "\n")
