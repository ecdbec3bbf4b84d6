"""The view a policy looks at, and the two things it can say."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

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


@dataclass(slots=True)
class View:
    """One lane at one moment. There is an idle worker, and something waits: nobody asks otherwise."""

    now: Seconds
    waiting: int
    oldest: Seconds  # arrival of the request that has waited longest
    give_up: Seconds  # when the most urgent request must be on its worker
    rate: float  # arrivals per second in this lane
    rising: float  # the same by the latest arrivals, if those are surely more
    peak: float  # the rate that those who arrive in this lane see: above `rate` where they come in bursts
    load: float  # arrivals per second in all lanes of the model
    workers: float  # the workers that may be counted on, times this lane's share of the load
    all_workers: float
    idle: int
    busy: int
    last_dispatch: Seconds
    max_batch: int
    max_wait: Seconds
    reserve: int  # idle workers kept back for full batches
    curve: ServiceCurve


class Policy(Protocol):
    def decide(self, view: View) -> Decision: ...


def wait_until(view: View, due: Seconds) -> Decision:
    """Wait for `due`, but never past the first deadline nor longer than `max_wait`."""
    return wait_for(view, min(due, view.oldest + view.max_wait))


def wait_for(view: View, due: Seconds) -> Decision:
    """Wait for `due`, but never past the first deadline. The policy has bounds of its own."""
    if due <= view.now:
        return Send(view.max_batch, Reason.DUE)
    if view.give_up <= view.now:
        return Send(view.max_batch, Reason.DEADLINE)
    return Wait(min(due, view.give_up))
