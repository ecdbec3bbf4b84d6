"""The policy `paced`, the default: like trains on a line, one batch goes every τ, and the workers are evenly out of
step.

S(n) is how long a batch of n takes. G workers cannot start more than G batches per service time, so the shortest
possible gap between starts is τ with G·τ = S(rate·τ): each worker is busy with what arrives in one gap. Sending
sooner means small batches now and no free worker a moment later (greedy); sending later means waiting for nothing
(window). So:

- The best batch is the size with the best throughput. If more waits than that, a best batch goes at once.
- Of two sizes that are nearly as good the smaller one goes, for the sake of latency. But if the queue is behind,
  only throughput counts, and sizes that were hardly ever run are tried.
- One worker that would hardly keep up in batches of the smaller size takes all, unless the smaller size surely has
  the better throughput.
- One worker has nothing to be out of step with: it takes what there is.
- Of several workers, one has its turn every τ. Where S grows with n, a batch goes sooner if it holds a little more
  than one gap brings, and no more than that goes: a batch that is too large makes the next one late, and larger.
- Being out of step is worth something only while there is enough traffic to keep the workers so. So each request
  that waits brings the turn forward, and the more so the fewer arrive in one gap.
- When a burst begins that is too much for the workers, batches fill, for one service time at most. Otherwise its
  first few requests would take a worker each. Within a burst the gap is that of the latest arrivals.
- A batch never waits past the first deadline, nor longer than `max_wait` after the oldest arrival.

A little slack keeps the line from running dry: when S grows with n, and near capacity, the gap is stretched by 5 to
6 %.

The batcher asks it, as any policy, when a worker is idle and something waits in a lane. It answers with a size, or
with the moment at which it wants to be asked again.
"""

from math import ceil, exp

from penstock.core.policy.base import Decision, Send, View, wait_until
from penstock.types import Reason

HEADROOM = 1.15  # a batch may be this much larger than what one gap brings on average
STRETCH_GROWING = 1.05  # the gap, times this, where a batch takes longer the larger it is
STRETCH_NEAR_CAPACITY = 1.06  # the gap, times this, near capacity
NEAR_CAPACITY = 0.85  # the part of the capacity from which on it is near
LEVEL = 1.08  # a curve that has risen less than this is a constant with noise
# An uneven rhythm lasts this times (e^n - 1) gaps, where n requests arrive in a gap.
LASTING = 3.0
ENDLESS = 30.0  # requests in a gap: if there are more, no gap is ever without a request
SOON = 10.0  # full batches: a queue that takes longer than this to drain is behind
FAR = 2.0  # full batches for each worker: a queue that is behind and as long as this is far behind
# One worker hardly keeps up if the arrivals take from this to that part of its time. A burst of more than that does
# not last, and is left to `_behind`.
HARDLY, BURST = 0.85, 1.05
CALM = 0.5  # if the rate is less than this part of the rate in bursts, no burst is under way


class Paced:
    def decide(self, view: View) -> Decision:
        curve = view.curve
        if not curve.samples:
            return _not_knowing(view)
        waiting = min(view.waiting, view.max_batch)
        size = curve.best_of(waiting)
        if size < waiting and _hardly_keeps_up(view, size) and not curve.surely_better(size, waiting):
            size = waiting
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

    If the others also went at once, single requests would occupy all workers, and at high load the queue that
    builds up meanwhile takes many service times to drain.
    """
    if view.waiting >= view.max_batch:
        return Send(view.max_batch, Reason.FULL)
    if not view.busy:
        return Send(view.max_batch, Reason.IDLE)
    return wait_until(view, view.oldest + view.max_wait)


def _burst_begins(view: View) -> bool:
    """Whether arrivals come in bursts that the workers cannot keep up with, and one begins after a calm time."""
    capacity = view.workers * view.curve.best_size / view.curve.best_seconds
    return view.rate < CALM * view.peak and view.peak > capacity


def _hardly_keeps_up(view: View, size: int) -> bool:
    """Whether there is one worker, and it would be busy nearly all the time in batches of this size. With several
    workers, what one leaves behind is soon taken by the next."""
    return view.all_workers <= 1.0 and HARDLY < view.rate * view.curve(size) / size < BURST


def _behind(view: View) -> bool:
    """Whether the queue would take too long to drain, or would never drain, in batches of the best size. If the
    other workers can take all but one batch of it, several small batches are done as soon as a large one."""
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
    """The most that goes in one batch: a little more than one gap brings. In a burst that the rate does not show
    yet, a gap of the burst counts."""
    rate = view.rising
    if view.peak > rate:
        rate = view.peak
        gap = _gap(view, rate)
    return min(view.max_batch, ceil(HEADROOM * rate * gap) + 1)


def _earlier(view: View, gap: float) -> float:
    """By how many seconds the requests that wait bring their turn forward.

    Starting y seconds early saves n waiting requests n·y, and leaves the rhythm uneven: for each gap that this
    lasts, the arrivals wait rate·y² longer in all. The sum is best at y = n / (2·rate·gaps).
    """
    rate = max(view.rising, view.peak)
    lasting = LASTING * (exp(min(rate * gap, ENDLESS)) - 1.0)
    if lasting * rate * gap < 1e-9:
        return gap
    return view.waiting / (2.0 * lasting * rate)
