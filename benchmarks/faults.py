"""What a kill costs, at the default settings: statuses of all requests, and how long those that it met had to wait.

    python -m benchmarks.faults

One worker of eight, three of eight, and one of two batchers are killed again and again under 300 requests/s, once
with a supervisor that sees them die (`penstock up`) and once without. Then Redis is stopped: how soon that is told.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from random import Random

from aiohttp import ClientError, ClientSession, TCPConnector

from benchmarks import journalled
from benchmarks.fault_scene import NOTICED, Part, Scene, separate, supervised
from benchmarks.figure import Check, Figure, Say, above_zero, at_least_one, conduct, options
from benchmarks.table import markdown_table
from penstock.load.report import at_share

NAME = "faults"
ONLY = "the only batcher"
RATE = 300.0  # a second
WORKERS = 8
CALM = 5.0  # seconds before the first kill; requests that are slower later count as affected
APART = {"worker": 3.0, "batcher": 6.0}  # seconds between two kills of that role
ALONE = 12.0  # seconds, if there is only one: `penstock up` restarts a process that lived for less than 10 s later
LIMIT = 1.5 + journalled.SECONDS
# Promised: seconds from the stop of Redis to the first 503, and from its return.
FIRST_REFUSAL, BACK = 0.1, 2.0
STOPPED, WELL = 1.0, 3.0  # seconds for which Redis is stopped, and then runs


@dataclass(slots=True)
class Record:
    text: str
    sent: float
    done: float = 0.0
    status: str = "lost"

    @property
    def seconds(self) -> float:
        return self.done - self.sent


@dataclass(slots=True)
class Row:
    """What one kind of kill came to."""

    how: str
    what: str
    kills: int
    statuses: dict[str, int] = field(default_factory=dict)
    affected: int = 0
    p50: float | None = None
    p99: float | None = None
    longest: float | None = None
    calm: float = 0.0  # the longest latency before the first kill


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__)
    parser.add_argument("--kills", type=at_least_one, default=20, help="of each kind, 20 by default")
    parser.add_argument("--stops", type=at_least_one, default=10, help="of Redis, 10 by default")
    parser.add_argument("--rate", type=above_zero, default=RATE, help="requests a second")
    return parser.parse_args(argv)


class Load:
    """An open loop: each request goes out when it is due, whatever became of those before."""

    def __init__(self, url: str, rate: float) -> None:
        self._url, self._rate = f"{url}/v1/inference", rate
        self._random = Random(0)
        self._asking: set[asyncio.Task[None]] = set()
        self.records: list[Record] = []

    async def during(self, story: Callable[[], "asyncio.Future[None]"]) -> None:
        async with ClientSession(connector=TCPConnector(limit=0)) as session:
            told = story()
            due = time.monotonic()
            while not told.done():
                due += self._random.expovariate(self._rate)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                record = Record(f"{len(self.records)}", due)
                self.records.append(record)
                task = asyncio.create_task(self._ask(session, record))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
            await told
            if self._asking:
                await asyncio.wait(self._asking, timeout=10.0)

    async def _ask(self, session: ClientSession, record: Record) -> None:
        try:
            async with session.post(self._url, json={"input": record.text}) as answer:
                body = await answer.json()
                right = answer.status != 200 or body["output"] == record.text
                record.status = f"{answer.status} {body.get('error', '')}".strip() if right else "wrong"
        except ClientError:
            record.status = "broken"
        record.done = time.monotonic()


class Killings:
    """Kills each process of a role in turn, so many at once, once the calm is over."""

    def __init__(self, scene: Scene, role: str, at_once: int, times: int) -> None:
        self._scene, self._victims = scene, scene.of(role)
        self._apart = APART[role] if len(self._victims) > 1 else ALONE
        self._at_once, self._times = at_once, times
        self.began = 0.0
        self.met: set[str] = set()

    async def happen(self) -> None:
        await asyncio.sleep(CALM)
        self.began = time.monotonic()
        for number in range(self._times):
            first = number * self._at_once
            turn = [self._victims[(first + k) % len(self._victims)] for k in range(self._at_once)]
            await asyncio.to_thread(self._kill, turn)
            await asyncio.sleep(self._apart / 2)
            await asyncio.to_thread(self._scene.wait_until_whole)
            await asyncio.sleep(self._apart / 2)

    def _kill(self, turn: Sequence[Part]) -> None:
        pids = [pid for part in turn for pid in part.kill()]
        self.met |= self._scene.cut_short(pids)
        time.sleep(NOTICED)
        for part in turn:
            part.restart()


def killed(how: str, what: str, scene: Scene, role: str, at_once: int, given: argparse.Namespace) -> Row:
    killings = Killings(scene, role, at_once, given.kills)

    async def story() -> list[Record]:
        load = Load(scene.url, given.rate)
        await load.during(lambda: asyncio.ensure_future(killings.happen()))
        return load.records

    records = asyncio.run(story())
    calm = max(
        (r.seconds for r in records if r.sent - records[0].sent > 2.0 and r.done < killings.began),
        default=0.0,
    )
    later = [record for record in records if record.done >= killings.began]
    met = sorted(r.seconds for r in later if r.text in killings.met or r.seconds > calm)
    row = Row(how, what, given.kills, dict(Counter(record.status for record in records)), len(met), calm=calm)
    if met:
        row.p50, row.p99, row.longest = at_share(met, 0.5), at_share(met, 0.99), met[-1]
    return row


@dataclass(slots=True)
class Stops:
    """What it came to that Redis stood still."""

    first: list[float] = field(default_factory=list)  # seconds from the stop to the first 503
    slowest: list[float] = field(default_factory=list)  # of those sent meanwhile
    back: list[float] = field(default_factory=list)  # seconds from when Redis ran again to the last refusal
    statuses: dict[str, int] = field(default_factory=dict)


def stopped(scene: Scene, given: argparse.Namespace) -> Stops:
    spans: list[tuple[float, float]] = []

    async def happen() -> None:
        for _ in range(given.stops):
            await asyncio.sleep(WELL)
            os.kill(scene.store, signal.SIGSTOP)
            began = time.monotonic()
            await asyncio.sleep(STOPPED)
            os.kill(scene.store, signal.SIGCONT)
            spans.append((began, time.monotonic()))
        await asyncio.sleep(WELL)

    async def story() -> list[Record]:
        load = Load(scene.url, given.rate)
        await load.during(lambda: asyncio.ensure_future(happen()))
        return load.records

    records = asyncio.run(story())
    told = Stops(statuses=dict(Counter(record.status for record in records)))
    for began, ended in spans:
        refused = [r for r in records if r.status.startswith("503") and began <= r.done < ended + WELL]
        told.first.append(min((r.done for r in refused), default=float("inf")) - began)
        told.slowest.append(max((r.seconds for r in refused if began <= r.sent < ended), default=0.0))
        told.back.append(max((r.sent - ended for r in refused), default=0.0))
    return told


Start = Callable[[int, int], AbstractContextManager[Scene]]


def measure(given: argparse.Namespace, say: Say) -> Figure:
    rows: list[Row] = []
    stops = Stops()

    def note(row: Row) -> None:
        rows.append(row)
        say(f"{row.how:<22} {row.what:<22} {row.statuses}  affected {row.affected}, p99 {_seconds(row.p99)}")

    starts: list[tuple[str, Start]] = [("penstock up", supervised), ("without a supervisor", separate)]
    for how, start in starts:
        with start(2, WORKERS) as scene:
            note(killed(how, "one worker of eight", scene, "worker", 1, given))
            note(killed(how, "three workers of eight", scene, "worker", 3, given))
            note(killed(how, "one of two batchers", scene, "batcher", 1, given))
            if scene.store:
                stops = stopped(scene, given)
                say(
                    f"Redis stopped: first 503 after {max(stops.first):.3f} s at the latest, {stops.statuses}"
                )
    with supervised(1, WORKERS) as scene:
        note(killed("penstock up", ONLY, scene, "batcher", 1, given))
    return figure(rows, stops, given)


def figure(rows: Sequence[Row], stops: Stops, given: argparse.Namespace) -> Figure:
    header = ["how it runs", "killed", "times", "answers", "affected", "p50", "p99", "longest"]
    table = [
        [row.how, row.what, str(row.kills), _told(row.statuses), str(row.affected),
         *map(_seconds, (row.p50, row.p99, row.longest))]
        for row in rows
    ]  # fmt: skip
    checks = []
    for row in rows:
        if row.what == ONLY:  # nothing is promised: requests wait until it has been started again
            continue
        title = f"{row.how}, {row.what}"
        checks.append(
            Check(f"{title}: not 200", sum(row.statuses.values()) - row.statuses.get("200", 0), 0, "")
        )
        checks.append(Check(f"{title}: affected, p99", row.p99 or 0.0, LIMIT, "s"))
    checks.append(Check("Redis stopped: first 503", max(stops.first), FIRST_REFUSAL, "s"))
    checks.append(Check("Redis stopped: served again", max(stops.back), BACK, "s"))
    stopped_table = markdown_table(
        ["Redis stopped, times", "first 503 after", "slowest 503", "last refused after it went on", "answers"],
        [[str(len(stops.first)), *(_seconds(max(each)) for each in (stops.first, stops.slowest, stops.back)),
          _told(stops.statuses)]],
    )  # fmt: skip
    return Figure(
        title="What a kill costs",
        method=(
            f"Open loop, Poisson, {given.rate:g} requests/s, no time-out from the client, default settings; "
            f"a gateway, two batchers (or one), {WORKERS} workers of {journalled.SECONDS:g} s a batch. kill -9, "
            "each in turn. Affected are requests whose batch was cut short, and all that took longer than any "
            "before the first kill. Seconds from the scheduled time. The limit is 1.5 s and one batch. "
            f"Redis: SIGSTOP for {STOPPED:g} s."
        ),
        tables=[markdown_table(header, table), stopped_table],
        checks=checks,
        data={"rows": [asdict(row) for row in rows], "stops": asdict(stops)},
    )


def _told(statuses: dict[str, int]) -> str:
    return ", ".join(f"{status} ×{count}" for status, count in sorted(statuses.items()))


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f} s"


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
