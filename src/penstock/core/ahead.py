"""Which busy worker is handed its next batch before its present one has ended, so that it need not stand idle in
between.

What is handed ahead cannot be changed any more: whoever comes later, and is more urgent, waits for it. So nothing
is handed ahead that would not go just so in a moment:

- It is full: by the policy, and no larger one would be better. As much waits for every other worker that has
  nothing to go on with, so that none of them has a use for it, whichever is idle first.
- Its worker should end within `LEAD`, and all that waits can make it behind that.
- Its worker is at home, can take a batch while it runs one, has answered since it started, has failed nothing since
  it last succeeded, is not nearly full, and runs nothing that is tried again or feared.
- No worker is idle, no retry waits, and nobody is set apart. Those go first, and want workers that are idle.
- No worker has smaller batches for want of memory, and the batcher is not about to end.
- Where batchers share the workers, a batcher has batches ahead at no more workers than its share. A worker that is
  handed batch after batch works for nobody else. Requests have waited for `ASKED`, so that the credit of an idle
  worker would have come.

`sealing`, which hands batches to workers, asks this after the idle workers have had theirs. It only decides.
"""

from math import inf

from penstock.core.estimator import GUARD, LEAST_SPREAD
from penstock.core.fleet import Worker
from penstock.core.lane import Lane
from penstock.core.parts import Parts
from penstock.types import Seconds

LEAD = 0.02  # seconds before the end of a batch: enough to hand over, and to read, a large one
ASKED = 0.005  # seconds in which the credit of an idle worker comes to whoever asks for one
EASY = 0.8  # a worker that is fuller than this may be about to pause, and takes no batch ahead


class Ahead:
    """Decides for one batcher which worker is handed a batch ahead."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._fleet, self._curve = parts.fleet, parts.curve
        # When requests began to wait while no worker was idle; inf: none waits so.
        self._wanting_since: Seconds = inf

    def notice(self, now: Seconds, *, waiting: bool) -> None:
        """Take in whether requests wait, and whether a worker is idle. To be called at each step."""
        if not waiting or self._fleet.idle:
            self._wanting_since = inf
        elif self._wanting_since == inf:
            self._wanting_since = now

    @property
    def possible(self) -> bool:
        """Whether any worker may be handed anything ahead now."""
        parts = self._parts
        return not (
            self._fleet.idle
            or self._fleet.keeps_its_share
            or parts.draining
            or parts.delivery.waiting
            or parts.apart.known
            or parts.apart.waiting
            or parts.safe_sizes.known
        )

    def may_have_enough(self, lane: Lane) -> bool:
        """Whether so much waits in a lane that a closer look is worth its time."""
        needed = lane.curve.best_size * self._fleet.unfed
        if lane.buffer.waiting < needed:
            lane.ahead_from = needed
        return 0 < needed <= lane.buffer.waiting

    def next_worker(self) -> Worker | None:
        """The worker that should end first, of those that may be handed a batch ahead."""
        return min(filter(self._may_have, self._fleet.at_work), key=self._ends, default=None)

    def _may_have(self, worker: Worker) -> bool:
        batch = worker.batch
        assert batch is not None
        return (
            worker.ahead is None
            and not worker.one_at_a_time
            and not worker.abroad
            and worker.ready
            and bool(worker.met)
            and not worker.failures
            and not worker.on_probation
            and worker.pressure < EASY
            and not (batch.retry or batch.apart or batch.risky)
        )

    def _ends(self, worker: Worker) -> Seconds:
        assert worker.batch is not None
        return worker.started + self._curve(worker.batch.size)

    def look(self, worker: Worker, lane: Lane, limit: int, now: Seconds) -> Seconds:
        """When a worker may be handed the next batch of a lane, from what waits there: now or earlier if at once.
        `limit`: the largest batch it may have."""
        ends = self._ends(worker)
        if now > ends + LEAD:
            return inf  # the worker is late, and nobody knows by how much
        curve = lane.curve
        # No larger batch is better, also not to drain a queue.
        full = max(curve.best_size, curve.best_of(limit), curve.most_of(limit, far_behind=False))
        needed = full * self._fleet.unfed
        if lane.buffer.waiting < needed:
            lane.ahead_from = needed
            return inf
        late = GUARD * max(self._curve.spread, LEAST_SPREAD) * (ends - worker.started)
        if lane.give_up < ends + late:
            return inf
        return max(ends - LEAD, self._wanting_since + ASKED) if self._fleet.shared else ends - LEAD
