"""What is learned on line: the arrival rate, and how long a batch of n takes.

The service curve is monotone by size and nothing else is assumed: real GPUs are flat up to a knee and then
linear, so two numbers a + b·n would misplace the knee. Sizes fall into buckets (exact to 8, then four to the
octave); each bucket forgets exponentially, and a bucket nobody has used for long is dropped, so that a GPU
that has become ten times slower is believed after a few batches.
"""

from bisect import bisect_left
from math import exp, log2, sqrt

NEWEST = 0.1  # weight of the newest sample once a bucket is warm, which remembers about ten batches
STALE = 400  # batches after which an unused bucket is no longer evidence
SHORTEST = 1e-6  # a batch between two ticks of the clock took some time all the same
SPREAD_MEMORY = 0.05
SPREAD_CLIP = 2.5  # one hiccup must not widen the guard: samples count up to this many spreads away
CHANGED = 0.4  # weight of a sample that shows, not for the first time, that the GPU is no longer what it was
SETTLED = 64  # samples after which one more moves the curve so little that
REFIT = 4  # batches after which the curve is drawn anew
# The least spread that is assumed: however even the GPU is, clocks, timers and the way back are not.
LEAST_SPREAD = 0.01
GUARD = 2.5  # standard deviations of the service time kept between the expected finish and a deadline
GRAIN = 1 / 256  # the part of a window within which arrivals count as coming at once
KNOWN = 4  # samples after which a size is known
UNSURE = 0.1  # the spread that is assumed of sizes that are not known, however even their few samples
FLAT = 1.08  # a curve that rises by less than this factor from 1 to N is a constant with noise


class RateMeter:
    """An exponentially forgetting count of arrivals."""

    __slots__ = ("_count", "_last", "_next", "window")

    def __init__(self, window: float = 0.25) -> None:
        self.window = window
        self._count = 0.0
        self._last = self._next = 0.0

    def add(self, now: float, number: float = 1.0) -> None:
        """Count arrivals at `now`. For a request that was long under way `now` may lie before the last one's
        time: it then counts as the same."""
        if now > self._next:
            self._count *= exp((self._last - now) / self.window)
            self._last = now
            self._next = now + GRAIN * self.window
        self._count += number

    def rate(self, now: float) -> float:
        return self._count * exp((self._last - now) / self.window) / self.window

    def room(self, rate: float) -> float:
        """How many more may come, whenever, without the rate becoming more than this."""
        return rate * self.window - self._count

    def widen(self, window: float) -> None:
        """Forget over another span, keeping the rate believed so far."""
        self._count *= window / self.window
        self.window = window


class _Bucket:
    __slots__ = ("count", "seconds", "size", "touched")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0.0
        self.seconds = 0.0
        self.touched = 0


