"""The policy `greedy`: a free worker takes whatever is there. This is best while little is asked; under load the
workers get in step, and batches are small. The batcher asks it, as any policy, when a worker is idle and something
waits."""

from penstock.core.policy.base import Decision, Send, View
from penstock.types import Reason


class Greedy:
    def decide(self, view: View) -> Decision:
        full = view.waiting >= view.max_batch
        return Send(view.max_batch, Reason.FULL if full else Reason.IDLE)
