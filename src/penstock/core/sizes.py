"""Which sizes a batch may have, and how many requests go where their number is none of these.

Some models are dear to run at a size for the first time, so they are run at a few sizes only. A batch of another
size is padded to the next allowed one by repeating its last input, and what comes out of the repetitions reaches
nobody. Or what fits goes, and the rest is kept for the next batch:

- Padding makes all of them wait longer: the time of the padded batch beyond that of the batch that fits.
- Keeping makes the rest wait for a batch of its own. The sum of these waits decides. So padding never takes more of
  a worker's time than what fits and, after it, the rest.
- The rest is kept only if it can still be sent in time.

`core.sealing` asks this, and the service curve goes by the size that is run.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from penstock.types import Seconds


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that a batch may have, in ascending order; none: any."""

    allowed: tuple[int, ...] = ()

    def padded(self, size: float) -> float:
        """The size at which so many are run. Beyond the largest, nothing is padded."""
        place = bisect_left(self.allowed, size)
        return size if place == len(self.allowed) else self.allowed[place]

    def fitting(self, size: float) -> int:
        """The largest allowed size that so many fill; 0 if they fill none."""
        place = bisect_right(self.allowed, size)
        return self.allowed[place - 1] if place else 0

    def largest_in(self, room: float) -> int:
        """The largest allowed size for which there is room; the smallest, if there is room for none."""
        return self.fitting(room) or self.allowed[0]

    def to_send(self, waiting: int, seconds: Callable[[int], Seconds], patience: Seconds) -> int:
        """How many of so many that wait go now: all, padded, or what fits. `seconds`: how long a batch of so many
        takes. `patience`: how long the rest may be kept."""
        fitting = self.fitting(waiting)
        if fitting in (0, waiting):
            return waiting
        rest, shorter = waiting - fitting, seconds(fitting)
        longer = seconds(waiting) - shorter
        keep = waiting * longer > rest * seconds(rest) and shorter <= patience
        return fitting if keep else waiting


ANY = Sizes()


def powers_to(largest: int) -> Sizes:
    """The powers of two below the largest size, and that itself, whatever it is."""
    powers = [1 << exponent for exponent in range((largest - 1).bit_length())]
    return Sizes((*powers, largest))
