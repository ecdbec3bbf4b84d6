"""The policy `window`: a batch goes when it is full, or `max_wait` after its oldest request came. Everybody knows
this policy. It is safe and rarely best. Like all policies it is asked by the batcher when a worker is idle, for one
lane at a time."""

from penstock.core.policy.base import Decision, Send, View, wait_until
from penstock.types import Reason


class Window:
    def decide(self, view: View) -> Decision:
        if view.waiting >= view.max_batch:
            return Send(view.max_batch, Reason.FULL)
        return wait_until(view, view.oldest + view.max_wait)
