"""Which sizes a batch may have, and how many requests go if their number is not an allowed size.

Some models are dear to run at a size for the first time, so they are run at a few sizes only. If the number that
waits is not an allowed size, there are two ways. All go, padded to the next size: the last input is repeated, and
the outputs of the repetitions are thrown away. Or as many go as fit a size, and the rest is kept for the next
batch.

- With padding, every request waits longer, by the difference of the two batch times.
- With keeping, each request of the rest waits for a batch of its own.
- The way with the smaller sum of waits is taken. So a padded batch never takes more of a worker's time than the two
  batches would.
- Exception: all go if the rest would otherwise be too late, and nobody is late in the padded batch.

`sealing` asks this before it fills a batch, and `runtime/padding.py` pads it. The service curve (`estimator`) and
the limits by memory (`safe_sizes`) go by the size that is run.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from penstock.types import Seconds


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that a batch may have, in ascending order. An empty tuple means that every size is allowed."""

    allowed: tuple[int, ...] = ()

    def padded(self, size: float) -> float:
        """The size at which a batch of `size` is run. Beyond the largest size nothing is padded."""
        index = bisect_left(self.allowed, size)
        return size if index == len(self.allowed) else self.allowed[index]

    def fitting(self, size: float) -> int:
        """The largest allowed size that `size` requests fill; 0 if they fill none."""
        if not self.allowed:
            return int(size)
        index = bisect_right(self.allowed, size)
        return self.allowed[index - 1] if index else 0

    def largest_in(self, room: float) -> int:
        """The largest allowed size for which there is room; the smallest, if there is room for none."""
        return self.fitting(room) or self.allowed[0]

    def to_send(self, waiting: int, seconds: Callable[[int], Seconds], patience: Seconds) -> int:
        """Returns how many of the waiting requests go now: all, padded; or as many as fit a size. `seconds(n)`: how
        long a batch of n takes, padding included. `patience`: by how many seconds the most urgent request may be
        answered later than in the batch that fits, if that goes now."""
        fitting = self.fitting(waiting)
        if fitting in (0, waiting):
            return waiting
        rest, shorter = waiting - fitting, seconds(fitting)
        longer = seconds(waiting) - shorter
        dear = waiting * longer > rest * seconds(rest)
        only_together = longer <= patience < shorter
        return fitting if dear and not only_together else waiting


ANY = Sizes()


def powers_to(largest: int) -> Sizes:
    """The powers of two below the largest size, and the largest size itself."""
    powers = [1 << exponent for exponent in range((largest - 1).bit_length())]
    return Sizes((*powers, largest))
