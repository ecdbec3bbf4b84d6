"""The past of a model, as both rules of the autoscaler look at it: what was counted of late (`Window`), the largest
number of late (`Peak`), how unevenly requests came (`Scatter`), and for how long something has held (`Held`)."""

from collections import deque
from itertools import pairwise
from math import sqrt

from penstock.types import Seconds


class Window:
    """A count of arrivals over the last `seconds`, and the rate that follows from it."""

    __slots__ = ("_counts", "_from", "_seconds", "total")

    def __init__(self, seconds: Seconds) -> None:
        self._seconds = seconds
        # When each look was, and what had come since the look before.
        self._counts: deque[tuple[Seconds, float]] = deque()
        self._from: Seconds | None = None  # when what is counted began to come
        self.total = 0.0

    def add(self, number: float, now: Seconds) -> None:
        """Count what came between the last look and this one. What the first look brings came at an unknown time,
        so it is left out."""
        if self._from is None:
            self._from = now
            return
        self._counts.append((now, number))
        self.total += number
        # A look counts as a whole until it is as old as the window: so a single look never empties it.
        while len(self._counts) > 1 and self._counts[0][0] <= now - self._seconds:
            self._from, gone = self._counts.popleft()
            self.total -= gone

    def span(self, now: Seconds) -> Seconds:
        """The seconds that the count is of."""
        return 0.0 if self._from is None else now - self._from

    def rate(self, now: Seconds) -> float:
        """Arrivals a second; 0 until there were two looks."""
        span = self.span(now)
        return max(0.0, self.total) / span if span > 0.0 else 0.0


class Peak:
    """The largest number of the last `seconds`."""

    __slots__ = ("_falling", "_seconds")

    def __init__(self, seconds: Seconds) -> None:
        self._seconds = seconds
        self._falling: deque[tuple[Seconds, int]] = deque()  # each is less than the one before it

    def add(self, number: int, now: Seconds) -> int:
        """Take a number in, and return the largest one."""
        falling = self._falling
        while falling and falling[-1][1] <= number:
            falling.pop()
        falling.append((now, number))
        while falling[0][0] < now - self._seconds:
            falling.popleft()
        return falling[0][1]


SPANS = 40  # counts that `Scatter` remembers
FEW = 4  # with fewer counts than this nobody can tell


class Scatter:
    """How much more the arrivals scatter than those of independent clients would.

    Arrivals are counted in spans of equal length. The counts of independent clients differ from their mean by its
    square root. Each count is compared with the one before it, so that a slow rise or fall is no scatter.
    """

    __slots__ = ("_began", "_count", "_counts", "_seconds", "factor")

    def __init__(self, seconds: Seconds) -> None:
        """`seconds`: the length of a span."""
        self._seconds = seconds
        self._counts: deque[float] = deque(maxlen=SPANS)
        self._began: Seconds | None = None  # when the span of this moment began
        self._count = 0.0
        self.factor = 1.0  # by how much more the arrivals scatter; never less than 1

    def add(self, number: float, now: Seconds) -> None:
        """Take in what came between the last look and this one. The first look only begins to count."""
        if self._began is None:
            self._began = now
            return
        self._count += number
        if now - self._began >= self._seconds:
            self._counts.append(self._count)
            self._began, self._count = now, 0.0
            self.factor = self._factor()

    def _factor(self) -> float:
        counts, whole = self._counts, sum(self._counts)
        if len(counts) < FEW or whole <= 0.0:
            return 1.0
        variance = sum((after - before) ** 2 for before, after in pairwise(counts)) / (2 * (len(counts) - 1))
        return max(1.0, sqrt(variance * len(counts) / whole))


class Held:
    """For how long a condition has held without a break."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: Seconds | None = None

    def look(self, now: Seconds, *, holds: bool) -> Seconds:
        """Take in whether it holds now, and return for how many seconds it has; -1 if it does not."""
        if not holds:
            self._since = None
            return -1.0
        if self._since is None:
            self._since = now
        return now - self._since
