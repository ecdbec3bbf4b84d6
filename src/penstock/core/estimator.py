"""How long a batch of n takes, as learned from the batches that were run.

Each batch with outputs is reported here (`aftermath`), and so are those of a warm-up (`rehearsal`). Whoever decides
by time asks: the policies, the forecast of a request's wait, the time limits of batches.

The service curve is monotone by size and nothing else is assumed: real GPUs are flat up to a knee and then
linear, so two numbers a + b·n would misplace the knee. Each size forgets exponentially, and one that nobody has
used for long is dropped, so that a GPU that has become ten times slower is believed after a few batches.

- If the first run of a size on a worker takes much longer than later ones, it is learned apart.
- One batch whose time is far off is a hiccup, and counts no more than one at the edge of what was expected. If two
  in a row are off to the same side, the GPU has changed.
"""

from bisect import bisect_left
from math import sqrt

from penstock.core.buckets import KNOWN, NEWEST, SHORTEST, Bucket, Pool, bucket_of, in_order
from penstock.core.shapes import ShapeCost
from penstock.core.sizes import ANY, Sizes

STALE = 20_000  # batches after which an unused bucket is no longer evidence
LUCK = 0.3  # spreads by which a single throughput may look better than it is
BETTER = 0.03  # a throughput must look better by this part to count as better
DOUBT = 4.0  # spreads by which the time of a single batch may be off
SPREAD_MEMORY = 0.05  # weight of the newest batch in the spread
SPREAD_CLIP = 2.5  # one hiccup must not widen the guard: samples count up to this many spreads away
SURPRISE = 0.15  # a sample must be off by this part at least to be a surprise
CHANGED = 0.4  # weight of a sample that shows, not for the first time, that the GPU is no longer what it was
SETTLED = 64  # samples: until then, the curve is drawn anew after each batch
REFIT = 4  # batches: how often the curve is drawn anew after that, since one more moves it little
# The least spread that is assumed: however even the GPU is, clocks, timers and the way back are not.
LEAST_SPREAD = 0.01
GUARD = 2.5  # standard deviations of the service time kept between the expected finish and a deadline
UNSURE = 0.1  # the least spread that is assumed for sizes with few samples, however even these are
# How much of a throughput is surely there: of one that was picked as the best of several, the less the more the
# times vary, since luck had a part in the choice.
SURELY, PICKED = 1.06, 0.5
CRUMBS = 0.75  # a size above this part of what waits leaves few behind, so it must be clearly better
NEAR = 1.3  # sizes that differ by no more than this factor tell of each other
WITHIN = 0.02  # throughputs that differ by less than this part count as equal
FLAT = 1.08  # a curve that rises less than this from 1 to N is a constant with noise


