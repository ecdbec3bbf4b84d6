"""The failures of requests that were never sent to a worker in time: one for each setting that can end the wait.
`sealing`, which finds requests whose time is over, answers them with these."""

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