class ServiceCurve:
    """Seconds a batch of n takes, as seen so far; 0 until something has been seen."""

    __slots__ = (
        "_buckets",
        "_sizes",
        "_slope",
        "_surprise",
        "_times",
        "best_seconds",
        "best_size",
        "flat",
        "full",
        "limit",
        "samples",
        "single",
        "spread",
        "worst",
    )

    def __init__(self, limit: int) -> None:
        self.limit = limit  # the largest batch there is
        self.samples = 0
        # What follows is asked for more often than it changes, so it is kept and not computed.
        self.single = 0.0  # seconds for a batch of one
        self.full = 0.0  # seconds for a full batch
        self.flat = True  # whether the curve is a constant, but for noise
        self.best_size = limit  # the smallest batch within 2 % of the best throughput: the knee
        self.best_seconds = 0.0  # how long a batch of the best size takes
        self.spread = 0.0  # relative standard deviation around the curve
        # Seconds until a full batch that was just sent is over, and the one after it, with guard.
        self.worst = 0.0
        self._buckets: dict[int, _Bucket] = {}
        self._sizes: list[float] = []
        self._times: list[float] = []
        self._slope = 0.0  # the slope past the largest batch that was seen
        self._surprise = 0  # the side on which the last sample was far off

    def observe(self, size: int, seconds: float) -> None:
        seconds = max(seconds, SHORTEST)
        ratio = seconds / self(size) if self.samples else 1.0
        changed = self._surprised_again(ratio)
        if not changed:
            self._observe_spread(ratio - 1.0)
        self.samples += 1
        bucket = self._buckets.setdefault(_bucket_of(size), _Bucket())
        bucket.count += 1
        weight = max(1.0 / bucket.count, CHANGED if changed else NEWEST)
        if changed and bucket.count >= KNOWN:
            # A size long known is suddenly off. That tells of the GPU and not of the size, so all sizes move
            # along.
            for other in self._buckets.values():
                if other is not bucket:
                    other.seconds *= 1.0 + weight * (ratio - 1.0)
        bucket.size += weight * (size - bucket.size)
        bucket.seconds += weight * (seconds - bucket.seconds)
        bucket.touched = self.samples
        if changed or self.samples < SETTLED or self.samples % REFIT == 0:
            self._refit()
        self.worst = self.full + self.best_seconds * (1.0 + GUARD * (self.spread + LEAST_SPREAD))

    def _surprised_again(self, ratio: float) -> bool:
        """Whether a sample is off to the same side as the last one, beyond what the spread explains: the GPU has
        changed. Once is a hiccup."""
        limit = 1.0 + max(SPREAD_CLIP * self.spread, 0.15)
        side = 1 if ratio > limit else -1 if ratio < 1.0 / limit else 0
        again = side != 0 and side == self._surprise
        self._surprise = side
        return again

    def _observe_spread(self, residual: float) -> None:
        limit = max(SPREAD_CLIP * self.spread, 0.05)
        residual = max(-limit, min(limit, residual))
        self.spread = sqrt(
            (1.0 - SPREAD_MEMORY) * self.spread * self.spread + SPREAD_MEMORY * residual * residual
        )

    def _refit(self) -> None:
        """Draw the curve anew, by isotonic regression over the buckets: neighbours that contradict the order are
        pooled."""
        for key in [k for k, b in self._buckets.items() if self.samples - b.touched > STALE]:
            del self._buckets[key]
        pooled: list[tuple[float, float, float, float]] = []  # (weight, seconds, first size, last size)
        for key in sorted(self._buckets):
            bucket = self._buckets[key]
            weight = min(bucket.count, 10.0) / (1.0 + 0.1 * (self.samples - bucket.touched)) ** 2
            seconds, first = bucket.seconds, bucket.size
            while pooled and pooled[-1][1] >= seconds:
                before_weight, before, first, _ = pooled.pop()
                total = weight + before_weight
                seconds = (seconds * weight + before * before_weight) / total
                weight = total
            pooled.append((weight, seconds, first, bucket.size))
        self._connect(pooled)
        self.single, self.full = self(1), self(self.limit)
        self.flat = self.full <= FLAT * self.single
        self.best_size = self.limit if self.flat else self._knee()
        self.best_seconds = self(self.best_size)

    def _connect(self, pooled: list[tuple[float, float, float, float]]) -> None:
        """Draw the curve through these pools. Each is level from its first size to its last, for the knee is
        where a level one ends."""
        sizes, times = self._sizes, self._times
        sizes.clear()
        times.clear()
        for _, seconds, first, last in pooled:
            sizes.append(first)
            times.append(seconds)
            if last > first:
                sizes.append(last)
                times.append(seconds)
        self._slope = 0.0
        if len(pooled) > 1:
            (weight_before, before, _, from_size), (weight, seconds, _, to_size) = pooled[-2:]
            # What noise alone may have made of the last step must not be carried on to sizes never seen.
            known = min(weight_before, weight) >= KNOWN
            spread = self.spread if known else max(self.spread, UNSURE)
            noise = spread * seconds * (1.0 / sqrt(weight_before) + 1.0 / sqrt(weight))
            self._slope = max(0.0, seconds - before - noise) / (to_size - from_size)

    def __call__(self, size: float) -> float:
        sizes, times = self._sizes, self._times
        if not sizes:
            return 0.0
        if size <= sizes[0]:
            # The curve is flat to the left: a small batch costs about as much as the smallest seen.
            return times[0]
        right = bisect_left(sizes, size)
        if right == len(sizes):
            return times[-1] + self._slope * (size - sizes[-1])
        left = right - 1
        slope = (times[right] - times[left]) / (sizes[right] - sizes[left])
        return times[left] + slope * (size - sizes[left])

    @property
    def largest(self) -> float:
        """The largest size that has been seen."""
        return self._sizes[-1] if self._sizes else 0.0

    def at_most(self, size: float) -> float:
        """The time of a batch of this size. Beyond the largest that was seen, it grows in proportion."""
        largest = self.largest or size
        return self(size) if size <= largest else max(self(size), self._times[-1] * size / largest)

    def _knee(self) -> int:
        limit = self.limit
        candidates = sorted({limit, *(min(limit, max(1, round(size))) for size in self._sizes)})
        best = max(size / self(size) for size in candidates)
        return next(size for size in candidates if size / self(size) >= 0.98 * best)


def _bucket_of(size: int) -> int:
    return size if size <= 8 else 8 + int(4 * log2(size / 8))
