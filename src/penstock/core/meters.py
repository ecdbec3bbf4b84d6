"""Rates that are measured as things happen, forgotten exponentially. The time is an argument.

Each lane (requests that may share a batch) has an `ArrivalMeter`, by which the policies tell how soon a batch
fills. A `RateMeter` counts anything else: `tier_gate` what each tier has had and what the best has asked,
`admission` what overtakes waiting requests, and `parts` the time that went to batches that were refused or set
apart. What these three count is workers' time, so their rates are parts of the capacity.
"""

from math import exp, sqrt

# Each of these three is a part of a meter's window.
GRAIN = 1 / 256  # arrivals that are closer together than this count as simultaneous
BURST = 0.08  # arrivals that are closer together than this are of one burst
RECENT = 0.25  # the arrivals of so long tell whether the rate has risen
YOUNG = 4.0  # windows after which it no longer matters when a meter began
REMEMBERED = 500.0  # arrivals over which the rate in bursts is averaged


class RateMeter:
    """An exponentially forgetting count of arrivals."""

    __slots__ = ("_count", "_last", "_next", "window")

    def __init__(self, window: float = 0.25) -> None:
        self.window = window  # seconds after which an arrival counts for a third
        self._count = 0.0  # arrivals, as they count at the time `_last`
        self._last = 0.0
        self._next = 0.0  # until then no time has to be taken off the count

    def add(self, now: float, number: float = 1.0) -> None:
        """Count arrivals at `now`. If `now` lies before the last arrival, as it may for a request that was long
        under way, both count as simultaneous."""
        if now > self._next:
            self._forget(now)
        self._count += number

    def add_each(self, times: list[float]) -> None:
        """Count one arrival at each of these times, in order."""
        count, look = self._count, self._next
        for now in times:
            if now > look:
                self._count = count
                self._forget(now)
                count, look = self._count, self._next
            count += 1.0
        self._count = count

    def _forget(self, now: float) -> None:
        self._count *= exp((self._last - now) / self.window)
        self._last = now
        self._next = now + GRAIN * self.window

    def rate(self, now: float) -> float:
        """What is counted in a second, by the last window or so."""
        return self._count * exp((self._last - now) / self.window) / self.window

    def room(self, rate: float) -> float:
        """How many more may come, however soon, without the rate becoming more than `rate`."""
        return rate * self.window - self._count

    def widen(self, window: float) -> None:
        """Change the window, and keep the rate that is believed so far."""
        self._count *= window / self.window
        self.window = window


class ArrivalMeter(RateMeter):
    """The rate of a lane's arrivals, and `peak`, the rate around each arrival. Both are alike unless arrivals come
    in bursts."""

    __slots__ = ("_began", "_marked", "_recent", "_seen", "_short", "peak")

    def __init__(self, window: float = 0.25) -> None:
        super().__init__(window)
        self.peak = 0.0  # the rate around an arrival, on average over the last few hundred
        self._began: float | None = None  # when the first arrival came
        self._marked = 0.0  # `_count` before the arrivals since `_last`
        self._short = 0.0  # arrivals, forgotten over `BURST` of the window
        self._recent = 0.0  # arrivals, forgotten over `RECENT` of the window
        self._seen = 0.0  # arrivals in all, at most `REMEMBERED`

    def _forget(self, now: float) -> None:
        self._look_back(now)
        super()._forget(now)
        self._marked = self._count

    def widen(self, window: float) -> None:
        self._marked *= window / self.window
        super().widen(window)

    def rate(self, now: float) -> float:
        """Arrivals per second. A young meter has not seen a whole window, so its count is scaled up to one: two
        requests that come together look like a flood until time has shown otherwise."""
        rate = super().rate(now)
        if self._began is None or now - self._began > YOUNG * self.window:
            return rate
        return rate / (1.0 - exp((self._began - now) / self.window - GRAIN))

    def rising(self, now: float, rate: float) -> float:
        """The rate by the latest arrivals, less what chance explains; `rate` if that is not more."""
        span = RECENT * self.window
        count = (self._recent + self._count - self._marked) * exp((self._last - now) / span)
        return max(rate, (count - sqrt(count)) / span)

    def _look_back(self, now: float) -> None:
        """Update `peak`: each arrival since the last look has seen the others, and those shortly before them."""
        new, span = self._count - self._marked, BURST * self.window
        if self._began is None:
            self._began = now
        if new > 0.0:
            self._seen = min(REMEMBERED, self._seen + new)
            around = (self._short + 0.5 * (new - 1.0)) / span
            self.peak += new / self._seen * (around - self.peak)
        self._short = (self._short + new) * exp((self._last - now) / span)
        self._recent = (self._recent + new) * exp((self._last - now) / (RECENT * self.window))
