"""What ended the wait of a request that was never sent to a worker: one failure for each setting that may have."""

from penstock.types import Failure, Request, Seconds, has_own_limit

QUEUED_TOO_LONG = Failure(
    "DEADLINE_EXCEEDED", "no worker was free within the time that timeouts.queue allows"
)
TOO_LATE = Failure(
    "DEADLINE_EXCEEDED", "no worker was free in time to answer within the time that timeouts.request allows"
)
TOO_LATE_FOR_CLIENT = Failure(
    "DEADLINE_EXCEEDED", "no worker was free in time to answer within its timeout_ms"
)


def late(request: Request, now: Seconds) -> Failure:
    """The failure of a request whose wait is over. It says which setting ended it."""
    if has_own_limit(request):
        return TOO_LATE_FOR_CLIENT
    return QUEUED_TOO_LONG if now > request.expires else TOO_LATE
