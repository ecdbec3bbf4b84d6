"""What is kept of a request that has ended, and how the admin plane shows it. The memories of ended requests keep
such rows (`ended.py`, `slowest.py`). `turned_away.py` uses the clocks and the form of errors. Pure.

A row holds references and is cheap to make; it is put into words only when somebody asks. Inputs and outputs are
not kept, nor are the details of an error, which may quote an input.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

from penstock.moments import moments_between
from penstock.types import Attempt, Execution, Failure, Outcome, Reply, Seconds
from penstock.units import iso_time

MOST_NAMED = 16  # requests of the same batch that are named; `batch_size` counts the others


class Row(NamedTuple):
    """One request that has ended. Times are on the clock of the server."""

    request_id: str
    model: str
    tenant: str
    tier: int
    arrival: Seconds
    expires: Seconds
    deadline: Seconds
    outcome: Outcome
    failure: Failure | None
    execution: Execution | None
    history: tuple[Attempt, ...]


def row_of(reply: Reply) -> Row:
    """Returns what is kept of the request that this reply ends."""
    request = reply.request
    return Row(
        request.request_id, request.model, request.tenant, request.tier, request.arrival, request.expires,
        request.deadline, reply.outcome, reply.failure, reply.execution, request.history,
    )  # fmt: skip


class Clocks:
    """Turns times of the server's clock into times of day, for people."""

    def __init__(self, clock: Callable[[], float], wall_clock: Callable[[], float]) -> None:
        self._wall_clock, self.now = wall_clock, clock

    def time_of_day(self, when: Seconds) -> str:
        return iso_time(self._wall_clock() - (self.now() - when))


def described(row: Row, answered: Seconds, mates: Sequence[str], clocks: Clocks) -> dict[str, Any]:
    """Returns a request as the admin plane shows it. `mates`: the ids of others that were in its batch."""
    arrival, execution = row.arrival, row.execution
    said: dict[str, Any] = {
        "request_id": row.request_id,
        "model": row.model,
        "tenant": row.tenant,
        "tier": row.tier,
        "status": row.outcome,
        "arrived": clocks.time_of_day(arrival),
        "ended": clocks.time_of_day(answered),
        "latency_ms": _ms(answered - arrival),
        "time_limit_ms": _ms(row.deadline - arrival),
        "timeline_ms": timeline(arrival, execution, answered),
    }
    if arrival <= row.expires < row.deadline < inf:
        said["queue_limit_ms"] = _ms(row.expires - arrival)
    if row.failure is not None:
        said["error"] = error_of(row.failure)
    if execution is not None:
        said |= _run(execution, arrival, mates)
    if row.history:
        said["attempts"] = [
            {
                "after_ms": _ms(attempt.when - arrival),
                "error": attempt.code,
                "message": attempt.message,
                "worker": attempt.worker,
                "batch_size": attempt.batch_size,
            }
            for attempt in row.history
        ]
    return said


def _run(execution: Execution, arrival: Seconds, mates: Sequence[str]) -> dict[str, Any]:
    said = {
        "queue_ms": _ms(execution.started - arrival),
        "inference_ms": _ms(execution.seconds),
        "batch_size": execution.batch_size,
        "worker": execution.worker,
        "cached": execution.cached,
    }
    if execution.reason is not None:
        said["reason"] = execution.reason
    if mates:
        said["with"] = list(mates[:MOST_NAMED])
    return said


def timeline(arrival: Seconds, execution: Execution | None, answered: Seconds) -> dict[str, float]:
    """Returns the milliseconds from the arrival to each moment that is known. A moment before the arrival is left
    out: the request joined an identical one that was on its way."""
    moments = moments_between(arrival, execution, answered)._asdict()
    return {
        name: _ms(when - arrival) for name, when in moments.items() if when is not None and when >= arrival
    }


def _ms(seconds: Seconds) -> float:
    return round(seconds * 1e3, 3)


def error_of(failure: Failure) -> dict[str, Any]:
    """Returns a failure as the admin plane shows it: without its details, which may quote an input."""
    said: dict[str, Any] = {"error": failure.code, "message": failure.message}
    times = {"retry_after_ms": failure.retry_after, "needed_ms": failure.needed, "had_ms": failure.had}
    return said | {name: _ms(seconds) for name, seconds in times.items() if seconds is not None}
