"""What was measured of batches, by size. The service curve (`estimator`), which says how long a batch of n takes,
notes each batch here and is drawn through the means.

Each size up to 8 has a bucket of its own. From there on, four buckets hold the sizes of an octave (a doubling), and
the power of two at its end has one of its own.
"""

from typing import NamedTuple

from penstock.types import Seconds

NEWEST = 0.04  # weight of the newest sample once a bucket is warm: about twenty-five batches of memory
KNOWN = 4  # samples after which a size is known
SHORTEST = 1e-6  # seconds: a batch between two ticks of the clock took some time all the same
MEMORY = 1.0 / NEWEST  # samples: a bucket weighs no more than so many
FADING = 0.1  # with each batch of another size, a bucket loses weight beside its neighbours by this


class Bucket:
    """What is known of the batches of similar sizes: means of their sizes and times. First runs of a size are kept
    apart from later ones."""

    __slots__ = ("_first_size", "began", "count", "first_seconds", "firsts", "seconds", "size", "touched")

    def __init__(self, began: int) -> None:
        self.began = began  # how many samples of all sizes there were before its first
        self.count = 0  # batches, first runs left out
        self.size = 0.0  # the mean size of these batches
        self.seconds: Seconds = 0.0  # the mean time of these batches
        self.firsts = 0  # first runs
        self.first_seconds: Seconds = 0.0  # the mean time of first runs
        self._first_size = 0.0  # the mean size of first runs
        self.touched = 0  # how many samples of all sizes there were when it was last used

    @property
    def known(self) -> bool:
        """Whether enough batches were seen to believe the mean."""
        return self.count >= KNOWN

    def add(self, size: int, seconds: Seconds, weight: float) -> None:
        """Take in a batch. `weight`: how much it counts in the means, at least."""
        self.count += 1
        weight = max(1.0 / self.count, weight)
        self.size += weight * (size - self.size)
        self.seconds += weight * (seconds - self.seconds)

    def add_first(self, size: int, seconds: Seconds) -> None:
        """Take in the first run of a size."""
        self.firsts += 1
        weight = max(1.0 / self.firsts, NEWEST)
        self._first_size += weight * (size - self._first_size)
        self.first_seconds += weight * (seconds - self.first_seconds)

    def move_along(self, factor: float, most: Seconds) -> None:
        """Multiply the learned times by a factor, up to `most`, since another size has suddenly become slower or
        faster."""
        self.seconds = min(self.seconds * factor, max(self.seconds, most))
        self.first_seconds = min(self.first_seconds * factor, max(self.first_seconds, most))

    def begin_anew(self) -> None:
        """Forget the first few batches: they were slow by accident."""
        self.count = 0

    def pool(self, now: int, shape: Seconds) -> "Pool":
        """What this bucket says after `now` batches. If it has only first runs: what these took, less `shape`, the
        cost of running a size for the first time."""
        faded = (1.0 + FADING * (now - self.touched)) ** 2
        if self.count:
            samples = min(self.count, MEMORY)
            return Pool(samples / faded, samples, self.seconds, self.size, self.size)
        size, samples = self._first_size, min(self.firsts, MEMORY)
        return Pool(samples / faded, samples, max(self.first_seconds - shape, SHORTEST), size, size)


class Pool(NamedTuple):
    """One bucket; or several neighbours taken together, because by themselves a larger size would be faster."""

    weight: float
    samples: float
    seconds: Seconds
    first: float  # its smallest size
    last: float  # its largest size

    def joined(self, after: "Pool") -> "Pool":
        """This pool and the next one, taken together."""
        weight = self.weight + after.weight
        seconds = (self.seconds * self.weight + after.seconds * after.weight) / weight
        return Pool(weight, self.samples + after.samples, seconds, self.first, after.last)


def in_order(buckets: dict[int, Bucket], now: int, shape: Seconds, *, uneven: bool = False) -> list[Pool]:
    """The buckets from the smallest size on, so that no larger size is faster (isotonic regression): neighbours
    that contradict this are pooled. `uneven`: what a new shape costs varies."""
    pools: list[Pool] = []
    for key in _telling(buckets) if uneven else sorted(buckets):
        pool = buckets[key].pool(now, shape)
        while pools and pools[-1].seconds >= pool.seconds:
            pool = pools.pop().joined(pool)
        pools.append(pool)
    return pools


def _telling(buckets: dict[int, Bucket]) -> list[int]:
    """The numbers of the buckets, in order. A bucket with nothing but first runs is left out if it lies between
    others, since these tell more."""
    known = [key for key, bucket in buckets.items() if bucket.count]
    first, last = min(known, default=0), max(known, default=0)
    return [key for key in sorted(buckets) if buckets[key].count or not first < key < last]


def bucket_of(size: int) -> int:
    """The number of a size's bucket. Powers of two have buckets of their own: the steps of padded models end
    there."""
    if size <= 8:
        return size
    octave = (size - 1).bit_length()
    return 8 * octave + ((size - 1) >> (octave - 3) & 3) + (size == 1 << octave)
