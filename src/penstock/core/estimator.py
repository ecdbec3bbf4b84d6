"""What is learned on line: the arrival rate, and how long a batch of n takes.

The service curve is monotone by size and nothing else is assumed: real GPUs are flat up to a knee and then
linear, so two numbers a + b·n would misplace the knee. Sizes fall into buckets (exact to 8, then four to the
octave); each bucket forgets exponentially, and a bucket nobody has used for long is dropped, so that a GPU
that has become ten times slower is believed after a few batches.
"""

from bisect import bisect_left
from math import exp, sqrt
from typing import NamedTuple

NEWEST = 0.04  # weight of the newest sample once a bucket is warm: about twenty-five batches of memory
STALE = 20_000  # batches after which an unused bucket is no longer evidence
LUCK = 0.3  # spreads by which a single throughput may look better than it is
SHORTEST = 1e-6  # a batch between two ticks of the clock took some time all the same
SPREAD_MEMORY = 0.05
SPREAD_CLIP = 2.5  # one hiccup must not widen the guard: samples count up to this many spreads away
CHANGED = 0.4  # weight of a sample that shows, not for the first time, that the GPU is no longer what it was
SETTLED = 64  # samples after which one more moves the curve so little that
REFIT = 4  # batches after which the curve is drawn anew
# The least spread that is assumed: however even the GPU is, clocks, timers and the way back are not.
LEAST_SPREAD = 0.01
GUARD = 2.5  # standard deviations of the service time kept between the expected finish and a deadline
GRAIN = 1 / 256  # of a window: what comes closer together than this comes at once
YOUNG = 4.0  # windows after which a meter's first moment no longer matters
BURST = 0.08  # of the window: arrivals that are closer together than that are of one burst
REMEMBERED = 500.0  # arrivals over which the rate in bursts is taken
KNOWN = 4  # samples after which a size is known
UNSURE = 0.1  # the spread that is assumed of sizes that are not, however even their few samples
CRUMBS = 0.75  # if less than the rest of that would stay behind, all go together
NEAR = 1.3  # sizes that differ by no more than this factor tell of each other
WITHIN = 0.02  # of the best throughput is as good as the best
FLAT = 1.08  # a curve that rises less than this from 1 to N is a constant with noise


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
            self._forget(now)
        self._count += number

    def _forget(self, now: float) -> None:
        self._count *= exp((self._last - now) / self.window)
        self._last = now
        self._next = now + GRAIN * self.window

    def rate(self, now: float) -> float:
        return self._count * exp((self._last - now) / self.window) / self.window

    def room(self, rate: float) -> float:
        """How many more may come, whenever, without the rate becoming more than this."""
        return rate * self.window - self._count

    def widen(self, window: float) -> None:
        """Forget over another span, keeping the rate believed so far."""
        self._count *= window / self.window
        self.window = window


class ArrivalMeter(RateMeter):
    """The rate of a lane's arrivals, and that which they themselves see: both alike but for traffic in bursts."""

    __slots__ = ("_began", "_marked", "_seen", "_short", "peak")

    def __init__(self, window: float = 0.25) -> None:
        super().__init__(window)
        self.peak = 0.0  # the rate around an arrival, on average over the last few hundred
        self._began: float | None = None
        self._marked = 0.0  # `_count` as it was at `_last`
        self._short = 0.0  # a count as `_count`, forgotten over a small part of the window
        self._seen = 0.0  # arrivals in all, as far as they are remembered

    def _forget(self, now: float) -> None:
        self._look_back(now)
        super()._forget(now)
        self._marked = self._count

    def widen(self, window: float) -> None:
        self._marked *= window / self.window
        super().widen(window)

    def rate(self, now: float) -> float:
        """While it is young it has had no time to count to more, and says so: one of two that came together
        belongs to a flood until time has shown otherwise."""
        rate = super().rate(now)
        if self._began is None or now - self._began > YOUNG * self.window:
            return rate
        return rate / (1.0 - exp((self._began - now) / self.window - GRAIN))

    def _look_back(self, now: float) -> None:
        """Those that came since the last look have seen each other, and those shortly before them."""
        new, span = self._count - self._marked, BURST * self.window
        if self._began is None:
            self._began = now
        if new > 0.0:
            self._seen = min(REMEMBERED, self._seen + new)
            around = (self._short + 0.5 * (new - 1.0)) / span
            self.peak += new / self._seen * (around - self.peak)
        self._short = (self._short + new) * exp((self._last - now) / span)


class _Bucket:
    __slots__ = ("count", "seconds", "size", "touched")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0.0
        self.seconds = 0.0
        self.touched = 0


class _Pool(NamedTuple):
    """Neighbouring buckets that contradict the order, taken together; or one that contradicts nobody."""

    weight: float
    samples: float
    seconds: float
    first: float  # size
    last: float

    def joined(self, after: "_Pool") -> "_Pool":
        weight = self.weight + after.weight
        seconds = (self.seconds * self.weight + after.seconds * after.weight) / weight
        return _Pool(weight, self.samples + after.samples, seconds, self.first, after.last)


