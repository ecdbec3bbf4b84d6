"""The kernel with an autoscaler: workers come some time after they were asked for, and leave when the batch in hand
is done. `autoscaling.py` plays schedules on it for `penstock sim --autoscale`; tests play every shape of traffic.

The autoscaler is that of `core`, and sees what a real one sees: how many requests came, how many wait, and what one
worker has been found to do. A worker is paid for from the moment it is asked for until it has gone.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from penstock.core.scaling.scaler import Scaler
from penstock.core.scaling.seen import ScalingRules, Seen
from penstock.sim.kernel import Kernel, Run, Scenario
from penstock.types import Seconds, WorkerId

LOOK = 1.0  # seconds between two looks of the autoscaler


@dataclass(slots=True)
class Staff:
    """How many workers there were in a run."""

    seconds: Seconds = 0.0  # for how long workers were paid for after the warm-up, all together
    span: Seconds = 0.0  # how long the run was after the warm-up
    most: int = 0  # the most workers at a time
    changes: list[tuple[Seconds, int]] = field(default_factory=list)  # when, and how many were wanted then

    @property
    def mean(self) -> float:
        return self.seconds / self.span if self.span > 0.0 else 0.0

    @property
    def regrets(self) -> int:
        """How often workers were added after some had been removed. Under a steady load that would be flapping."""
        counts = [wanted for _, wanted in self.changes]
        added = [after > before for before, after in pairwise(counts)]
        return sum(now and not before for before, now in pairwise(added))


class ScaledKernel(Kernel):
    """Plays one schedule against one batcher whose workers come and go."""

    def __init__(self, scenario: Scenario, rules: ScalingRules, start: Seconds) -> None:
        """`start`: how long it takes until a worker that was asked for is ready."""
        workers = max(rules.least, min(rules.most, scenario.workers))
        super().__init__(replace(scenario, workers=workers))
        self._scaler = Scaler(rules, workers, 0.0)
        self.staff = Staff(most=workers, changes=[(0.0, workers)])
        self._start_takes = start
        self._asked: dict[WorkerId, Seconds] = {}  # the workers that are paid for, and since when
        # The workers among them that are not ready yet, the latest last; and those that leave after the batch in
        # hand.
        self._coming: dict[WorkerId, None] = {}
        self._leaving: dict[WorkerId, None] = {}
        self._made = workers  # how many workers there have been in all
        self._schedule: Sequence[float] = ()
        self._arrived = 0  # how many requests had come at the last look
        self._warmup = self._end = 0.0  # when the warm-up ends, and the schedule

    def run(
        self, schedule: Sequence[float], costs: Sequence[float] | None = None, warmup: Seconds = 0.0
    ) -> Run:
        self._schedule, self._warmup, self._end = schedule, warmup, schedule[-1]
        for number in range(self._made):
            self._asked[WorkerId(f"sim/{number}")] = 0.0
        self._at(LOOK, self._look)
        run = super().run(schedule, costs, warmup)
        for worker in list(self._asked):
            self._paid(worker, self._end)
        self.staff.span = max(0.0, self._end - warmup)
        return run

    def _start(self, worker: WorkerId) -> None:
        # A worker that has crashed may not be wanted any more.
        if worker in self._asked and worker not in self._leaving:
            super()._start(worker)

    def _look(self, now: Seconds) -> None:
        """Let the autoscaler look, and do what it decides."""
        batcher, curve = self.batcher, self.batcher.curve
        came = bisect_left(self._schedule, now)
        one = curve.best_size / curve.best_seconds if curve.best_seconds else 0.0
        ready = batcher.fleet.healthy
        seen = Seen(came - self._arrived, batcher.waiting, ready, one, curve.best_size)
        self._arrived = came
        before, told = self._scaler.wanted, self._scaler.look(seen, now)
        if told.wanted != before:
            self.staff.changes.append((now, told.wanted))
            self._follow(told.wanted, now)
        for worker in list(self._leaving):
            self._let_go(worker, now)
        if now + LOOK <= self._end:
            self._at(now + LOOK, self._look)

    def _follow(self, wanted: int, now: Seconds) -> None:
        """Ask for workers, or have some leave: first those that are not ready yet, then idle ones."""
        staying = [worker for worker in self._asked if worker not in self._leaving]
        for _ in range(wanted - len(staying)):
            self._ask(now)
        busy = self.batcher.fleet.workers
        expendable = [*reversed(self._coming)]
        ready = [worker for worker in staying if worker not in self._coming]
        expendable += sorted(ready, key=lambda worker: worker in busy and busy[worker].batch is not None)
        for worker in expendable[: max(0, len(staying) - wanted)]:
            self._coming.pop(worker, None)
            self._leaving[worker] = None
            if worker in busy:
                self.batcher.worker_doubted(worker)

    def _ask(self, now: Seconds) -> None:
        worker = WorkerId(f"sim/{self._made}")
        self._made += 1
        self._asked[worker] = now
        self._coming[worker] = None
        self.staff.most = max(self.staff.most, len(self._asked))
        self._at(now + self._start_takes, lambda _: self._arrive(worker))

    def _arrive(self, worker: WorkerId) -> None:
        if worker in self._coming:
            del self._coming[worker]
            self._start(worker)

    def _let_go(self, worker: WorkerId, now: Seconds) -> None:
        """Remove a worker that leaves, unless it still has a batch."""
        known = self.batcher.fleet.workers.get(worker)
        if known is not None:
            if known.batch is not None:
                return
            self.run_so_far.busy_seconds += known.busy_seconds
            self.batcher.worker_removed(worker, now)
        del self._leaving[worker]
        self._paid(worker, now)

    def _paid(self, worker: WorkerId, now: Seconds) -> None:
        """Count what a worker that has gone has cost."""
        self.staff.seconds += max(0.0, now - max(self._warmup, self._asked.pop(worker)))
