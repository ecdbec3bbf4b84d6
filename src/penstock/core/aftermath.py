"""What the end of a batch means for those who asked, for its worker, and for the tenants whose requests were in it.

The `Batcher` calls `end` for each batch that has ended, and `collect` at each step to learn what is to be answered.

a batch has outputs                  its members are answered, and its time is learned
it was refused, or its worker lost   the worker's breaker counts this as a failure
a retry was refused                  the members are suspected, and not the worker
the backend wants it later           it waits for a worker, as it is; nobody has had an attempt
it was too large for memory          the worker gets smaller batches from now on; nobody is to blame
another was handed ahead             it begins when this one has ended; if the worker was lost, it goes again as
                                     it is, and nobody has had an attempt
it ran out of time                   the worker is to blame; but in a part of a batch that ran out of time before, a
                                     member is, unless several batches ran out of time in a row
it failed in any way                 `delivery` says which members are tried again; members of tenants that are set
                                     apart now are tried in batches of their own
"""

from dataclasses import replace

from penstock.core.apart import RESTART
from penstock.core.delivery import PARTS, REFUSALS, Delivery, attempt_of, given_up, note_attempt, note_failure
from penstock.core.effects import Effects, Ended
from penstock.core.fleet import Worker
from penstock.core.parts import Parts
from penstock.core.queued import Sealed
from penstock.errors import BackendBusy, BackendCrashed, BackendOutOfMemory, BackendTimeout, BatchRejected
from penstock.types import Execution, Failure, GivenUp, Outcome, Reply, Result, Seconds

WORKER_LOST = Failure("BACKEND_CRASHED", "the worker was lost with the batch in hand", splittable=True)
# The failure of a first batch that takes long. Its worker may be loading, or an input may hang, so another worker
# does the batch in parts.
STILL_LOADING = Failure("BACKEND_TIMEOUT", "the first batch of its worker took too long", splittable=True)
ENDS_WORKERS = (BackendCrashed.code, BackendTimeout.code)
TOO_LARGE = "there is not enough memory for this input, even alone"
HUNG = 3  # batches that ran out of time in a row, on whichever worker: then no input is to blame


