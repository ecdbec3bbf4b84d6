"""How a worker, a model and a server stand, in the same words embedded and over Redis.

`/internal/health` and `/internal/workers` say these words. In one process `embedded_server` and `served_model`
answer there, and over a bus `cluster/condition.py` and `cluster/worker_slots.py`.

A model is `healthy` while all its workers can serve, `degraded` while some cannot, `unhealthy` while none can.
A server is as its worst model, and `unhealthy` where it cannot serve for a reason of its own. Nothing here waits;
`row_here` asks the system for the names of this host and process.
"""

import os
import socket
from collections.abc import Iterable, Mapping
from math import exp

from msgspec import structs

from penstock.runtime.slot import Slot
from penstock.types import WorkerId
from penstock.words.heartbeats import RungReport, SlotReport

HEALTHY, DEGRADED, UNHEALTHY = BY_BADNESS = ("healthy", "degraded", "unhealthy")
# Further states of a worker, beside `idle`, `busy`, `full` (its backend has no room, so it takes nothing) and
# `resting` (it failed again and again, and is out of use for a while).
LOADING, OFFLINE = "loading", "offline"
MEMORY = 1.4  # seconds over which utilization is averaged
LONGEST_ERROR = 200  # characters: a longer error is cut, since every heartbeat brings it along


class WorkerRow(SlotReport):
    """A worker as the admin plane shows it: how its slot stands, and where it runs."""

    worker: str
    host: str
    pid: int | None
    last_seen: float = 0.0  # seconds ago


def condition(workers: int, healthy: int) -> str:
    """How a model stands, by the number of its workers and of those that are healthy."""
    return UNHEALTHY if not healthy else DEGRADED if healthy < workers else HEALTHY


def worst(conditions: Iterable[str]) -> str:
    """The worst of these conditions; `unhealthy` if there are none."""
    return max(conditions, key=BY_BADNESS.index, default=UNHEALTHY)


def report_of(
    model: str,
    slot: Slot,
    state: str,
    *,
    leaving: bool,
    utilization: float,
    in_flight: int,
    batches: int,
    busy_seconds: float,
    relative_service_time: float | None,
    largest_fitting: int | None,
) -> SlotReport:
    """Returns how one worker stands: its `state` says what it does, its `status` whether that is well. `state`:
    `idle`, `busy`, `resting` or `offline`; a slot that loads or is full replaces it. A worker that leaves, rests or
    is full is degraded. `relative_service_time`: only a batcher knows it; elsewhere None."""
    warm_up = slot.warmth.warm_up
    if slot.loading:
        state = LOADING
    if slot.full:
        state = "full"
    status = state if state in (OFFLINE, LOADING) else HEALTHY
    if leaving or state in ("full", "resting"):
        status = DEGRADED
    return SlotReport(
        model=model,
        status=status,
        state=state,
        first_batch_seconds=slot.first_seconds,
        utilization=round(utilization, 3),
        pressure=round(slot.pressure, 3),
        in_flight=in_flight,
        batches=batches,
        busy_seconds=round(busy_seconds, 3),
        relative_service_time=relative_service_time,
        restarts=slot.restarts,
        version=slot.version,
        last_error=slot.last_error[:LONGEST_ERROR],
        warm_up=[
            RungReport(
                size=rung.size, first=round(rung.first, 6), again=[round(each, 6) for each in rung.again]
            )
            for rung in warm_up.rungs
        ],
        warm_up_too_large=warm_up.too_large,
        warm_up_length=warm_up.length,
        takes_bytes=takes_bytes(slot),
        largest_fitting=largest_fitting,
        runs_ahead=slot.runs_ahead,
    )


def takes_bytes(slot: Slot) -> bool:
    """Whether an input of this slot may be bytes: a backend that does not say so speaks JSON."""
    return bool(getattr(slot.backend, "takes_bytes", False))


def row_of(worker: str, host: str, pid: int | None, last_seen: float, report: SlotReport) -> WorkerRow:
    """How one slot stands, and where it runs."""
    return WorkerRow(worker, host, pid, last_seen, **structs.asdict(report))


def row_here(worker: str, report: SlotReport) -> WorkerRow:
    """The row of a worker in this process."""
    return row_of(worker, socket.gethostname(), os.getpid(), 0.0, report)


class Utilization:
    """The part of the last seconds in which each worker was busy."""

    def __init__(self, now: float) -> None:
        self._looked_at = now
        self._seen: dict[WorkerId, float] = {}  # the seconds that each had worked in all at the last look
        self._parts: dict[WorkerId, float] = {}

    def look(self, busy: Mapping[WorkerId, float], now: float) -> None:
        """Take in how busy each worker was. `busy`: the seconds that each has worked in all. Call this whenever a
        report is made."""
        span = now - self._looked_at
        if span < 0.1:
            return
        weight = 1.0 - exp(-span / MEMORY)
        for worker, seconds in busy.items():
            part = min(1.0, (seconds - self._seen.get(worker, 0.0)) / span)
            old = self._parts.get(worker, 0.0)
            self._parts[worker] = old + weight * (part - old)
            self._seen[worker] = seconds
        self._looked_at = now

    def of(self, worker: WorkerId) -> float:
        return self._parts.get(worker, 0.0)
