"""The policy `ewma`: a window that follows the arrival rate, short when traffic is low and long when it is high.

Waiting is worth as much as the number of requests that join meanwhile. So the window is 100 ms times the part of a
full batch that would arrive in 100 ms at the rate seen. It is at least 5 ms and at most 100 ms, whatever `max_wait`
is. When traffic is very high a batch is full before its window ends, and goes then.

Chosen by `policy = "ewma"`. The batcher asks it for each lane that has something, while a worker is idle.
"""

from penstock.core.policy.base import Decision, Send, View, wait_for
from penstock.types import Reason

SHORTEST = 0.005  # seconds
LONGEST = 0.100  # seconds


class Ewma:
    def decide(self, view: View) -> Decision:
        if view.waiting >= view.max_batch:
            return Send(view.max_batch, Reason.FULL)
        joining = view.rate * LONGEST / view.max_batch
        return wait_for(view, view.oldest + min(LONGEST, max(SHORTEST, joining * LONGEST)))
