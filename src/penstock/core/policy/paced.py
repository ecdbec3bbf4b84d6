"""Staggered dispatch, the default: like trains on a line, one batch every τ, workers evenly out of step.

No policy can start more than G batches per service time, so the shortest possible gap between starts is
τ with G·τ = S(λ·τ): G workers, each busy with what arrives in one gap. Sending sooner means small batches now
and no free worker a moment later (greedy); sending later means waiting for nothing (window). So:

- workers are plentiful: go at once;
- else one batch every τ, sooner if it is full;
- never past the first deadline, never longer than `max_wait` after the oldest arrival.

A little slack keeps the line from running dry: when S grows with n, and near capacity, the gap is stretched
by 5 to 6 %, since a batch sent a moment too early is short for good.
"""

from math import ceil, sqrt

from penstock.core.policy.base import Decision, Send, View, wait_until
from penstock.types import Reason

HEADROOM = 1.15  # a batch may be this much larger than what one gap brings on average
STRETCH_GROWING = 1.05
STRETCH_NEAR_CAPACITY = 1.06
NEAR_CAPACITY = 0.85


class Paced:
    def decide(self, view: View) -> Decision:
        curve, limit = view.curve, view.max_batch
        if not curve.samples:
            return _not_knowing(view)
        flat = curve.flat
        gap = curve.full / view.workers if flat else _gap(view)
        cap = limit if flat else _cap(view, gap)
        if view.waiting >= cap:
            return Send(cap, Reason.FULL)
        if view.idle <= view.reserve:
            return wait_until(view, view.give_up)
        if _light(view):
            return Send(cap, Reason.IDLE)
        if not flat:
            gap *= STRETCH_GROWING
        elif view.load * curve.full > NEAR_CAPACITY * limit * view.all_workers:
            gap *= STRETCH_NEAR_CAPACITY
        decision = wait_until(view, view.last_dispatch + gap)
        return decision._replace(size=cap) if isinstance(decision, Send) else decision


def _not_knowing(view: View) -> Decision:
    """Decide while nothing is known of S yet: one batch goes at once to learn from, the others wait or fill.

    Going on like that would seize all workers with single requests, and at high load the queue that builds
    up meanwhile takes many service times to drain.
    """
    if view.waiting >= view.max_batch:
        return Send(view.max_batch, Reason.FULL)
    if not view.busy:
        return Send(view.max_batch, Reason.IDLE)
    return wait_until(view, view.oldest + view.max_wait)


def _light(view: View) -> bool:
    """Whether even two standard deviations more requests in service than on average leave a worker free."""
    in_service = view.load * view.curve.single
    return in_service + 2.0 * sqrt(in_service) < view.all_workers


def _gap(view: View) -> float:
    """The shortest τ with workers·τ = S(rate·τ), at most S(max_batch)/workers.

    Fixed-point iteration from below, each pair of steps extrapolated as if the curve were a straight line;
    the curve is made of few straight pieces, so it lands after a round or two, and each round gains 0.1 %.
    """
    curve, workers, rate = view.curve, view.workers, view.rate
    longest = curve.full / workers
    gap = curve.single / workers
    while gap < longest:
        once = curve(rate * gap) / workers
        if once <= gap * 1.001:
            break
        twice = curve(rate * once) / workers
        growth = (twice - once) / (once - gap)
        if growth >= 1.0:
            return longest
        gap += (once - gap) / (1.0 - growth)
    return min(gap, longest)


def _cap(view: View, gap: float) -> int:
    cap = min(view.max_batch, ceil(HEADROOM * view.rate * gap) + 1)
    # The lane is behind: throughput comes first, and past the knee a larger batch buys none.
    if view.waiting > 2 * cap:
        return max(cap, view.curve.best_size)
    return cap
