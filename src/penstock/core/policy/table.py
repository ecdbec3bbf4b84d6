"""The policy `table`: size and wait are looked up by depth and utilisation, as many teams do by hand.

quiet     utilisation < 0.5 and depth < 10        16 requests, 30 ms
pressed   depth > 100 or utilisation > 0.85       64 requests, 100 ms
else                                              32 requests, 50 ms

The waits are the table's own, whatever `max_wait` is. If more requests wait than the idle workers can take in
batches of that size, throughput comes first: a batch then has the size with the best throughput.

The batcher asks it for each lane while a worker is idle.
"""

from penstock.core.policy.base import Decision, Send, View, wait_for
from penstock.types import Reason


class Table:
    def decide(self, view: View) -> Decision:
        size, wait = _row(view.waiting, _utilisation(view))
        size = min(size, view.max_batch)
        if view.waiting > size * view.idle:
            return Send(max(size, view.curve.best_size), Reason.FULL)
        if view.waiting >= size:
            return Send(size, Reason.FULL)
        decision = wait_for(view, view.oldest + wait)
        return decision._replace(size=size) if isinstance(decision, Send) else decision


def _utilisation(view: View) -> float:
    """Returns the offered load divided by the capacity."""
    return view.load * view.curve.full / (view.max_batch * view.all_workers)


def _row(depth: int, utilisation: float) -> tuple[int, float]:
    if depth > 100 or utilisation > 0.85:
        return 64, 0.100
    if utilisation < 0.5 and depth < 10:
        return 16, 0.030
    return 32, 0.050
