"""Staggered dispatch, the default: like trains on a line, one batch every τ, the workers evenly out of step.

No policy can start more than G batches per service time, so the shortest possible gap between starts is τ with
G·τ = S(rate·τ): G workers, each busy with what arrives in one gap. Sending sooner means small batches now and no
free worker a moment later (greedy); sending later means waiting for nothing (window). So:

- What goes together is what has the best throughput. If more waits than that, it goes at once.
- Of two sizes that are nearly as good the smaller one goes, for the sake of latency, but not from a queue that is
  behind: there only throughput counts, and sizes that were hardly ever run are tried.
- One worker has nothing to be out of step with: it takes what there is.
- Of several, one has its turn every τ. Where S grows, a batch goes sooner if it holds a little more than one gap
  brings, and no more than that goes: a batch that is too large makes the next one late, and larger still.
- To be out of step is worth something only while there is traffic that keeps the workers so: each request that
  waits brings the turn forward, by the more the fewer come in one gap.
- Before a burst that is too much for the workers, batches fill, for one service time at most. The first few
  requests of it would else take a worker each. Within a burst the gap is that of the latest arrivals.
- Never past the first deadline, never longer than `max_wait` after the oldest arrival.

A little slack keeps the line from running dry: when S grows with n, and near capacity, the gap is stretched by
5 to 6 %.
"""

from math import ceil, exp

from penstock.core.policy.base import Decision, Send, View, wait_until
from penstock.types import Reason

HEADROOM = 1.15  # a batch may be this much larger than what one gap brings on average
STRETCH_GROWING = 1.05
STRETCH_NEAR_CAPACITY = 1.06
NEAR_CAPACITY = 0.85
LEVEL = 1.08  # a curve that has risen less than this is a constant with noise
LASTING = 3.0  # gaps that an uneven rhythm lasts, times e to the requests in a gap, less 1
ENDLESS = 30.0  # requests in a gap: with more, none is ever empty
SOON = 10.0  # full batches: a queue that takes longer than this to drain is behind
FAR = 2.0  # full batches for each worker: a queue that is behind by so much must not be drained at a wrong guess
CALM = 0.5  # of the rate in bursts: what is slower is the time between them


class Paced:
    def decide(self, view: View) -> Decision:
        curve = view.curve
        if not curve.samples:
            return _not_knowing(view)
        waiting = min(view.waiting, view.max_batch)
        size = curve.best_of(waiting)
        if size < waiting and _behind(view):
            size = curve.most_of(waiting, far_behind=view.waiting >= FAR * view.max_batch * view.workers)
        if size < waiting or waiting == view.max_batch:
            return Send(size, Reason.FULL)
        if view.idle <= view.reserve:
            return wait_until(view, view.give_up)
        if _burst_begins(view):
            return wait_until(view, view.oldest + curve.single)
        if view.all_workers <= 1.0:
            return Send(size, Reason.IDLE)
        return _in_turn(view)


def _in_turn(view: View) -> Decision:
    curve = view.curve
    gap = curve.full / view.workers if curve.flat else _gap(view, view.rising)
    cap = view.max_batch if curve.flat else _cap(view, gap)
    stretch = 1.0
    if curve(cap) > LEVEL * curve.single:
        stretch = STRETCH_GROWING
        if cap < view.waiting <= 2 * cap:  # more than that is a queue, and throughput comes first
            return Send(cap, Reason.FULL)
    elif view.load * curve.best_seconds > NEAR_CAPACITY * curve.best_size * view.all_workers:
        stretch = STRETCH_NEAR_CAPACITY
    earlier = _earlier(view, gap)
    if earlier >= gap:
        return Send(view.max_batch, Reason.IDLE)
    return wait_until(view, view.last_dispatch + stretch * gap - earlier)


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


def _burst_begins(view: View) -> bool:
    """Arrivals are in bursts that the workers cannot keep up with, and it has been calm."""
    capacity = view.workers * view.curve.best_size / view.curve.best_seconds
    return view.rate < CALM * view.peak and view.peak > capacity


def _behind(view: View) -> bool:
    """What waits would be gone late, were it sent in batches of the best size, or never. Where the other workers
    can take all but one batch of it, several small batches are as soon done as a large one."""
    if view.waiting <= view.max_batch * (view.workers - 1.0):
        return False
    curve = view.curve
    spare = view.workers * curve.best_size / curve.best_seconds - view.rate
    return view.waiting > SOON * curve.full * spare


def _gap(view: View, rate: float) -> float:
    """The shortest τ with workers·τ = S(rate·τ), at most S(max_batch)/workers.

    Fixed-point iteration from below, each pair of steps extrapolated as if the curve were a straight line;
    the curve is made of few straight pieces, so it lands after a round or two, and each round gains 0.1 %.
    """
    curve, workers = view.curve, view.workers
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
    """A little more than one gap brings; within a burst that the rate does not show yet, one gap of the burst."""
    rate = view.rising
    if view.peak > rate:
        rate = view.peak
        gap = _gap(view, rate)
    return min(view.max_batch, ceil(HEADROOM * rate * gap) + 1)


def _earlier(view: View, gap: float) -> float:
    """By how much those who wait bring their turn forward.

    To start y before the turn saves the n that wait n·y, and leaves the rhythm uneven: for each gap that this lasts
    the arrivals wait rate·y² longer in all. The sum is best at y = n / (2·rate·gaps).
    """
    rate = max(view.rising, view.peak)
    lasting = LASTING * (exp(min(rate * gap, ENDLESS)) - 1.0)
    if lasting * rate * gap < 1e-9:
        return gap
    return view.waiting / (2.0 * lasting * rate)
