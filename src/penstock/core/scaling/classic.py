"""The `classic` rules: thresholds on the queue and on the utilisation, each of which must have held for a while.

| what                     | for    | workers |
|--------------------------|--------|---------|
| more than 500 wait       | 30 s   | +3      |
| more than 100 wait       | 60 s   | +1      |
| utilisation above 85 %   | 5 min  | +1      |
| utilisation below 40 %   | 15 min | -1      |

After any change nothing changes for the cool-down. Utilisation is offered load divided by capacity, because a
worker that is fed by a patient policy is always busy.
"""

from math import inf

from penstock.core.scaling.seen import Decision, ScalingRules, Seen
from penstock.core.scaling.windows import Held, Window
from penstock.types import Seconds

DEEP, DEEP_FOR, DEEP_ADDS = 500, 30.0, 3
LONG, LONG_FOR, LONG_ADDS = 100, 60.0, 1
BUSY, BUSY_FOR, BUSY_ADDS = 0.85, 300.0, 1
QUIET, QUIET_FOR = 0.4, 900.0


class Classic:
    """Implements `scaler.Rule`."""

    def __init__(self, rules: ScalingRules) -> None:
        self._arrivals = Window(rules.fast)
        self._cool_down = rules.cool_down
        self._deep, self._long, self._busy, self._quiet = Held(), Held(), Held(), Held()

    def decide(self, seen: Seen, wanted: int, now: Seconds, changed: Seconds, start: Seconds) -> Decision:
        self._arrivals.add(seen.arrived, now)
        utilization = _utilization(self._arrivals.rate(now), seen)
        deep = self._deep.look(now, holds=seen.waiting > DEEP)
        long = self._long.look(now, holds=seen.waiting > LONG)
        busy = self._busy.look(now, holds=utilization > BUSY)
        quiet = self._quiet.look(now, holds=utilization < QUIET)
        if now - changed < self._cool_down:
            return Decision(wanted, f"the last change was less than {self._cool_down:g} s ago")
        if deep >= DEEP_FOR:
            return Decision(wanted + DEEP_ADDS, f"more than {DEEP} have waited for {DEEP_FOR:g} s")
        if long >= LONG_FOR:
            return Decision(wanted + LONG_ADDS, f"more than {LONG} have waited for {LONG_FOR:g} s")
        if busy >= BUSY_FOR:
            return Decision(wanted + BUSY_ADDS, f"the load was above {BUSY:.0%} for {BUSY_FOR:g} s")
        if quiet >= QUIET_FOR:
            return Decision(wanted - 1, f"the load was below {QUIET:.0%} for {QUIET_FOR:g} s")
        return Decision(wanted, f"the load is {utilization:.0%}, and {seen.waiting:,.0f} wait")


def _utilization(rate: float, seen: Seen) -> float:
    """Offered load divided by capacity. Where nobody knows the capacity, any load is too much."""
    capacity = seen.ready * seen.rate_of_one
    if capacity <= 0.0:
        return inf if rate > 0.0 else 0.0
    return rate / capacity