class Aftermath:
    """Takes in the ends of one batcher's batches. It changes the parts of that batcher, and sends nothing."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._ids, self._curve, self._fleet, self._lanes = parts.ids, parts.curve, parts.fleet, parts.lanes
        self._delivery, self._limits = parts.delivery, parts.batch_limits
        self._apart, self._caution = parts.apart, parts.caution
        self._effects = Effects()  # the effects of batches that have ended since the last step

    def collect(self) -> Effects:
        """Hand out the effects since the last call."""
        effects, self._effects = self._effects, Effects()
        return effects

    def abandon(self, worker: Worker, batch: Sealed, now: Seconds) -> None:
        """Give a batch to another worker, since its own may be loading. If its own worker answers it after all,
        that answer is ignored."""
        self.take_back(worker, now)
        self._fleet.release(worker.id, now)
        self._effects.ended.append(Ended(batch, _execution(worker, batch, now), STILL_LOADING))
        self._retry_later(worker, batch, STILL_LOADING, now)

    def end(self, worker: Worker, batch: Sealed, outcome: Result | Failure, now: Seconds) -> None:
        """Take in the end of a batch. Outputs go by position; a wrong number of them is a failure."""
        seconds = now - worker.started
        execution = _execution(worker, batch, now)
        self._fleet.release(worker.id, now)
        self._parts.last_finish = now
        if worker.ahead is not None:
            self._go_on(worker, outcome, now)
        if batch.apart or (isinstance(outcome, Failure) and outcome.code in REFUSALS):
            parts = 1 if batch.apart else 2  # where a batch was refused, another part of it is run as well
            self._parts.used_up.add(now, parts * seconds / self._fleet.counted)
        if isinstance(outcome, Failure) and outcome.code == BackendBusy.code:
            self._effects.ended.append(Ended(batch, execution, outcome))
            self._fleet.refused(worker)
            self._wait_for(batch, outcome, now)
            return
        if batch.apart:
            self._charge(batch, outcome, seconds, now)
        if isinstance(outcome, Result):
            if outcome.size == batch.size:
                self._succeeded(worker, batch, outcome, execution, now)
                return
            outcome = Failure(
                "BACKEND_FAILED",
                f"the backend gave {outcome.size} outputs for {batch.size} inputs",
                splittable=True,
            )
        self._effects.ended.append(Ended(batch, execution, outcome))
        if outcome.code == BackendOutOfMemory.code:
            self._did_not_fit(worker, batch, outcome, now)
        else:
            self._failed(worker, batch, outcome, now)

    def _wait_for(self, batch: Sealed, refusal: Failure, now: Seconds) -> None:
        """The backend wants the batch later. Who cannot wait so long is told at once, unless another worker is
        there that may take it before."""
        alone = self._fleet.healthy <= 1
        soonest = now + (refusal.retry_after or 0.0) if alone else now
        delivery = self._delivery_of(batch)
        self._give_up(delivery.not_begun(batch, refusal, self._curve, self._ids.next(), now, soonest))

    def _charge(self, batch: Sealed, outcome: Result | Failure, seconds: Seconds, now: Seconds) -> None:
        """Charge a batch of those who are set apart: how it ended, and what it took beyond what was expected."""
        well = isinstance(outcome, Result) and outcome.size == batch.size
        lost = isinstance(outcome, Failure) and outcome.code == BackendCrashed.code
        self._apart.ended(batch, well=well)
        more = seconds - self._curve(batch.size) + (RESTART if lost else 0.0)
        if more > 0.0:
            self._apart.charge(more, self._parts.workers_apart(now), now)

    def _go_on(self, worker: Worker, outcome: Result | Failure, now: Seconds) -> None:
        """What the worker was handed ahead begins, unless the worker was lost with the batch before it."""
        if isinstance(outcome, Result):
            self._begin(worker, now - outcome.held_up)
        elif outcome.code in REFUSALS:
            self._begin(worker, now)
        else:
            self.take_back(worker, now)

    def _begin(self, worker: Worker, now: Seconds) -> None:
        batch = self._fleet.begin_ahead(worker, now)
        batch.sent = now
        lane = self._lanes.get(self._lanes.key_of(batch.requests[0]))
        if lane is not None:
            lane.last_dispatch = now
        self._effects.dispatches.append((worker.id, batch))

    def take_back(self, worker: Worker, now: Seconds) -> None:
        """The worker will not run what it was handed ahead, if anything."""
        batch = self._fleet.take_back(worker)
        if batch is not None:
            batch.avoid = worker.id
            self._give_up(self._delivery.not_begun(batch, WORKER_LOST, self._curve, self._ids.next(), now))

    def _succeeded(
        self, worker: Worker, batch: Sealed, result: Result, execution: Execution, now: Seconds
    ) -> None:
        seconds = execution.seconds - result.held_up
        worker.pressure = result.pressure
        self._limits.succeeded()
        self._parts.padded.add(result.executed or batch.size, result.padding)
        if self._parts.safe_sizes.known:
            self._parts.safe_sizes.fitted(worker.id, self._shape(batch), result.executed or batch.size, now)
            self._parts.fit_curve()
        if not worker.loading:  # the time of a worker that loads says nothing of batches
            self._learn(worker, batch, result.executed or batch.size, seconds)
        execution.seconds, execution.version, execution.padding = seconds, result.version, result.padding
        self._effects.ended.append(Ended(batch, execution, None))
        outputs = [b""] * batch.size if result.delivered else result.outputs
        success = Outcome.SUCCESS
        replies: list[Reply] = [
            Reply(request, success, output, None, execution)
            for request, output in zip(batch.requests, outputs, strict=True)
        ]
        for position, failure in (result.failures or {}).items():
            request = batch.requests[position]
            note_attempt(request, attempt_of(failure, worker.id, batch.size, now))
            replies[position] = reply = given_up(request, failure)
            self._effects.given_up.append(reply)
        self._effects.replies += replies

    def _learn(self, worker: Worker, batch: Sealed, size: int, seconds: Seconds) -> None:
        """Learn from the time of a batch. `size`: the number of inputs that were executed, to which the time
        belongs."""
        expected, first = self._curve(size), worker.meets(size)
        apart = first and self._curve.shape.dear
        self._fleet.succeeded(worker, seconds / expected if expected > 0 and not apart else 1.0)
        self._curve.observe(size, seconds, first=first)
        self._parts.rehearsals.was_real(size)
        lane = None if batch.apart else self._lanes.get(self._lanes.key_of(batch.requests[0]))
        if lane is not None:
            lane.learn(size, seconds, first=first, alone=len(self._lanes) == 1)

    def _did_not_fit(self, worker: Worker, batch: Sealed, failure: Failure, now: Seconds) -> None:
        """Give the worker smaller batches; nothing else is held against it. If one input alone does not fit, that
        tells of the input, and not of the batches that it was in."""
        sizes, shape = self._parts.safe_sizes, self._shape(batch)
        self._fleet.refused(worker)
        if batch.size > 1:
            batch.did_not_fit = (*batch.did_not_fit, (worker.id, sizes.of(worker.id, shape)))
            sizes.did_not_fit(worker.id, shape, batch.size, now)
            delivery = self._delivery_of(batch)
            self._give_up(delivery.too_large(batch, failure, self._curve, self._ids.some(2), now))
        else:
            for each, size in reversed(batch.did_not_fit):
                sizes.restore(each, shape, size)
            told = replace(failure, message=f"{TOO_LARGE}: {failure.message}")
            self._retry_later(worker, batch, told, now)
        self._parts.fit_curve()

    def _shape(self, batch: Sealed) -> int:
        return self._lanes.key_of(batch.requests[0])[1]

    def _failed(self, worker: Worker, batch: Sealed, failure: Failure, now: Seconds) -> None:
        if failure.code in ENDS_WORKERS and failure is not WORKER_LOST:
            batch.risky = True  # if a whole process has left, no input is to blame
            if self._fleet.shared:
                self._caution.lost(worker, now)
        if failure.code == BackendTimeout.code:
            self._hung(worker, batch, now)
        elif (batch.retry or batch.apart) and failure.code == BatchRejected.code:
            # A batch that failed before, or was likely to fail, tells nothing of its worker.
            self._fleet.refused(worker)
        else:
            self._fleet.failed(worker, now, at_once=False)
        self._retry_later(worker, batch, failure, now)

    def _hung(self, worker: Worker, batch: Sealed, now: Seconds) -> None:
        """Decide whether the worker hangs, or an input. If the batch is a part of one that hung before, an input is
        probably to blame. It may also be if the limit was shorter than `processing` and the worker had not failed
        before. If several batches hang in a row, their workers are to blame. A batch of those who are set apart
        says nothing about its worker."""
        if batch.apart:
            self._fleet.refused(worker)
            return
        self._limits.ran_out()
        everything = self._limits.in_a_row >= HUNG
        if batch.suspect and not everything:
            self._fleet.refused(worker)
        else:
            early = batch.limit < self._limits.processing
            self._fleet.failed(worker, now, at_once=everything or not early or worker.failures > 0)

    def _retry_later(self, worker: Worker, batch: Sealed, failure: Failure, now: Seconds) -> None:
        batch.avoid = worker.id
        if failure.splittable:
            self._apart.spoilt(batch, now)
            if self._apart.known and not batch.apart and self._divide(batch, failure, now):
                return
        delivery = self._delivery_of(batch)
        self._give_up(delivery.failed(batch, failure, self._curve, self._ids.some(PARTS), now))

    def _delivery_of(self, batch: Sealed) -> Delivery:
        return self._apart.delivery if batch.apart else self._delivery

    def _divide(self, batch: Sealed, failure: Failure, now: Seconds) -> bool:
        """Take a failed batch apart. Returns whether members of it were set apart. The others go together, for they
        are probably not to blame."""
        innocent, guilty = self._apart.divide(batch.requests, now)
        if not guilty:
            return False
        told = note_failure(batch, failure, now)
        curve, next_id = self._curve, self._ids.some(1 + len(guilty))
        if innocent:
            cleared = replace(batch, risky=False)
            self._give_up(self._delivery.take_parts(cleared, [innocent], told, curve, next_id, now))
        for part in guilty:
            for request in part:
                request.apart = True
        suspected = replace(batch, apart=True)
        self._give_up(self._apart.delivery.take_parts(suspected, guilty, told, curve, next_id + 1, now))
        return True

    def _give_up(self, replies: list[GivenUp]) -> None:
        self._effects.replies += replies
        self._effects.given_up += replies


def _execution(worker: Worker, batch: Sealed, now: Seconds) -> Execution:
    """The execution of a batch that failed, from its start until now."""
    started = worker.started
    return Execution(
        worker.id, batch.id, batch.size, started, now - started, sealed=batch.sealed, sent=batch.sent,
        reason=batch.reason,
    )  # fmt: skip
