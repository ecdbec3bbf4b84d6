"""A window as long as it takes to fill a batch at the rate seen, between 50 and 100 ms."""

from penstock.core.policy.base import Decision, Send, View, wait_until
from penstock.types import Reason

SHORTEST = 0.050
LONGEST = 0.100


class Ewma:
    def decide(self, view: View) -> Decision:
        if view.waiting >= view.max_batch:
            return Send(view.max_batch, Reason.FULL)
        fill = view.max_batch / view.rate if view.rate > 0 else LONGEST
        return wait_until(view, view.oldest + min(LONGEST, max(SHORTEST, fill)))
