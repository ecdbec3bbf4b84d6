"""When each thing happened to a request. This is read from stamps (times) on the request, its batch and its
execution. `adapters/observe/timeline.py` asks, for what the admin plane tells of a request, and an observer of
yours may. Other observers of Penstock read the few stamps that they need.

| moment | stamped by | where it is noted |
| arrived, admitted | the gateway, both in one turn of its loop | the request |
| sealed, sent | the batcher; over a bus the gateway too, by what the worker says | batch and execution |
| started, ended | the batcher; over a bus the gateway, counted back from when the answer came | the execution |
| answered | the gateway | told to the observers |
"""

from typing import NamedTuple

from penstock.types import Execution, Reply, Seconds


class Moments(NamedTuple):
    """The moments of one request, on the clock of the gateway. None: it did not happen, or the gateway does not
    know when."""

    arrived: Seconds
    admitted: Seconds
    sealed: Seconds | None
    sent: Seconds | None
    started: Seconds | None
    ended: Seconds | None
    answered: Seconds


def moments_of(reply: Reply, answered: Seconds) -> Moments:
    return moments_between(reply.request.arrival, reply.execution, answered)


def moments_between(arrival: Seconds, execution: Execution | None, answered: Seconds) -> Moments:
    """The moments of a request that arrived and was answered at these times, and was run so."""
    if execution is None or execution.cached:
        return Moments(arrival, arrival, None, None, None, None, answered)
    return Moments(
        arrival, arrival, execution.sealed, execution.sent, execution.started, execution.ended, answered
    )
