"""The `predicted` rules, which are the default: as many workers as the arrivals need, and those for the backlog.

    wanted = arrivals a second ÷ (what one worker does × target) + backlog ÷ (drain × the same)

- Arrivals are those that surely come: the mean over the slow window, less what chance may have brought. If the
  fast window shows more than chance explains, they are what it shows, and a rise within it is drawn out over the
  time that a start takes. A burst such as there were many of late is explained by chance.
- A full batch for each worker is no backlog: that is the batch which is about to go.
- `wanted` is a level. Workers that are starting are in it already, so nobody is asked for twice.
- While nobody knows what one worker does, nothing changes; but the least is enough once nobody has asked for the
  whole cool-down.
- What is too few is put right at once. What is too many is removed only if fewer were enough for the whole
  cool-down, and would have been though chance had been against us.
"""

from math import ceil, sqrt

from penstock.core.scaling.seen import Decision, ScalingRules, Seen
from penstock.core.scaling.windows import Peak, Scatter, Window
from penstock.types import Seconds

CHANCE = 3.0  # standard deviations of a count that chance is believed to have added
AGAINST = 2.0  # standard deviations that chance is believed to have taken away, before a worker is removed
EVEN = 1e-9  # what rounding may add to a number of workers that is whole
STEEPEST = 2.0  # the arrivals are never believed to become more than this many times what they are


class Predicted:
    """Implements `scaler.Rule`."""

    def __init__(self, rules: ScalingRules) -> None:
        self._target, self._drain, self._cool_down = rules.target, rules.drain, rules.cool_down
        self._least = rules.least
        self._asked: Seconds | None = None  # when somebody last asked or waited; at first, when looking began
        self._fast, self._half = Window(rules.fast), Window(rules.fast / 2)
        self._slow = Window(rules.slow)
        self._scatter = Scatter(rules.fast)
        self._enough = Peak(rules.cool_down)  # how many workers were surely enough at each look

    def decide(self, seen: Seen, wanted: int, now: Seconds, changed: Seconds, start: Seconds) -> Decision:
        for window in (self._fast, self._half, self._slow, self._scatter):
            window.add(seen.arrived, now)
        if self._asked is None or seen.arrived > 0 or seen.waiting > 0:
            self._asked = now
        one = seen.rate_of_one * self._target
        if one <= 0.0:
            return self._unknown(wanted, now - self._asked)
        rate = self._arrivals(now, start)
        backlog = max(0.0, seen.waiting - max(1, seen.ready) * seen.batch)
        behind = backlog / (self._drain * one)
        enough = ceil(rate / one + behind - EVEN)
        peak = self._enough.add(ceil(max(rate, self._at_most(now)) / one + behind - EVEN), now)
        why = (
            f"surely {rate:,.1f} requests a second, at {self._target:.0%} of the {seen.rate_of_one:,.1f} that one"
            f" worker does, need {enough}"
        )
        if backlog:
            why += f", those for the backlog of {backlog:,.0f} included"
        if enough > wanted:
            return Decision(enough, why)
        if peak >= wanted:
            kept = f"{why}; {peak} were needed in the last {self._cool_down:g} s" if enough < wanted else why
            return Decision(wanted, kept)
        if now - changed < self._cool_down:
            return Decision(wanted, f"{why}; the last change was less than {self._cool_down:g} s ago")
        return Decision(peak, f"{why}, and never more than {peak} in the last {self._cool_down:g} s")

    def _unknown(self, wanted: int, unasked: Seconds) -> Decision:
        """What to do while nobody knows what one worker does. `unasked`: for how long nobody has asked."""
        if unasked < self._cool_down:
            return Decision(wanted, "nobody knows yet what one worker does: no batch has been seen")
        why = f"nobody has asked for {unasked:,.0f} s, and nobody knows yet what one worker does"
        return Decision(self._least, why)

    def _at_most(self, now: Seconds) -> float:
        """The mean of the arrivals a second, and what chance may have taken from it."""
        span, count = self._slow.span(now), self._slow.total
        return (count + AGAINST * self._scatter.factor * sqrt(max(0.0, count))) / span if span > 0.0 else 0.0

    def _arrivals(self, now: Seconds, start: Seconds) -> float:
        """Arrivals a second by the time that a worker which is asked for now can take a batch."""
        span, slow, count = self._fast.span(now), self._slow.span(now), max(0.0, self._slow.total)
        if span <= 0.0:
            return 0.0
        mean = max(0.0, count - CHANCE * sqrt(count)) / slow
        believed = CHANCE * self._scatter.factor
        late, whole = self._half.total, self._fast.total
        early = max(0.0, whole - late)
        sure = max(0.0, whole - believed * sqrt(max(0.0, whole))) / span
        # The two halves are compared as rates: looks come at any time, so the halves are rarely alike.
        late_span = self._half.span(now)
        early_span = span - late_span
        if early_span <= 0.0 or sure <= mean:
            return max(mean, sure)
        chance = believed * sqrt(late / late_span**2 + early / early_span**2)
        rise = max(0.0, late / late_span - early / early_span - chance) / (span / 2)
        return max(mean, min(sure + rise * start, STEEPEST * whole / span))
