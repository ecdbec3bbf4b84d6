"""Work-conserving: a free worker takes whatever is there. Best when idle, bunched under load."""

from penstock.core.policy.base import Decision, Send, View
from penstock.types import Reason


class Greedy:
    def decide(self, view: View) -> Decision:
        full = view.waiting >= view.max_batch
        return Send(view.max_batch, Reason.FULL if full else Reason.IDLE)
