"""The workers of one model: who is idle, who is trusted (SPEC E6, B4).

A worker is     GONE ──ready──► IDLE ──assign──► BUSY ──release──► IDLE
                  ▲───────────────gone─────────────┘
and its breaker CLOSED ──failures──► OPEN ──cool-down──► on probation ──success──► CLOSED
                                      ▲────────────────────failure──┘  (cool-down doubled)

An open worker takes nothing. On probation it takes one request; that decides.
A time-out opens the breaker at once: at 3 s each, five in a row would be too long to learn from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from penstock.types import Batch, Seconds, WorkerId

LONGEST_COOLDOWN = 5.0
SPEED_MEMORY = 0.2


@dataclass(slots=True, eq=False)
class Worker:
    id: WorkerId
    ready: bool = False
    batch: Batch | None = None
    started: Seconds = 0.0
    back_at: Seconds | None = None  # while gone: when it may be back, if anybody knows
    failures: int = 0  # in a row
    open_until: Seconds = 0.0
    cooldown: Seconds = 0.0  # 0: closed
    speed: float = 1.0  # its service time over the lane's curve
    batches: int = 0
    busy_seconds: Seconds = 0.0

    @property
    def on_probation(self) -> bool:
        return self.cooldown > 0.0

    def busy_for(self, now: Seconds) -> Seconds:
        """In all, the batch in hand included."""
        return self.busy_seconds + (now - self.started if self.batch is not None else 0.0)


class Fleet:
    __slots__ = ("_busy", "_cooldown", "_failures", "_idle", "_ready", "_resting", "workers")

    def __init__(self, breaker_failures: int, breaker_cooldown: Seconds) -> None:
        self.workers: dict[WorkerId, Worker] = {}
        self._ready = 0
        self._failures = breaker_failures
        self._cooldown = breaker_cooldown
        self._idle: dict[WorkerId, Worker] = {}  # in the order they became idle
        self._busy: dict[WorkerId, Worker] = {}  # in the order they started
        self._resting: dict[WorkerId, Worker] = {}  # ready, but the breaker is open

    def ready(self, worker_id: WorkerId) -> None:
        worker = self.workers.setdefault(worker_id, Worker(worker_id))
        if not worker.ready:
            self._ready += 1
            worker.ready = True
            worker.back_at = None
            self._rest_or_idle(worker)

    def gone(self, worker_id: WorkerId, back_at: Seconds | None) -> None:
        worker = self.workers.setdefault(worker_id, Worker(worker_id))
        self._ready -= worker.ready
        worker.ready = False
        worker.back_at = back_at
        self._idle.pop(worker_id, None)
        self._resting.pop(worker_id, None)

    def remove(self, worker_id: WorkerId) -> None:
        self.gone(worker_id, None)
        del self.workers[worker_id]

    def wake(self, now: Seconds) -> Seconds:
        """Let those whose cool-down is over back in, on probation; say when the next one is due."""
        if not self._resting:
            return inf
        for worker in [w for w in self._resting.values() if w.open_until <= now]:
            del self._resting[worker.id]
            self._idle[worker.id] = worker
        return min((w.open_until for w in self._resting.values()), default=inf)

    def pick(self, avoid: WorkerId | None = None) -> Worker | None:
        """The idle worker that has rested longest, trusted ones first, never `avoid`."""
        chosen = None
        for worker in self._idle.values():
            if worker.id == avoid:
                continue
            if not worker.on_probation:
                return worker
            chosen = chosen or worker
        return chosen

    @property
    def idle(self) -> int:
        return len(self._idle)

    @property
    def healthy(self) -> int:
        """Ready, and not resting with an open breaker."""
        return self._ready - len(self._resting)

    def assign(self, worker: Worker, batch: Batch, now: Seconds) -> None:
        del self._idle[worker.id]
        worker.batch = batch
        worker.started = now
        self._busy[worker.id] = worker

    def release(self, worker_id: WorkerId, now: Seconds) -> Worker:
        worker = self.workers[worker_id]
        worker.batch = None
        del self._busy[worker_id]
        worker.batches += 1
        worker.busy_seconds += now - worker.started
        return worker

    def succeeded(self, worker: Worker, ratio: float) -> None:
        """`ratio`: its time over what the curve expected."""
        worker.failures = 0
        worker.cooldown = 0.0
        worker.speed += SPEED_MEMORY * (ratio - worker.speed)
        self._rest_or_idle(worker)

    def failed(self, worker: Worker, now: Seconds, *, at_once: bool) -> None:
        worker.failures += 1
        if at_once or worker.on_probation or worker.failures >= self._failures:
            longest = max(LONGEST_COOLDOWN, self._cooldown)
            worker.cooldown = min(longest, max(self._cooldown, 2.0 * worker.cooldown))
            worker.open_until = now + worker.cooldown
        self._rest_or_idle(worker)

    def refused(self, worker: Worker) -> None:
        """It lives, and said no to a batch that others had said no to: nothing is held against it."""
        self._rest_or_idle(worker)

    def _rest_or_idle(self, worker: Worker) -> None:
        if worker.ready and worker.batch is None:
            (self._resting if worker.on_probation else self._idle)[worker.id] = worker

    def next_free(self, expected: Callable[[int], Seconds], now: Seconds) -> Seconds | None:
        """When a worker can take the next batch: now, or when the busy one that started first should be done.

        None when nobody knows: all are gone and none has said when it will be back.
        """
        if self._idle:
            return now
        for worker in self._busy.values():  # the first is the one that started first
            if worker.ready:
                assert worker.batch is not None
                return max(now, worker.started + expected(worker.batch.size))
        times = [w.open_until for w in self._resting.values()]
        times += [w.back_at for w in self.workers.values() if w.back_at is not None]
        return max(now, min(times)) if times else None
