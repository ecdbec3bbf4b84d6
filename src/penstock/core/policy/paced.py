"""Staggered dispatch, the default: like trains on a line, the workers evenly out of step.

No policy can start more than G batches per service time. Sending sooner means small batches now and no free worker a
moment later (greedy); sending later means waiting for nothing (window). So a batch goes when its turn has come:

- What goes together is what has the best throughput. If more waits, it goes at once: waiting would buy nothing.
- One worker has nothing to be out of step with: it takes what there is.
- Of several, each has its turn one gap after the last batch went. The gap lies between two answers to the same
  question: S(n)/G, where the G workers would be busy without a pause if all batches were like this one; and the
  middle between the last start and the next worker that frees, which mends what has fallen into step.
- Being in step does harm only while there is traffic to keep it up: each request that waits shortens the gap, by the
  more the fewer come in one gap.
- Before a burst that the workers cannot keep up with, batches fill, for one service time at most. The first few of it
  would take a worker each.
- Never past the first deadline, never longer than `max_wait` after the oldest arrival.

A little slack keeps the line from running dry: when S grows with n, and near capacity, the gap is stretched by 5 to 6 %.
"""

from math import exp

from penstock.core.policy.base import Decision, Send, View, wait_until
from penstock.types import Reason

STRETCH_GROWING = 1.05
STRETCH_NEAR_CAPACITY = 1.06
NEAR_CAPACITY = 0.85
LASTING = 3.0  # how many gaps a bad rhythm lasts, where e - 1 gaps are seldom empty
ENDLESS = 30.0  # requests in a gap, from which on none is ever empty
CALM = 0.5  # of the rate in bursts: what is slower is the time between them


class Paced:
    def decide(self, view: View) -> Decision:
        curve = view.curve
        if not curve.samples:
            return _not_knowing(view)
        waiting = min(view.waiting, view.max_batch)
        size = curve.best_of(waiting)
        if size < waiting or waiting == view.max_batch:
            return Send(size, Reason.FULL)
        if view.idle <= view.reserve:
            return wait_until(view, view.give_up)
        if _burst_begins(view):
            return wait_until(view, view.oldest + curve.single)
        if view.all_workers <= 1.0:
            return Send(size, Reason.IDLE)
        even = curve.hopeful(size) / view.workers
        earlier = _earlier(view, even)
        if earlier >= even:
            return Send(size, Reason.IDLE)
        return wait_until(view, view.last_dispatch + _gap(view, even) - earlier)


def _not_knowing(view: View) -> Decision:
    """Nothing is known of S yet: one batch goes at once to learn from, the others wait or fill.

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


def _gap(view: View, even: float) -> float:
    """From the last start to the next."""
    if view.busy:
        even = 0.5 * (even + (view.next_free - view.last_dispatch) / (view.idle + 1))
    if not view.curve.flat:
        return STRETCH_GROWING * even
    near = view.load * view.curve.full > NEAR_CAPACITY * view.max_batch * view.all_workers
    return STRETCH_NEAR_CAPACITY * even if near else even


def _earlier(view: View, gap: float) -> float:
    """By how much those who wait bring their turn forward.

    To start y before the turn saves the n that wait n·y, and leaves the rhythm uneven: for each gap that this lasts
    the arrivals wait rate·y² longer in all. The sum is best at y = n / (2·rate·gaps).
    """
    lasting = LASTING * (exp(min(view.rate * gap, ENDLESS)) - 1.0)
    if lasting * view.rate * gap < 1e-9:
        return gap
    return view.waiting / (2.0 * lasting * view.rate)
