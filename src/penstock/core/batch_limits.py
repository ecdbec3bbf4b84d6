"""How long a batch may run before its worker counts as hung. `sealing` sets this limit when it sends a batch, and
`aftermath` reports which batches ran out of time.

A batch that hangs holds all its members, and they have little time. So the limit follows what batches usually take,
and leaves time to find the member that hangs:

    an ordinary batch                        5 × the learned time, at least 1 s
    a part of a batch that hung              3 × the learned time, at least 0.25 s: one of its members may hang
    one request alone, nobody else to retry  as an ordinary batch: it holds nobody up, and may just be slow
    while little has been learned            the longest that is allowed; a warm-up tells nothing of real inputs

A size larger than any seen so far may take more time in proportion: stopping a good worker costs more than waiting.

No limit is above `processing`. If several batches run out of time, each but the first doubles the limits of those
after it, and each that succeeds halves them again: if everything has become slow the GPU is the reason, and it
would never be learned how slow it is if every batch were cut short.
"""

from penstock.core.estimator import GUARD, ServiceCurve
from penstock.types import Seconds

# The limit of an ordinary batch, and of a part of a batch that hung: times the learned time, and seconds at least.
USUAL, SHORTEST = 5.0, 1.0
SUSPECT, SHORTEST_SUSPECT = 3.0, 0.25
LEARNED = 8  # batches after which the learned time is believed


class BatchLimits:
    """How long batches of one model may run; `processing` is the longest for any."""

    __slots__ = ("in_a_row", "processing", "rehearsed")

    def __init__(self, processing: Seconds) -> None:
        self.processing = processing
        self.rehearsed = 0  # samples of the curve that are from warm-ups
        self.in_a_row = 0  # batches that ran out of time, less those that succeeded since

    def limit(self, curve: ServiceCurve, size: int, *, hurry: bool) -> Seconds:
        """How long a batch of this size may run. `hurry`: it is a part of a batch that hung."""
        if curve.samples - self.rehearsed < (1 if hurry else LEARNED):
            return self.processing
        noise = 1.0 + GUARD * curve.spread
        if hurry:
            limit = max(SHORTEST_SUSPECT, SUSPECT * noise * curve(size))
        else:
            limit = max(SHORTEST, USUAL * noise * curve.at_most(size))
        if self.in_a_row > 1:
            limit *= 2.0 ** min(self.in_a_row - 1, 10)
        return min(limit, self.processing)

    def ran_out(self) -> None:
        self.in_a_row += 1

    def succeeded(self) -> None:
        if self.in_a_row:
            self.in_a_row -= 1
