"""Examples of requests behind a histogram: for each bucket the last traced request that fell into it. A person who
sees a slow bucket in a dashboard comes from there to the trace of a request that was so slow. The metrics keep them
beside the histogram of latency (`metrics.py`), and the metrics page shows them (`text.py`).

Only requests whose trace is recorded are kept: their `traceparent` has the flag that says so. There is one example
for each bucket at most. A busy server looks at a thousand requests a second only: to look at each would cost more
than to count them all, for examples that the next ones would replace.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

# The last digit of a traceparent whose trace is recorded: the lowest bit is set.
SAMPLED = frozenset("13579bdf")
LAST = 54  # where that digit stands, also where a later version has more behind it
SPANS, A_SPAN = 10, 100  # spans in a second, and requests that are looked at in each


class Exemplar(NamedTuple):
    """One example: a traced request, by the id of its trace."""

    trace_id: str
    value: float
    when: float  # seconds since the epoch


class Exemplars:
    """The examples of one histogram."""

    def __init__(self, bounds: Sequence[float], wall_clock: Callable[[], float]) -> None:
        """`bounds`: those of the histogram."""
        self._bounds = bounds
        self._wall_clock = wall_clock
        self.by_bucket: dict[int, Exemplar] = {}

    def note(self, traceparent: str, value: float) -> None:
        """Keep a request that came with this `traceparent`, if its trace is recorded."""
        if traceparent[LAST : LAST + 1] in SAMPLED:
            bucket = bisect_left(self._bounds, value)
            self.by_bucket[bucket] = Exemplar(traceparent[3:35], value, self._wall_clock())


class Looks:
    """How many requests may still be looked at in the present span of time."""

    def __init__(self) -> None:
        self._span = 0  # the number of the present span
        self._left = A_SPAN

    def take(self, wanted: int, now: float) -> int:
        """Returns how many of so many requests may be looked at."""
        if (span := int(now * SPANS)) != self._span:
            self._span, self._left = span, A_SPAN
        taken = min(self._left, wanted)
        self._left -= taken
        return taken
