"""What becomes of a batch that failed: it is retried, split, or given up.

A model has two `Delivery`: one for those who are set apart (`apart`), one for all others. `aftermath` hands failed
batches over when they end. `sealing` takes those whose back-off is over, and expires the late. `caution` looks at
what waits, and `batcher` withdraws requests. Nothing here reads a clock: `now` is an argument.

    one member may be to blame, more than one member  → both halves at once, each on its own
    no answer in time, more than one member           → eight parts at once: each further hang costs a time limit
    too large for memory, more than one member        → two even halves at once; this counts as no attempt
    not begun (handed ahead, or wanted later)         → the whole batch again at once; this counts as no attempt
    nobody to blame (the backend was not there)       → the whole batch again, after a back-off
    a single request                                  → again after a back-off, until its attempts are spent;
                                                        one that ran out of a shortened time limit has one more
    a request has no time left                        → its failure is answered now
    a single request was refused, no budget is left   → its failure is answered now

A part is never mixed with other requests: what killed the batch must not kill another.
Halving is bounded by the size of the batch alone, and by no budget: nobody fails because another request, which was
to blame, has used a budget up.
By the time splitting has found the bad request, that request has been executed log2(n) + 1 times, or up to two
times more where tenants are kept together (`culprit.halves`). From n = 4 on, these are all its attempts.
For a request that has been on a worker only the deadline counts; the limit of its wait in the queue does not.
The budget bounds how often a backend that lives and refuses is asked again. If the worker was lost, hung or was not
there, attempts and breakers bound the retries, and nobody fails for want of budget.
"""

from dataclasses import dataclass, replace
from math import inf

from penstock.core.backoff import RetryBudget, backoff
from penstock.core.culprit import even_parts, halves
from penstock.core.estimator import ServiceCurve
from penstock.core.queued import Queued, Sealed
from penstock.errors import BackendOutOfMemory, BackendTimeout, BatchRejected
from penstock.types import Attempt, Failure, GivenUp, Outcome, Seconds

PARTS = 8  # the number of parts that a batch that hung is split into
# The errors by which a backend that lives refuses a batch. The budget bounds retries after these only.
REFUSALS = (BatchRejected.code, BackendOutOfMemory.code)


@dataclass(frozen=True, slots=True)
class RetryRules:
    """How often, and how soon, failed batches are tried again."""

    attempts: int = 3  # how often a request is executed at most
    base: Seconds = 0.05  # about how long the first back-off is
    longest: Seconds = 1.0  # how long a back-off is at most
    budget_ratio: float = 0.2  # retries that each fresh batch adds to the budget
    budget_per_second: float = 10.0  # retries that each second adds to the budget


def attempt_of(failure: Failure, worker: str, size: int, now: Seconds) -> Attempt:
    """How a batch failed, as an entry of its members' histories."""
    return Attempt(now, failure.code, failure.message, failure.details, worker, size, failure.splittable)


def note_attempt(request: Queued, attempt: Attempt) -> None:
    """Add a failed batch to the history of one of its members."""
    request.executions += 1
    request.history = (*request.history, attempt)


def note_failure(batch: Sealed, failure: Failure, now: Seconds) -> Failure:
    """Add a failure to the history of each member. Returns the failure that members are told. Its details may quote
    the input of one member, so only a request that was alone is told them."""
    told = failure if batch.size == 1 else replace(failure, details="")
    worker = batch.avoid or ""  # the worker that has just failed it
    attempt = attempt_of(told, worker, batch.size, now)
    for request in batch.requests:
        note_attempt(request, attempt)
        without_queue_limit(request)
    return told


def without_queue_limit(request: Queued) -> None:
    """Let only the deadline count from now on, since the request has been on a worker. If its client set a time
    limit of its own, both limits are equal (`types.has_own_limit`), and there is nothing to lift."""
    if request.expires < request.deadline:
        request.expires = inf


def given_up(request: Queued, told: Failure) -> GivenUp:
    """The reply to a request that failed for good. `told`: the failure that its asker is told."""
    return GivenUp(
        request, Outcome.FAILED, failure=told, executions=request.executions, history=request.history
    )


