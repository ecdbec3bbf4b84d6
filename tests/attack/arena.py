"""Puts a victim and an attacker on a server, and judges: calm, attack, after.

A server is kept for all the attacks that want the same stage, and its calm is measured once.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from aim import Attack, Withstands
from history import Ask, History
from open_loop import drive
from places import ATTACKER, VICTIM, Place, opened
from scene import report
from server import HUNG
from stage import Stage
from still_store import standing_still
from verdict import Memory, Phase, Verdict, allowed

RATE = 100.0  # requests a second of the victim
CALM, AFTER = 2.0, 0.5  # seconds of the short form
LONG_CALM, LONG_AFTER = 5.0, 5.0
LOOK = 0.1  # seconds between two looks at the memory
PROBE = 0.5  # seconds between two looks whether it is alive
ENDS_WITHIN = 20.0  # seconds in which an attacker that was told to stop is gone
RECOVERS_WITHIN = 30.0  # seconds in which the memory is back: longer than a time-out of the edge

T = TypeVar("T")


def steady(seconds: float) -> list[Ask]:
    return [Ask(n / RATE, f"good:{n}", client=VICTIM, told=False) for n in range(int(seconds * RATE))]


class Arena:
    def __init__(self, long: bool) -> None:
        self._long = long
        self._places: dict[Stage, tuple[ExitStack, Place, Phase]] = {}

    def withstands(self, attack: Attack) -> Verdict:
        """The short form does not judge latency: on a busy machine it tells of the machine. The long form does."""
        verdict = self.judge(attack)
        if self._long and verdict.only_late:  # perhaps the machine was busy: who is late twice is slow
            self._close(attack.stage)
            verdict = self.judge(attack)
        found = verdict.faults if self._long else verdict.faults_but_latency
        if found:
            self._close(attack.stage)  # what it was left with is not the next attack's
        assert not found, f"{attack.says} {'; '.join(found)}\n{verdict}"
        return verdict

    def judge(self, attack: Attack) -> Verdict:
        _, place, calm = self._open(attack.stage)
        seconds, after = (attack.long_seconds, LONG_AFTER) if self._long else (attack.seconds, AFTER)
        before, logged = place.memory(), len(place.log())
        with (
            attacker(attack, place, self._long) as sent,
            watching(place.memory, LOOK) as seen,
            watching(place.alive, PROBE) as probed,
        ):
            faults = {0.0: sent.begin, seconds: sent.end}
            with standing_still(place.redis_url) as still:
                history = self._drive(place, seconds + after, faults)
            history.stalls += still
        end = time.monotonic() + RECOVERS_WITHIN
        while (left := place.memory()) > allowed(before) + attack.keeps and time.monotonic() < end:
            time.sleep(LOOK)
        return Verdict(
            attack.name, str(attack.stage), calm,
            Phase.of(history, 0.0, seconds), Phase.of(history, seconds, seconds + after),
            Memory(before, max(seen), left, attack.keeps),
            probed.count(False), place.log()[logged:], sent.tally, sent.cpu,
        )  # fmt: skip

    def place(self, stage: Stage) -> Place:
        """The server itself, for what else a test wants to know of it."""
        return self._open(stage)[1]

    def _open(self, stage: Stage) -> tuple[ExitStack, Place, Phase]:
        if stage not in self._places:
            stack = ExitStack()
            place = stack.enter_context(opened(stage))
            seconds = LONG_CALM if self._long else CALM
            self._drive(place, 0.5, {})  # the first requests meet code for the first time
            calm = Phase.of(self._drive(place, seconds, {}), 0.0, seconds)
            assert not calm.failures, f"the victim is not served even in calm: {calm.failures[0]}"
            self._places[stage] = stack, place, calm
        return self._places[stage]

    def _close(self, stage: Stage) -> None:
        self._places.pop(stage)[0].close()

    def close(self) -> None:
        for stage in list(self._places):
            self._close(stage)

    def _drive(self, place: Place, seconds: float, faults: Mapping[float, Callable[[], object]]) -> History:
        asks = steady(seconds)
        return asyncio.run(drive(place.url, asks, 0, faults, keys=place.keys, tls=place.tls))


class Attacker:
    """The process that runs an attack."""

    def __init__(self, attack: Attack, process: "subprocess.Popen[str]") -> None:
        self._attack = attack
        self._process = process
        self.tally: dict[str, int] = {}
        self.cpu = 0.0

    def begin(self) -> None:
        self._say("go")

    def end(self) -> None:
        self._say("stop")

    def finish(self) -> None:
        try:
            said, _ = self._process.communicate(timeout=ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        assert self._process.returncode == 0, f"the attack {self._attack.name} failed by itself"
        told = json.loads(said)
        self.tally, self.cpu = told["tally"], told["cpu"]

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has failed, which `finish` tells


@contextmanager
def attacker(attack: Attack, place: Place, long: bool) -> Iterator[Attacker]:
    """Ready to begin; ended with the block."""
    aim = {
        "url": place.url, "admin_url": place.admin_url, "key": place.keys.get(ATTACKER), "long": long,
        "authority": str(place.authority) if place.authority else None, "redis_url": place.redis_url,
        "grpc": place.grpc,
    }  # fmt: skip
    command = [
        sys.executable,
        str(Path(__file__).with_name("attacker.py")),
        attack.send.__module__,
        attack.name,
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(aim) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "ready\n", f"the attack {attack.name} could not begin"
            sent = Attacker(attack, process)
            yield sent
            sent.finish()
        finally:
            if process.poll() is None:
                process.kill()


@contextmanager
def watching(look: Callable[[], T], every: float) -> Iterator[list[T]]:
    """What each of many looks has seen while the block runs."""
    seen, over = [look()], threading.Event()

    def watch() -> None:
        while not over.wait(every):
            seen.append(look())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(HUNG)


@pytest.fixture(scope="session")
def arena(request: pytest.FixtureRequest) -> Iterator[Arena]:
    arena = Arena(bool(request.config.getoption("--chaos-long")))
    try:
        yield arena
    finally:
        arena.close()


@pytest.fixture
def withstands(arena: Arena, request: pytest.FixtureRequest) -> Withstands:
    def judged(attack: Attack) -> Verdict:
        verdict = arena.withstands(attack)
        if request.config.getoption("--chaos-long"):
            report(request, str(verdict))
        return verdict

    return judged
