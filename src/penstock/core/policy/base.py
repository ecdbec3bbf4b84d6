"""What a policy is shown (`View`) and what it may answer (`Send` or `Wait`). `core/sealing.py` makes the view of
one lane and asks the policy of the model."""

from typing import NamedTuple, Protocol

from msgspec import Struct

from penstock.core.estimator import ServiceCurve
from penstock.types import Reason, Seconds


class Send(NamedTuple):
    """Send up to `size` requests now."""

    size: int
    reason: Reason


class Wait(NamedTuple):
    """Ask again at `until`, or when something happens."""

    until: Seconds


Decision = Send | Wait


class View(Struct, gc=False):
    """One lane at one moment. `core/sealing.py` asks only if a worker is idle, or is about to be, and a request
    waits in the lane. So a policy need not check either."""

    now: Seconds
    waiting: int
    oldest: Seconds  # arrival of the request that has waited longest
    give_up: Seconds  # when the most urgent request must be on its worker
    rate: float  # arrivals per second in this lane
    rising: float  # arrivals per second by the latest arrivals, if these are surely more than `rate`
    peak: float  # arrivals per second around each arrival: above `rate` if they come in bursts
    load: float  # arrivals per second in all lanes of the model
    workers: float  # the workers that may be counted on, times this lane's part of the load
    all_workers: float  # the workers that may be counted on, for all lanes
    idle: int  # workers that are idle, or can be expected to be at once
    busy: int  # workers that run a batch of this batcher
    last_dispatch: Seconds  # when a batch of this lane was last sent
    max_batch: int  # the largest batch that the worker may have
    max_wait: Seconds
    reserve: int  # idle workers kept back for full batches
    curve: ServiceCurve  # how long a batch of each size takes


class Policy(Protocol):
    def decide(self, view: View) -> Decision:
        """Say what to do with this lane now. Changes nothing."""
        ...


def wait_until(view: View, due: Seconds) -> Decision:
    """Wait for `due`, but never past the first deadline nor longer than `max_wait`."""
    return wait_for(view, min(due, view.oldest + view.max_wait))


def wait_for(view: View, due: Seconds) -> Decision:
    """Wait for `due`, but never past the first deadline. `max_wait` does not count: the policy sets its own
    limit."""
    if due <= view.now:
        return Send(view.max_batch, Reason.DUE)
    if view.give_up <= view.now:
        return Send(view.max_batch, Reason.DEADLINE)
    return Wait(min(due, view.give_up))