class ServiceCurve:
    """Seconds a batch of n takes, as seen so far; 0 until something has been seen."""

    __slots__ = (
        "_best",
        "_buckets",
        "_sizes",
        "_slope",
        "_surprise",
        "_surprised_at",
        "_times",
        "best_seconds",
        "best_size",
        "flat",
        "full",
        "limit",
        "samples",
        "shape",
        "single",
        "sizes",
        "spread",
        "worst",
    )

    def __init__(self, limit: int, sizes: Sizes = ANY) -> None:
        self.limit = limit  # the largest batch there is
        self.sizes = sizes  # a batch of another size is padded, and takes as long as the next of these
        self.samples = 0  # batches that were learned from, first runs included
        self.shape = ShapeCost()  # what the first run of a size costs
        # What follows is asked for more often than it changes, so it is kept and not computed.
        self.single = 0.0  # seconds for a batch of one
        self.full = 0.0  # seconds for a full batch
        self.flat = True  # whether the curve is a constant, but for noise
        self.best_size = limit  # the smallest batch within 2 % of the best throughput: the knee
        self.best_seconds = 0.0  # how long a batch of the best size takes
        self.spread = 0.0  # relative standard deviation around the curve
        # Seconds until a full batch that was just sent is over, and the one after it, with guard.
        self.worst = 0.0
        self._buckets: dict[int, Bucket] = {}
        # The corners of the curve: sizes in ascending order, and the seconds that each takes.
        self._sizes: list[float] = []
        self._times: list[float] = []
        # For each of `_sizes`: the size up to it with the best throughput, and that throughput.
        self._best: list[tuple[int, float]] = []
        self._slope = 0.0  # seconds that each request more takes, past the largest batch seen
        # Whether the last sample took far longer than expected (1), far less (-1), or neither (0).
        self._surprise = 0
        self._surprised_at = 0  # the number of the sample since which all were off to that side

    def reach(self, limit: int) -> None:
        """Take in that the largest batch there is has changed. What was learned stays."""
        self.limit = limit
        if self.samples:
            self._refit()
            self._look_ahead()
        else:
            self.best_size = limit

    def observe(self, size: int, seconds: float, *, first: bool = False) -> None:
        """Learn from a batch. `first`: its worker had never run this size."""
        seconds = max(seconds, SHORTEST)
        bucket = self._buckets.setdefault(bucket_of(size), Bucket(self.samples))
        if first and self._learns_apart(bucket, size, seconds):
            changed = True
        else:
            changed = self._learn(bucket, size, seconds)
        if changed or self.samples < SETTLED or self.samples % REFIT == 0:
            self._refit()
        self._look_ahead()

    def _look_ahead(self) -> None:
        self.worst = self.full + self.best_seconds * (1.0 + GUARD * (self.spread + LEAST_SPREAD))

    def _learns_apart(self, bucket: Bucket, size: int, seconds: float) -> bool:
        """Take in the first run of a size. Returns False if it is to be learned like any other batch."""
        shape = self.shape
        if bucket.count:
            shape.compare(seconds, bucket.seconds)
        if shape.known and not shape.dear:
            return False
        bucket.add_first(size, seconds)
        self.samples += 1
        bucket.touched = self.samples
        return True

    def _learn(self, bucket: Bucket, size: int, seconds: float) -> bool:
        """Learn from a batch of a size that had been run before. Returns whether the GPU has changed."""
        if bucket.firsts and not bucket.count:
            self.shape.compare(bucket.first_seconds, seconds)
        ratio = seconds / self._expected(size, seconds, bucket) if self.samples else 1.0
        changed = self._surprised_again(ratio)
        if not changed:
            self._observe_spread(ratio - 1.0)
            seconds = self._believable(bucket, size, seconds)
        self.samples += 1
        weight = CHANGED if changed else NEWEST
        if changed and bucket.count + 1 >= KNOWN:
            # A size long known is suddenly off. That tells of the GPU and not of the size, so all sizes move
            # along, but for those that were first run since: they know no other GPU.
            weight = max(weight, 1.0 / (bucket.count + 1))
            for other in self._buckets.values():
                if other is not bucket and other.began < self._surprised_at:
                    # A size that was seen a few times only may have met the same trouble before.
                    times = max(1.0, other.size / size) if other.known else 1.0
                    other.move_along(1.0 + weight * (ratio - 1.0), seconds * times)
        bucket.add(size, seconds, weight)
        bucket.touched = self.samples
        return changed

    def _believable(self, bucket: Bucket, size: int, seconds: float) -> float:
        """What one batch is believed to have taken: not much more or less than others of its size, nor much more
        than those of larger sizes."""
        limit = self._surprising
        if bucket.count:
            if not bucket.known and seconds * limit < bucket.seconds:
                bucket.begin_anew()
                return seconds
            return min(max(seconds, bucket.seconds / limit), bucket.seconds * limit)
        larger = [other.seconds for other in self._buckets.values() if other.known and other.size > size]
        return min([seconds, *(limit * each for each in larger)])

    @property
    def _surprising(self) -> float:
        """The factor by which a sample must be off, so that the spread does not explain it."""
        return 1.0 + max(SPREAD_CLIP * self.spread, SURPRISE)

    def _expected(self, size: int, seconds: float, bucket: Bucket) -> float:
        """The time that was expected: by the curve, or by the bucket's earlier batches if these come nearer. At the
        foot of a step the curve lies between the step's two levels."""
        expected = self(size)
        nearer = bucket.known and abs(bucket.seconds - seconds) < abs(expected - seconds)
        return bucket.seconds if nearer else expected

    def _surprised_again(self, ratio: float) -> bool:
        """Whether a sample is off to the same side as the last one, beyond what the spread explains: the GPU has
        changed. Once is a hiccup."""
        limit = self._surprising
        side = 1 if ratio > limit else -1 if ratio < 1.0 / limit else 0
        again = side != 0 and side == self._surprise
        if not again:
            self._surprised_at = self.samples
        self._surprise = side
        return again

    def _observe_spread(self, residual: float) -> None:
        limit = max(SPREAD_CLIP * self.spread, 0.05)
        residual = max(-limit, min(limit, residual))
        self.spread = sqrt(
            (1.0 - SPREAD_MEMORY) * self.spread * self.spread + SPREAD_MEMORY * residual * residual
        )

    def _refit(self) -> None:
        """Draw the curve anew."""
        for key in [k for k, b in self._buckets.items() if self.samples - b.touched > STALE]:
            del self._buckets[key]
        shape = self.shape
        cost = shape.seconds if shape.dear else 0.0
        pools = in_order(self._buckets, self.samples, cost, uneven=shape.uneven)
        self._connect(pools)
        self.single, self.full = self(1), self(self.limit)
        self._best = self._best_up_to_each(pools)
        self.flat = self.full <= FLAT * self.single
        self.best_size = self.limit if self.flat else self._knee()
        self.best_seconds = self(self.best_size)

    def _connect(self, pools: list[Pool]) -> None:
        """Draw the curve through the pools. Each is level from its first size to its last: the knee is where a
        level piece ends."""
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
        if self.sizes.allowed:
            size = self.sizes.padded(size)
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

    @property
    def points(self) -> list[tuple[float, float]]:
        """The sizes that have been seen, in order, and the times they are believed to take."""
        return list(zip(self._sizes, self._times, strict=True))

    def at_most(self, size: float) -> float:
        """The time of a batch of this size. Beyond the largest that was seen, it grows in proportion."""
        size = self.sizes.padded(size)
        largest = self.largest or size
        return self(size) if size <= largest else max(self(size), self._times[-1] * size / largest)

    def hopeful(self, size: float) -> float:
        """The time of a batch; but a size that is far from any seen is believed to take no longer than the next
        smaller one.

        A straight line between far sizes would hide where a level piece ends, and what looks slow is never tried.
        """
        sizes, size = self._sizes, self.sizes.padded(size)
        right = bisect_left(sizes, size)
        if right and size > NEAR * sizes[right - 1] and (right == len(sizes) or sizes[right] > NEAR * size):
            return self._times[right - 1]
        return self(size)

    def best_of(self, waiting: int) -> int:
        """How many of the waiting requests go best together: the fewest that have nearly the best throughput,
        unless only a few would be left behind."""
        right = bisect_left(self._sizes, waiting)
        if self.flat or not right:
            return waiting
        best, rate = self._best[right - 1]
        alike = 1.0 - WITHIN - LUCK * self.spread
        together = waiting / self.hopeful(waiting)
        return best if rate > (together * alike if best < CRUMBS * waiting else together / alike) else waiting

    def surely_better(self, size: int, waiting: int) -> bool:
        """Whether a size that was picked for its throughput is surely better than, or as good as, to send all."""
        needed = (1.0 + PICKED * self.spread) / SURELY
        return size / self(size) > needed * waiting / self.hopeful(waiting)

    def most_of(self, waiting: int, *, far_behind: bool) -> int:
        """How many of the waiting requests go from a queue that is behind: all, if their throughput looks better
        than any by more than luck. If the queue is far behind, all go as long as their throughput may be the best,
        since so many were run only a few times."""
        right = bisect_left(self._sizes, waiting)
        if self.flat or not right:
            return waiting
        best, rate = self._best[right - 1]
        needed = rate * (1.0 + BETTER - (self._doubt(waiting) if far_behind else 0.0))
        return waiting if waiting / self.hopeful(waiting) > needed else best

    def _doubt(self, size: int) -> float:
        """By which part the learned time of this size may be off."""
        bucket = self._buckets.get(bucket_of(int(self.sizes.padded(size))))
        return DOUBT * max(self.spread, LEAST_SPREAD) / sqrt(bucket.count + bucket.firsts if bucket else 1)

    def _best_up_to_each(self, pools: list[Pool]) -> list[tuple[int, float]]:
        """For each known size: which size up to it has the best throughput, and that throughput. A larger size must
        be better by more than its samples may owe to luck."""
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
        seen = {int(self.sizes.padded(max(1, round(size)))) for size in self._sizes}
        candidates = sorted({limit, *(min(limit, size) for size in seen)})
        best = max(size / self(size) for size in candidates)
        return next(size for size in candidates if size / self(size) >= 0.98 * best)
