"""What it costs a worker to run a size of batch for the first time. Each service curve (`estimator`) has a
`ShapeCost`, and tells it of first runs and later ones.

The first batch of a size makes many GPUs compile, capture or plan something, which may take far longer than the
batch. Later batches of the size do not take that time, so the service curve leaves it out and learns it here.
"""

from collections import deque
from statistics import median

from penstock.types import Seconds

REMEMBERED = 9  # pairs of a first run and a later one; the cost is their median
# DEAR and UNEVEN are parts of a batch's time.
DEAR = 0.5  # if first runs take longer by less than this, they are learned like other batches
UNEVEN = 0.1  # costs of first runs that differ by more than this hide how long the batch itself took


class ShapeCost:
    """By how much the first run of a size takes longer than later ones."""

    __slots__ = ("_pairs", "dear", "seconds", "uneven")

    def __init__(self) -> None:
        self.seconds: Seconds = 0.0  # by how much a first run takes longer
        self.dear = False  # whether first runs cost so much more that they say nothing of batches
        self.uneven = False  # whether they cost so differently that nothing is left to learn from one of them
        # By how much each first run took longer than a later one, and how long the later one took.
        self._pairs: deque[tuple[Seconds, Seconds]] = deque(maxlen=REMEMBERED)

    @property
    def known(self) -> bool:
        return bool(self._pairs)

    def compare(self, first: Seconds, later: Seconds) -> None:
        """Take in how long a size took the first time, and how long a later run took."""
        self._pairs.append((first - later, later))
        costs, usual = [cost for cost, _ in self._pairs], median([each for _, each in self._pairs])
        self.seconds = max(0.0, median(costs))
        self.dear = self.seconds > DEAR * usual
        self.uneven = self.dear and median([abs(cost - self.seconds) for cost in costs]) > UNEVEN * usual
