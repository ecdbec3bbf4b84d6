"""What a batch of a size costs that its worker has never run.

The first batch of a size makes many GPUs compile, capture or plan something, which may take far longer than the
batch. That time belongs to the shape and not to batches, so the service curve learns it apart.
"""

from collections import deque
from statistics import median

from penstock.types import Seconds

REMEMBERED = 9  # pairs of a first run and a later one that the cost is the median of
UNEVEN = 0.1  # of what a batch takes: costs that differ by more hide how long the batch itself took
DEAR = 0.5  # of what a batch takes: first runs that cost less than that more tell of batches like any other


class ShapeCost:
    """What the first run of a size takes longer than the later ones, by pairs of both."""

    __slots__ = ("_pairs", "dear", "seconds", "uneven")

    def __init__(self) -> None:
        self.seconds: Seconds = 0.0
        self.dear = False  # whether first runs cost so much more that they say nothing of batches
        self.uneven = False  # whether they cost so differently that nothing is left to learn from one of them
        self._pairs: deque[tuple[Seconds, Seconds]] = deque(maxlen=REMEMBERED)

    @property
    def known(self) -> bool:
        return bool(self._pairs)

    def compare(self, first: Seconds, later: Seconds) -> None:
        """Take in what a size took the first time, and what it takes since."""
        self._pairs.append((first - later, later))
        costs, usual = [cost for cost, _ in self._pairs], median([each for _, each in self._pairs])
        self.seconds = max(0.0, median(costs))
        self.dear = self.seconds > DEAR * usual
        self.uneven = self.dear and median([abs(cost - self.seconds) for cost in costs]) > UNEVEN * usual
