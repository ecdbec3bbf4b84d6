"""What becomes of a batch that failed: retried, split, or given up (SPEC E2, E3).

    one member may be to blame, more than one member  → both halves at once, each on its own
    it did not answer in time, more than one member   → eight parts at once: each further hang costs a time limit
    nobody to blame (the backend was not there)       → the whole batch again, after a back-off
    a single request                                  → again after a back-off, until its attempts are spent;
                                                        one that was cut short in a hurry has one more
    no time left                                      → its failure is answered now
    the backend refuses, and no budget is left        → its failure is answered now

A part is never mixed with other requests: what killed the batch must not kill another.
A request found by splitting has been executed log2(n) + 1 times by then: from n = 4 on, that is all its attempts.
A request that has been on a worker is bounded by its deadline alone: the limit of its wait in the queue is over.
The budget bounds what a backend that lives and refuses is asked again. Where the worker was lost, hung or was not
there, attempts and breakers bound the retries, and nobody fails for want of budget.
"""

import itertools
from dataclasses import dataclass, replace
from math import inf

from penstock.core.backoff import RetryBudget, backoff
from penstock.core.estimator import ServiceCurve
from penstock.errors import BackendTimeout, BatchRejected
from penstock.types import Attempt, Batch, Failure, Outcome, Reply, Request, Seconds

PARTS = 8  # that a batch which hung is split into


@dataclass(frozen=True, slots=True)
class RetryRules:
    attempts: int = 3
    base: Seconds = 0.05
    longest: Seconds = 1.0
    budget_ratio: float = 0.2
    budget_per_second: float = 10.0


def attempt_of(failure: Failure, worker: str, size: int, now: Seconds) -> Attempt:
    return Attempt(now, failure.code, failure.message, failure.details, worker, size, failure.splittable)


def note_attempt(request: Request, attempt: Attempt) -> None:
    request.executions += 1
    request.history = (*request.history, attempt)


@dataclass(slots=True, eq=False)
class _Retry:
    """A batch that waits to be tried again; the earliest deadline among its members spares looking at each."""

    start: Seconds
    batch: Batch
    failure: Failure  # what it is retried for
    deadline: Seconds = inf

    def look(self) -> None:
        """Its members have changed."""
        self.deadline = min(request.deadline for request in self.batch.requests)

    def give_up(self, curve: ServiceCurve) -> Seconds:
        """When the first of its members runs out of time."""
        return self.deadline - curve(self.batch.size)


class Delivery:
    """The retries of one model: batches, each with the time it may go. They are few, so a look at each batch is
    cheap; a look at each member would not be."""

    __slots__ = ("_retries", "_rules", "budget", "waiting")

    def __init__(self, rules: RetryRules) -> None:
        self._rules = rules
        self._retries: dict[int, _Retry] = {}  # by batch id
        self.budget = RetryBudget(rules.budget_ratio, rules.budget_per_second)
        self.waiting = 0

    def failed(
        self, batch: Batch, failure: Failure, curve: ServiceCurve, next_id: int, now: Seconds
    ) -> list[Reply]:
        """Take a failed batch; what can be retried will be, and the rest is answered here.

        The batches this makes are named from `next_id` on; there are at most `PARTS`.
        """
        # The details may quote whoever caused it: they are told only to one that was alone.
        told = failure if batch.size == 1 else replace(failure, details="")
        attempt = attempt_of(told, batch.avoid or "", batch.size, now)
        for request in batch.requests:
            note_attempt(request, attempt)
            if request.expires < request.deadline:  # alike, they tell of a client's own limit
                request.expires = inf
        split = failure.splittable and batch.size > 1
        hung = failure.code == BackendTimeout.code
        parts = _parts(batch.requests, (PARTS if hung else 2) if split else 1)
        attempts = self._rules.attempts + (hung and batch.hurried)
        replies: list[Reply] = []
        for offset, part in enumerate(parts):
            tries = min(request.executions for request in part)
            delay = 0.0 if split else backoff(tries, self._rules.base, self._rules.longest, batch.id)
            start = now + delay
            alive = []
            for request in part:
                spent = not split and request.executions >= attempts
                if spent or start > request.deadline - curve(len(part)):
                    replies.append(Reply(request, Outcome.FAILED, failure=told))
                else:
                    alive.append(request)
            if not alive:
                continue
            if failure.code == BatchRejected.code and not self.budget.spend(now):
                replies += [Reply(request, Outcome.FAILED, failure=told) for request in alive]
                continue
            retry = Batch(
                next_id + offset, batch.model, batch.parameters, alive, batch.reason, now, True, batch.avoid,
                suspect=hung or batch.suspect,
            )  # fmt: skip
            self.waiting += len(alive)
            self._retries[retry.id] = waits = _Retry(start, retry, told)
            waits.look()
        return replies

    def withdraw(self, request: Request) -> bool:
        """Out of the retries, if it is there. Rare, so a search is good enough."""
        for retry in self._retries.values():
            if request in retry.batch.requests:
                retry.batch.requests.remove(request)
                self.waiting -= 1
                self._changed(retry)
                return True
        return False

    def expire(self, curve: ServiceCurve, now: Seconds) -> list[Reply]:
        """Answer those that can no longer make it, each with the failure it was retried for."""
        replies: list[Reply] = []
        for retry in [retry for retry in self._retries.values() if now > retry.give_up(curve)]:
            requests, seconds = retry.batch.requests, curve(retry.batch.size)
            late = [request for request in requests if now > request.deadline - seconds]
            retry.batch.requests = [request for request in requests if now <= request.deadline - seconds]
            replies += [Reply(request, Outcome.FAILED, failure=retry.failure) for request in late]
            self._changed(retry)
        self.waiting -= len(replies)
        return replies

    def ready(self, now: Seconds) -> list[tuple[Seconds, Batch]]:
        """Those that may go now and since when, in that order; the caller takes each, or leaves it."""
        due = [retry for retry in self._retries.values() if retry.start <= now]
        due.sort(key=lambda retry: (retry.start, retry.batch.id))
        return [(retry.start, retry.batch) for retry in due]

    def due(self, now: Seconds) -> bool:
        return any(retry.start <= now for retry in self._retries.values())

    def take(self, batch: Batch) -> Batch:
        self.waiting -= batch.size
        del self._retries[batch.id]
        return batch

    def take_one(self, batch: Batch, batch_id: int) -> Batch:
        """One member of it, as a batch of its own; the others go on waiting."""
        self.waiting -= 1
        one = replace(batch, id=batch_id, requests=[batch.requests.pop(0)])
        self._changed(self._retries[batch.id])
        return one

    def _changed(self, retry: _Retry) -> None:
        if retry.batch.requests:
            retry.look()
        else:
            del self._retries[retry.batch.id]

    def next_start(self, now: Seconds) -> Seconds:
        """When the next retry may go, of those that may not yet."""
        return min((retry.start for retry in self._retries.values() if retry.start > now), default=inf)

    def next_expiry(self, curve: ServiceCurve) -> Seconds:
        """When the first member of any retry runs out of time."""
        return min((retry.give_up(curve) for retry in self._retries.values()), default=inf)


def _parts(requests: list[Request], number: int) -> list[list[Request]]:
    """As even as they can be, and none empty."""
    number = min(number, len(requests))
    cuts = [len(requests) * cut // number for cut in range(number + 1)]
    return [requests[begin:end] for begin, end in itertools.pairwise(cuts)]