class ServiceCurve:
    """Seconds a batch of n takes, as seen so far; 0 until something has been seen."""

    __slots__ = (
        "_best",
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
        self._best: list[
            tuple[int, float]
        ] = []  # for each of `_sizes`: the best size up to it, and its throughput
        self._slope = 0.0  # past the largest batch seen
        self._surprise = 0  # the side on which the last sample was far off

    def reach(self, limit: int) -> None:
        """The largest batch there is has changed. What was learned stays."""
        self.limit = limit
        if self.samples:
            self._refit()
            self._look_ahead()
        else:
            self.best_size = limit

    def observe(self, size: int, seconds: float) -> None:
        seconds = max(seconds, SHORTEST)
        bucket = self._buckets.setdefault(_bucket_of(size), _Bucket())
        ratio = seconds / self._expected(size, seconds, bucket) if self.samples else 1.0
        changed = self._surprised_again(ratio)
        if not changed:
            self._observe_spread(ratio - 1.0)
        self.samples += 1
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
        self._look_ahead()

    def _look_ahead(self) -> None:
        self.worst = self.full + self.best_seconds * (1.0 + GUARD * (self.spread + LEAST_SPREAD))

    def _expected(self, size: int, seconds: float, bucket: _Bucket) -> float:
        """By the curve, or by others of its bucket: at the foot of a step the curve lies between its two levels."""
        expected = self(size)
        known = bucket.count >= KNOWN and abs(bucket.seconds - seconds) < abs(expected - seconds)
        return bucket.seconds if known else expected

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
        pools: list[_Pool] = []
        for key in sorted(self._buckets):
            bucket = self._buckets[key]
            samples = min(bucket.count, 1.0 / NEWEST)
            weight = samples / (1.0 + 0.1 * (self.samples - bucket.touched)) ** 2
            pool = _Pool(weight, samples, bucket.seconds, bucket.size, bucket.size)
            while pools and pools[-1].seconds >= pool.seconds:
                pool = pools.pop().joined(pool)
            pools.append(pool)
        self._connect(pools)
        self.single, self.full = self(1), self(self.limit)
        self._best = self._best_up_to_each(pools)
        self.flat = self.full <= FLAT * self.single
        self.best_size = self.limit if self.flat else self._knee()
        self.best_seconds = self(self.best_size)

    def _connect(self, pools: list[_Pool]) -> None:
        """Each pool is level from its first size to its last, for the knee is where a level one ends."""
        sizes, times = self._sizes, self._times
        sizes.clear()
        times.clear()
        for pool in pools:
            sizes.append(pool.first)
            times.append(pool.seconds)
            if pool.last > pool.first:
                sizes.append(pool.last)
                times.append(pool.seconds)
        self._slope = 0.0
        if len(pools) > 1:
            before, last = pools[-2:]
            # What noise alone may have made of the last step must not be carried on to sizes never seen.
            known = min(before.weight, last.weight) >= KNOWN
            spread = self.spread if known else max(self.spread, UNSURE)
            noise = spread * last.seconds * (1.0 / sqrt(before.weight) + 1.0 / sqrt(last.weight))
            self._slope = max(0.0, last.seconds - before.seconds - noise) / (last.last - before.last)

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

    def hopeful(self, size: float) -> float:
        """The same, but a size that is far from any seen is believed to take no longer than the next smaller one.

        A straight line between far sizes would hide where a level piece ends, and what looks slow is never tried.
        """
        sizes = self._sizes
        right = bisect_left(sizes, size)
        if right and size > NEAR * sizes[right - 1] and (right == len(sizes) or sizes[right] > NEAR * size):
            return self._times[right - 1]
        return self(size)

    def best_of(self, waiting: int) -> int:
        """How many of so many go best together: the fewest that have nearly the best throughput, but no crumbs."""
        right = bisect_left(self._sizes, waiting)
        if self.flat or not right:
            return waiting
        best, rate = self._best[right - 1]
        alike = 1.0 - WITHIN - LUCK * self.spread
        together = waiting / self.hopeful(waiting)
        return best if rate > (together * alike if best < CRUMBS * waiting else together / alike) else waiting

    def _best_up_to_each(self, pools: list[_Pool]) -> list[tuple[int, float]]:
        """For each known size: which one up to it has the best throughput, and that. A larger one must be better
        by more than its samples may owe to luck."""
        found: list[tuple[int, float]] = []
        best, best_rate = 1, 1.0 / self.single
        for pool in pools:
            doubt = WITHIN + self.spread / sqrt(pool.samples)
            for size in {pool.first: 0, pool.last: 0}:
                whole = min(self.limit, max(1, int(size + 1e-6)))
                rate = whole / pool.seconds
                if rate * (1.0 - doubt) > best_rate:
                    best, best_rate = whole, rate
                found.append((best, best_rate))
        return found

    def _knee(self) -> int:
        limit = self.limit
        candidates = sorted({limit, *(min(limit, max(1, round(size))) for size in self._sizes)})
        best = max(size / self(size) for size in candidates)
        return next(size for size in candidates if size / self(size) >= 0.98 * best)


def _bucket_of(size: int) -> int:
    """Exact to 8, then four to the octave; powers of two, where the steps of padded models end, by themselves."""
    if size <= 8:
        return size
    octave = (size - 1).bit_length()
    return 8 * octave + ((size - 1) >> (octave - 3) & 3) + (size == 1 << octave)
