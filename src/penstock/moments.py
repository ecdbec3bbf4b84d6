"""When what happened to a request: from the stamps that it, its batch and its execution carry.

| moment | stamped by | on |
| arrived, admitted | its gateway, in one and the same turn of its loop | the request |
| sealed, sent | the batcher | the batch; known to the gateway where both are one process |
| started | the batcher, as it sends it; else its gateway, from when the answer came | the execution |
| ended | likewise | the execution |
| answered | its gateway | told to the observers |
"""

from typing import NamedTuple

from penstock.types import Reply, Seconds


class Moments(NamedTuple):
    """On the clock of the gateway. None: it never came to that, or nobody here knows when."""

    arrived: Seconds
    admitted: Seconds
    sealed: Seconds | None
    sent: Seconds | None
    started: Seconds | None
    ended: Seconds | None
    answered: Seconds


def moments_of(reply: Reply, answered: Seconds) -> Moments:
    arrival, execution = reply.request.arrival, reply.execution
    if execution is None or execution.cached:
        return Moments(arrival, arrival, None, None, None, None, answered)
    return Moments(
        arrival, arrival, execution.sealed, execution.sent, execution.started, execution.ended, answered
    )
