"""The wall clocks of the roles are hours apart, and are set while requests wait."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from history import Ask, History, poisson
from installation import ROLES, Installation, Member, installation
from redis_faults import drive_during
from scene import report, write_delay

HOUR, STEP = 3600.0, 5.0
OFF = {"gateway": HOUR, "batcher": -HOUR, "worker": 0.0}
SET = {"gateway": HOUR - STEP, "batcher": STEP - HOUR, "worker": STEP}  # by a step, in the middle
HERE = Path(__file__).parent
RATE, DELAY = 60.0, 0.02
STILL = 1.5  # seconds
GIVES_UP, OUTLIVES = 1.0, 20.0  # seconds that clients wait: to tell early from late, one must be well apart
PROCESSING = (
    0.5  # seconds before the deadline from which on there is no point in sending it, by what was learned
)
UNITS = (1.0, 1e3, 1e6, 1e9)  # in which a time of the day may be told
DAY = 86400.0
EVERY = 0.05


def prefixes(folder: Path) -> Mapping[str, list[str]]:
    path = f"PYTHONPATH={HERE / 'shifted_clock'}"
    return {role: ["env", f"CHAOS_CLOCK={folder / role}", path] for role in ROLES}


def set_clocks(folder: Path, seconds: Mapping[str, float]) -> None:
    for role in ROLES:
        write_delay(folder / role, seconds[role])


def numbers(value: object) -> Iterator[float]:
    if isinstance(value, float | int):
        yield float(value)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from numbers(each)


class Listener:
    """Reads along what the processes say to each other."""

    def __init__(self, site: Installation) -> None:
        self._site = site
        self._streams = [site.key(f"s{shard}", ":requests") for shard in range(16)]
        self._streams += [site.key(f"box:{member.health()['name']}") for member in site.members]
        self.heard = 0
        self.times: list[float] = []  # of the day, found in messages

    async def go_on(self) -> None:
        while True:
            await asyncio.to_thread(self.listen)
            await asyncio.sleep(EVERY)

    def listen(self) -> None:
        client: Any = self._site.client
        for stream in self._streams:
            for _, fields in client.xrange(stream):
                for payload in fields.values():
                    if payload:  # the greeting that makes a mailbox is empty
                        self._note(msgspec.msgpack.decode(payload[1:]))
        for kind in ("gateways", "batchers", "workers"):
            for text in client.hvals(self._site.key("reg", f":{kind}")):
                self._note(json.loads(text.partition(b" ")[2]))  # before it stands Redis's own time

    def _note(self, message: object) -> None:
        self.heard += 1
        now = time.time()
        self.times += [
            number for number in numbers(message) if any(abs(number / unit - now) < DAY for unit in UNITS)
        ]


class Story:
    """Again and again the worker stands still, the clocks are set while all wait for it, and it goes on."""

    def __init__(self, site: Installation, folder: Path) -> None:
        self._folder = folder
        self._worker = site.workers[0]
        self.still: list[tuple[float, float]] = []  # since when, until when

    async def unfold(self, rounds: int, apart: float) -> None:
        for turn in range(rounds):
            await asyncio.sleep(apart)
            since, slots = time.monotonic(), self._worker.children()
            self._signal(slots, signal.SIGSTOP)
            await asyncio.sleep(STILL / 2)
            set_clocks(self._folder, (SET, OFF)[turn % 2])
            await asyncio.sleep(STILL / 2)
            self.still.append((since, time.monotonic()))
            self._signal(slots, signal.SIGCONT)

    def _signal(self, slots: Iterable[int], number: int) -> None:
        for pid in slots:
            with suppress(
                ProcessLookupError
            ):  # one that stood still for longer than its batch may run was killed
                os.kill(pid, number)


@pytest.mark.timeout(300)
def test_wall_clocks_hours_apart_and_set_meanwhile_expire_nothing_early_and_keep_nothing_late(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    rounds, apart = (9, 5.0) if chaos_long else (1, 1.0)
    random = Random(chaos_seed)
    dues = poisson(RATE, rounds * (apart + STILL) + 1.5, random)
    schedule = [
        Ask(due, f"e1:{number}", GIVES_UP if random.random() < 0.5 else OUTLIVES)
        for number, due in enumerate(dues)
    ]
    set_clocks(tmp_path, OFF)
    with installation(
        tmp_path,
        gateways=1,
        batchers=1,
        workers=1,
        slots=1,
        delay=DELAY,
        prefix=prefixes(tmp_path),
        long=chaos_long,
    ) as site:
        listener, story = Listener(site), Story(site, tmp_path)

        async def listened() -> History:
            listening = asyncio.create_task(listener.go_on())
            history = await drive_during(site, schedule, chaos_seed, story.unfold(rounds, apart))
            assert not listening.done(), listening.exception()
            listening.cancel()
            return history

        history = asyncio.run(listened())
        site.check(history)
        begun = site.journal.first_begun()
        for member in site.members:
            told = time.time()
            assert member.stop() == 0
            assert_off(member, ((OFF, SET)[rounds % 2])[member.role], told)

    # What ends while the worker stands still ends by the clock; afterwards, also because it has become slow.
    expired = [
        record
        for record in history.records
        if record.status == 504 and any(since < record.done < until for since, until in story.still)
    ]
    assert expired
    early = [record for record in expired if record.done - record.sent < record.ask.timeout - PROCESSING]
    assert early == []
    # A batch that was sent in time may find that the worker stands still.
    late = [
        record
        for record in history.records
        if begun.get(record.ask.input, 0.0) > record.sent + record.ask.timeout + STILL + site.grace
    ]
    assert late == []
    # A standstill may outlast the limit of a batch. Then the only worker is started anew, and nobody can be served.
    first_still = story.still[0][0]
    patient = [
        record
        for record in history.records
        if record.ask.timeout == OUTLIVES and not (record.refused and record.sent > first_still)
    ]
    assert history.failures(patient) == [], history.endings()
    assert listener.heard > 50
    assert listener.times == []
    if chaos_long:
        figure = f"expired {len(expired)}, too early {len(early)}, executed too late {len(late)}"
        report(
            request, history.row(f"E1 clocks +-1 h, set by 5 s x{rounds}", f"{figure} | {history.endings()}")
        )


def assert_off(member: Member, seconds: float, told: float) -> None:
    """Its last log line, written after it was told to stop, tells the time it believed in."""
    written = member.log().splitlines()[-1]
    believed = datetime.fromisoformat(json.loads(written)["time"]).timestamp()
    assert told - STEP / 2 < believed - seconds < time.time() + STEP / 2, written
