"""Rates that are learned on line: how many come in a second, and how many come around each that does."""

from math import exp, sqrt

GRAIN = 1 / 256  # of a window: what comes closer together than this comes at once
YOUNG = 4.0  # windows after which a meter's first moment no longer matters
BURST = 0.08  # of the window: arrivals that are closer together than that are of one burst
RECENT = 0.25  # of the window: arrivals of that time tell that the rate has risen
REMEMBERED = 500.0  # arrivals over which the rate in bursts is taken


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

    __slots__ = ("_began", "_marked", "_recent", "_seen", "_short", "peak")

    def __init__(self, window: float = 0.25) -> None:
        super().__init__(window)
        self.peak = 0.0  # the rate around an arrival, on average over the last few hundred
        self._began: float | None = None
        self._marked = 0.0  # `_count` as it was at `_last`
        self._short = 0.0  # a count as `_count`, forgotten over a small part of the window
        self._recent = 0.0  # likewise, over a larger part
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

    def rising(self, now: float, rate: float) -> float:
        """The rate by the latest arrivals, less what chance explains; `rate` if that is not more."""
        span = RECENT * self.window
        count = (self._recent + self._count - self._marked) * exp((self._last - now) / span)
        return max(rate, (count - sqrt(count)) / span)

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
        self._recent = (self._recent + new) * exp((self._last - now) / (RECENT * self.window))
