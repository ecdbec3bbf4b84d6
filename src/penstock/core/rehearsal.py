"""What is learned from the batches of a warm-up, which nobody asked for. The `Batcher` notes here what a slot has
run in its warm-up, and `aftermath` which sizes real batches have had.

- The first run of a size on a worker tells what a new size costs, and is kept apart. The later ones tell how long a
  batch takes.
- Times of made-up inputs count until a real batch has been learned from. After that they might mislead.
- Times of a real input, run again in idle moments, count for sizes that no real batch has had.
- Neither says how long a batch may take at most, since real inputs may be larger: no batch is cut short until eight
  real ones have been run (`batch_limits`).
"""

from statistics import median

from penstock.core.estimator import ServiceCurve
from penstock.types import Rung


class Rehearsals:
    """What one model's batcher has learned from warm-ups."""

    __slots__ = ("_curve", "_real")

    def __init__(self, curve: ServiceCurve) -> None:
        self._curve = curve
        self._real: set[int] = set()  # sizes that real batches have had

    def was_real(self, size: int) -> None:
        """A real batch of this size has been learned from."""
        self._real.add(size)

    def learn(self, rung: Rung, *, real: bool) -> int:
        """Learn from one size of a warm-up. Returns how many samples the curve took from it. `real`: the input came
        from a client."""
        curve, known = self._curve, self._curve.samples
        if rung.size in self._real or (self._real and not real):
            curve.shape.compare(rung.first, median(rung.again))
            return 0
        curve.observe(rung.size, rung.first, first=True)
        for seconds in rung.again:
            curve.observe(rung.size, seconds)
        return curve.samples - known
