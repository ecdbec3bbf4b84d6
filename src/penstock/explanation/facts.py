"""What is known of one request. The admin plane, a dead letter, the ledger and a trace (`from_trace.py`) each tell
a part of it; what they do not tell is left at its default. `cli/explain.py` makes the facts; `story.py` and
`more_time.py` read them."""

from math import inf
from typing import Any

import msgspec
from msgspec import Struct

Milliseconds = float  # since the request arrived, or how long something took

REFUSED, EXPIRED, CANCELLED, FAILED, SUCCESS = "REFUSED", "EXPIRED", "CANCELLED", "FAILED", "SUCCESS"
WAITING = ("PENDING", "PROCESSING")
UNKNOWN = "UNKNOWN"  # whoever tells of it does not know whether it has ended
# Errors of requests that were not let in. A batcher may refuse what its gateway has taken: that ends as FAILED.
NOT_LET_IN = ("SERVICE_OVERLOADED", "UNACCEPTABLE", "STORE_UNAVAILABLE")


class Error(Struct):
    """How a request failed, as its client was told."""

    error: str = ""  # the error code
    message: str = ""
    retry_after_ms: Milliseconds | None = None
    # If it was refused for want of time: how long it would have had to wait, and how long it could wait.
    needed_ms: Milliseconds | None = None
    had_ms: Milliseconds | None = None


class Tried(Struct):
    """An earlier batch of the request, which failed."""

    after_ms: Milliseconds | None = None  # when it failed
    time: str = ""  # the time of day at which it failed
    error: str = ""
    message: str = ""
    worker: str = ""
    batch_size: int = 0


class Timeline(Struct):
    """When each thing happened, since the request arrived. None: it did not, or nobody knows when."""

    sealed: Milliseconds | None = None
    started: Milliseconds | None = None
    ended: Milliseconds | None = None
    answered: Milliseconds | None = None


class NextBatch(Struct):
    """A batch that went when a request was no longer there."""

    sent: Milliseconds
    ended: Milliseconds


class Facts(Struct, kw_only=True):
    """What is known of one request."""

    request_id: str
    status: str
    model: str = ""
    tenant: str = ""
    tier: int | str | None = None
    arrived: str = ""  # time of day
    ended: str = ""  # time of day
    latency_ms: Milliseconds | None = None
    time_limit_ms: Milliseconds | None = None  # how long it could take altogether
    queue_limit_ms: Milliseconds | None = None  # how long it could wait in the queue, if that was less
    timeline_ms: Timeline = msgspec.field(default_factory=Timeline)
    reason: str = ""  # why its batch was sent
    batch_size: int = 0
    mates: list[str] = msgspec.field(default_factory=list, name="with")  # the ids of others in its batch
    worker: str = ""
    cached: bool = False
    gateway: str = ""
    error: Error | None = None
    attempts: list[Tried] = msgspec.field(default_factory=list)
    next_batch_ms: NextBatch | None = None  # the first batch that was sent after its time was up
    # The next three are told only of a request that waits: how old it is, how much of its time is left, and how
    # many batches with it have failed.
    age_ms: Milliseconds | None = None
    deadline_in_ms: Milliseconds | None = None
    failed_executions: int = 0

    @property
    def was_refused(self) -> bool:
        """Whether it was not let in."""
        if self.status == REFUSED:
            return True
        error = self.error
        if error is None or self.attempts or self.timeline_ms.started is not None:
            return False
        return error.needed_ms is not None or error.error in NOT_LET_IN

    @property
    def time_left(self) -> Milliseconds:
        """How much of its time was left when it was answered. Infinite if nobody knows."""
        if self.time_limit_ms is None or self.latency_ms is None:
            return inf
        return self.time_limit_ms - self.latency_ms


def of_admin_plane(said: Any) -> Facts:
    """Returns the facts that `/internal/requests/ID` tells. Raises msgspec.ValidationError if it told something
    else."""
    return msgspec.convert(said, Facts)


def of_dead_letter(said: Any) -> Facts:
    """Returns the facts that `/internal/dlq/ID` tells. A letter does not say when its request came."""
    letter = msgspec.convert(said, _Letter)
    error = Error(letter.error, letter.message)
    return Facts(
        request_id=letter.request_id, status=FAILED, model=letter.model, tenant=letter.tenant, tier=letter.tier,
        ended=letter.time, error=error, attempts=letter.history,
    )  # fmt: skip


class _Letter(Struct):
    """A dead letter, as the admin plane tells it."""

    request_id: str
    error: str
    message: str
    time: str = ""
    model: str = ""
    tenant: str = ""
    tier: int | None = None
    history: list[Tried] = []


def of_ledger(
    request_id: str, model: str, tenant: str, tier: str, status: str, arrived: str, ended: str, latency: float
) -> Facts:
    """Returns the facts of a row of the ledger. `status`: SUCCESS, or the error code. `latency`: milliseconds."""
    failed = status != SUCCESS
    return Facts(
        request_id=request_id, status=FAILED if failed else SUCCESS, model=model, tenant=tenant, tier=tier,
        arrived=arrived, ended=ended, latency_ms=latency, error=Error(status) if failed else None,
        timeline_ms=Timeline(answered=latency),
    )  # fmt: skip