@dataclass(slots=True, eq=False)
class Retry:
    """A batch that waits to be tried again. `deadline` is the earliest among its members, kept so that nobody has
    to look at each."""

    start: Seconds  # when it may go
    batch: Sealed
    failure: Failure  # why the batch is retried
    parts: int  # how many parts the failed batch was split into
    deadline: Seconds = inf

    def look(self) -> None:
        """Find the earliest deadline again, since members have come or gone."""
        self.deadline = min(request.deadline for request in self.batch.requests)

    def give_up(self, curve: ServiceCurve) -> Seconds:
        """When the first of its members can no longer be answered in time."""
        return self.deadline - curve(self.batch.size)


class Delivery:
    """The retries of a model's batches that are set apart, or of its others, each with the time it may go. They are
    few, so a look at each batch is cheap; a look at each member would not be."""

    __slots__ = ("_retries", "_rules", "budget", "waiting")

    def __init__(self, rules: RetryRules) -> None:
        self._rules = rules
        self._retries: dict[int, Retry] = {}  # by batch id
        self.budget = RetryBudget(rules.budget_ratio, rules.budget_per_second)
        self.waiting = 0  # requests, in all batches

    def failed(
        self, batch: Sealed, failure: Failure, curve: ServiceCurve, next_id: int, now: Seconds
    ) -> list[GivenUp]:
        """Take a failed batch. What can be retried waits here. Returns the replies for the rest.

        The batches this makes are named from `next_id` on; there are at most `PARTS`.
        """
        told = note_failure(batch, failure, now)
        if not failure.splittable or batch.size == 1:
            return self._again(batch, told, curve, next_id, now)
        hung = failure.code == BackendTimeout.code
        parts = even_parts(batch.requests, PARTS) if hung else halves(batch.requests)
        return self.take_parts(batch, parts, told, curve, next_id, now)

    def too_large(
        self, batch: Sealed, failure: Failure, curve: ServiceCurve, next_id: int, now: Seconds
    ) -> list[GivenUp]:
        """Take a batch of several that did not fit into its worker's memory. Its halves are smaller, so this ends
        by itself, and counts as no attempt: nobody is to blame."""
        for request in batch.requests:
            without_queue_limit(request)
        told = replace(failure, details="")
        return self.take_parts(batch, even_parts(batch.requests, 2), told, curve, next_id, now)

    def not_begun(
        self,
        batch: Sealed,
        told: Failure,
        curve: ServiceCurve,
        next_id: int,
        now: Seconds,
        soonest: Seconds | None = None,
    ) -> list[GivenUp]:
        """Take back a batch that its worker has not begun: it was handed ahead, or the backend wants it later. It
        is nobody's attempt, and costs no budget. It goes again as it is: if its worker began it unseen and died
        of it, nobody else's request is taken along. `soonest`: when a worker can begin it, if that is known."""
        for request in batch.requests:
            without_queue_limit(request)
        replies: list[GivenUp] = []
        begins = now if soonest is None else soonest
        alive = self._in_time(batch.requests, told, curve(batch.size), begins, replies)
        self._wait(batch, alive, told, next_id, now, now)
        return replies

    def take_parts(
        self,
        batch: Sealed,
        parts: list[list[Queued]],
        told: Failure,
        curve: ServiceCurve,
        next_id: int,
        now: Seconds,
    ) -> list[GivenUp]:
        """Take the parts of a failed batch. Each goes at once, on its own, if its members have the time."""
        replies: list[GivenUp] = []
        for offset, part in enumerate(parts):
            alive = self._in_time(part, told, curve(len(part)), now, replies)
            self._wait(batch, alive, told, next_id + offset, now, now, len(parts))
        return replies

    def _again(
        self, batch: Sealed, told: Failure, curve: ServiceCurve, next_id: int, now: Seconds
    ) -> list[GivenUp]:
        """Retry the whole batch, after a back-off."""
        rules, hung = self._rules, told.code == BackendTimeout.code
        attempts = rules.attempts + (hung and batch.hurried)
        tries = min(request.executions for request in batch.requests)
        start = now + backoff(tries, rules.base, rules.longest, batch.id)
        tired = [request for request in batch.requests if request.executions >= attempts]
        replies: list[GivenUp] = [given_up(request, told) for request in tired]
        fresh = [request for request in batch.requests if request.executions < attempts]
        alive = self._in_time(fresh, told, curve(batch.size), start, replies)
        if alive and told.code in REFUSALS and not self.budget.spend(now):
            return replies + [given_up(request, told) for request in alive]
        self._wait(batch, alive, told, next_id, start, now)
        return replies

    def _in_time(
        self, part: list[Queued], told: Failure, seconds: Seconds, start: Seconds, replies: list[GivenUp]
    ) -> list[Queued]:
        """Returns the members that can be answered in time if they start at `start`. Adds the replies for the
        others to `replies`."""
        late = [request for request in part if start > request.deadline - seconds]
        replies += [given_up(request, told) for request in late]
        return [request for request in part if start <= request.deadline - seconds] if late else part

    def _wait(
        self,
        batch: Sealed,
        alive: list[Queued],
        told: Failure,
        batch_id: int,
        start: Seconds,
        now: Seconds,
        parts: int = 1,
    ) -> None:
        if alive:
            retry = Sealed(
                batch_id, batch.model, batch.parameters, alive, batch.reason, now, True, avoid=batch.avoid,
                suspect=batch.suspect or told.code == BackendTimeout.code, apart=batch.apart, charged=batch.charged,
                risky=batch.risky, did_not_fit=batch.did_not_fit,
                attempt=1 + max(request.executions for request in alive),
            )  # fmt: skip
            self.waiting += len(alive)
            self._retries[retry.id] = waits = Retry(start, retry, told, parts)
            waits.look()

    @property
    def batches(self) -> int:
        """How many batches wait."""
        return len(self._retries)

    def withdraw(self, request: Queued) -> bool:
        """Take a request out of the retries. Returns whether it was there. This is rare, so a search is good
        enough."""
        for retry in self._retries.values():
            if request in retry.batch.requests:
                retry.batch.requests.remove(request)
                self.waiting -= 1
                self._changed(retry)
                return True
        return False

    def expire(self, curve: ServiceCurve, now: Seconds) -> list[GivenUp]:
        """Take out the members that can no longer be answered in time. Returns a reply for each: the failure that
        it was to be retried for."""
        replies: list[GivenUp] = []
        for retry in [retry for retry in self._retries.values() if now > retry.give_up(curve)]:
            requests, seconds = retry.batch.requests, curve(retry.batch.size)
            late = [request for request in requests if now > request.deadline - seconds]
            retry.batch.requests = [request for request in requests if now <= request.deadline - seconds]
            replies += [given_up(request, retry.failure) for request in late]
            self._changed(retry)
        self.waiting -= len(replies)
        return replies

    def ready(self, now: Seconds) -> list[Retry]:
        """The retries that may go now, in the order in which they became due; the caller takes each, or leaves
        it."""
        due = [retry for retry in self._retries.values() if retry.start <= now]
        due.sort(key=lambda retry: (retry.start, retry.batch.id))
        return due

    def take(self, batch: Sealed) -> Sealed:
        """Take out a batch that goes now."""
        self.waiting -= batch.size
        del self._retries[batch.id]
        return batch

    def take_some(self, batch: Sealed, number: int, batch_id: int) -> Sealed:
        """Take so many members of a batch as a batch of their own; the others go on waiting."""
        self.waiting -= number
        some = replace(batch, id=batch_id, requests=batch.requests[:number])
        del batch.requests[:number]
        self._changed(self._retries[batch.id])
        return some

    def _changed(self, retry: Retry) -> None:
        if retry.batch.requests:
            retry.look()
        else:
            del self._retries[retry.batch.id]

    def next_start(self, now: Seconds) -> Seconds:
        """When the next retry may go, of those that may not go yet."""
        return min((retry.start for retry in self._retries.values() if retry.start > now), default=inf)

    def next_expiry(self, curve: ServiceCurve) -> Seconds:
        """When the first member of any retry runs out of time."""
        return min((retry.give_up(curve) for retry in self._retries.values()), default=inf)
