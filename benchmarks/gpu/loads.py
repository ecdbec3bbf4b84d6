"""The two loads: as much as a server takes, and a schedule. Each also says what the function did meanwhile. `parts`
puts them on one contender after the other."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import closed_loop, open_loop
from benchmarks.generator import Measured, Traffic
from benchmarks.gpu import stamps
from benchmarks.gpu.field import Running, body
from benchmarks.gpu.settings import Settings
from benchmarks.wrk import Load, Measurement

STARTING_SECONDS = 1.0  # for the generators, before anything is warmed up
WARM_UP_SECONDS = 1.0
FULL_BATCHES = 3  # as many connections in the closed loop: one batch runs, one waits, one is on its way


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement of one contender."""

    part: str
    model: str
    contender: str
    title: str
    load: float | None  # of the function alone, in percent; None: closed loop
    rate: float  # good answers a second
    offered: float | None
    measured: Measured | None  # of an open loop
    busy: stamps.Busy | None
    errors: int

    @property
    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def closed(part: str, running: Running, settings: Settings, seconds: float, generators: int) -> Result:
    asked, start = body(settings), time.monotonic() + STARTING_SECONDS + WARM_UP_SECONDS
    workers = running.contender.workers
    connections = FULL_BATCHES * settings.shape.max_batch * workers
    share = Load(max(1, connections // generators), 1, max(1, round(seconds)))
    urls = [running.urls[index % len(running.urls)] for index in range(generators)]
    with ThreadPoolExecutor(generators) as pool:
        turns = [pool.submit(closed_loop.measure, url, asked, share, start) for url in urls]
        got: Measurement = closed_loop.together([turn.result() for turn in turns])
    did = stamps.busy(stamps.read(running.stamps), start, start + share.seconds)
    title = running.contender.title
    return Result(
        part, settings.model, running.contender.name, title, None, got.rate, None, None, did, got.errors
    )


def opened(
    part: str,
    running: Running,
    settings: Settings,
    load: float,
    best: float,
    seconds: float,
    generators: int,
    warm_up: float = WARM_UP_SECONDS,
) -> Result:
    """`load`: percent of what the function does alone, which is `best`."""
    rate, began = best * load / 100, [0.0]
    traffic = Traffic(rate, seconds, warm_up, characters=settings.shape.length)

    def at_start(moment: float) -> None:
        began[0] = moment + warm_up

    got = open_loop.offer(running.urls, traffic, generators, running.admins, at_start)
    did = stamps.busy(stamps.read(running.stamps), began[0], began[0] + seconds)
    title = running.contender.title
    return Result(
        part, settings.model, running.contender.name, title, load, got.goodput, rate, got, did, got.errors
    )
