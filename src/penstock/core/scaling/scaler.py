"""The autoscaler of one model: asks the chosen rules, and keeps what holds for all of them.

Rules
- Never fewer than `least` workers, never more than `most`.
- In one step at most `at_once` of the workers are removed, though always one may be.
- Nothing is removed within the cool-down after any change. So no worker is started and soon taken away again.
- The last worker goes only with `least` 0, once nobody has asked for `idle` seconds. Whoever asks then has one
  started at once.
"""

from typing import Protocol

from penstock.core.scaling.classic import Classic
from penstock.core.scaling.predicted import Predicted
from penstock.core.scaling.seen import Decision, ScalingRules, Seen
from penstock.core.scaling.starts import Starts
from penstock.types import Seconds


class Rule(Protocol):
    def decide(self, seen: Seen, wanted: int, now: Seconds, changed: Seconds, start: Seconds) -> Decision:
        """How many there should be, if nothing bounded it. `wanted`: how many there should have been so far.
        `changed`: when that changed last. `start`: how long a start takes."""
        ...


RULES: dict[str, type[Classic] | type[Predicted]] = {"predicted": Predicted, "classic": Classic}


class Scaler:
    """Looks at one model again and again, and says how many workers it should have."""

    def __init__(self, rules: ScalingRules, present: int, now: Seconds) -> None:
        """`present`: how many workers there are already, or are about to be."""
        self._rules = rules
        self._rule: Rule = RULES[rules.rules](rules)
        self.starts = Starts(rules.start, present)
        self._changed = now
        self._asked = now  # when somebody last asked for the model
        self.wanted = max(rules.least, min(rules.most, present))
        self.ready = 0  # workers that could take a batch at the last look
        self.why = "it has just begun to look"
        self.added = self.removed = 0  # workers since the beginning
        self.starts.asked(self.wanted - present, now)

    @property
    def starting(self) -> int:
        """How many of the wanted workers are not ready yet."""
        return max(0, self.wanted - self.ready)

    def look(self, seen: Seen, now: Seconds) -> Decision:
        """Decide anew. Called every second or so."""
        self.ready = seen.ready
        self.starts.look(seen.ready, now)
        if seen.arrived > 0 or seen.waiting > 0:
            self._asked = now
        told = self._rule.decide(seen, self.wanted, now, self._changed, self.starts.seconds)
        wanted, self.why = self._bounded(told, now)
        if wanted != self.wanted:
            self.starts.asked(wanted - self.wanted, now)
            self.added += max(0, wanted - self.wanted)
            self.removed += max(0, self.wanted - wanted)
            self.wanted, self._changed = wanted, now
        return Decision(wanted, self.why)

    def _bounded(self, told: Decision, now: Seconds) -> Decision:
        rules, wanted, why = self._rules, told.wanted, told.why
        if wanted > rules.most:
            return Decision(rules.most, f"{why}; but {rules.most} is the most that is allowed")
        if not self.wanted:
            if self._asked < now:
                return Decision(0, f"nobody has asked for {now - self._asked:,.0f} s")
            return Decision(max(1, wanted), "somebody asks, and no worker is running")
        floor = max(1, rules.least)
        if rules.least == 0 and now - self._asked >= rules.idle:
            wanted = floor = 0
            why = f"nobody has asked for {now - self._asked:,.0f} s"
        if wanted < floor:
            wanted, why = floor, f"{why}; but {floor} is the least that is kept"
        if wanted >= self.wanted:
            return Decision(wanted, why)
        if now - self._changed < rules.cool_down:
            return Decision(self.wanted, f"{why}; the last change was less than {rules.cool_down:g} s ago")
        step = max(1, int(rules.at_once * self.wanted))
        return Decision(max(wanted, self.wanted - step), why)
