"""Makes the advice of `penstock tune`: searches, and then says which setting is worth changing to. `cli/tune.py`
calls `tune`, and `shown_advice.py` shows the result.

The best of many settings is partly the luckiest. So of all that are within 1 % of the best, that one is advised
which changes least of what is in force; and nothing is advised that would have been worse in one half of the
traffic.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.advice.goal import Goal
from penstock.advice.played import Game, Played
from penstock.advice.search import Try, front, search
from penstock.advice.setting import Setting, setting_of, taken_back
from penstock.advice.space import Space

ALIKE = 1.01  # a value up to this many times the best is as good


@dataclass(frozen=True, slots=True)
class Advice:
    """Which setting to change to, and what else was found."""

    goal: Goal
    in_force: Played  # the setting that is in force
    advised: Played  # the setting to change to: what is in force, if nothing is worth a change
    best: Played  # the best of all settings that were tried
    tried: int  # how many settings were tried
    of: int  # how many settings the whole space has
    front: Sequence[Played]  # no setting beats these in both latency and GPU seconds

    @property
    def changes(self) -> bool:
        return self.advised.setting != self.in_force.setting

    @property
    def gain(self) -> float:
        """By which part the objective becomes smaller; 0 if nothing changes."""
        before, after = self.goal.value(self.in_force), self.goal.value(self.advised)
        return 1.0 - after / before if before > 0 else 0.0


def tune(game: Game, space: Space, goal: Goal, tried: Try) -> Advice:
    """Searches for a better setting than the one in force. If the goal bounds the latency and does not say how,
    nothing may be slower than what is in force. `tried`: what plays settings."""
    now = setting_of(game.scenario)
    if goal.saves_gpus and not goal.within:
        goal = replace(goal, within=goal.latency(tried([now])[0]))
    found = search(space, goal, tried)
    in_force = next(played for played in found if played.setting == now)
    while simpler := _simpler(advised(found, in_force, goal).setting, now, found):
        found += tried(simpler)
    best = min(found, key=goal.order)
    return Advice(
        goal, in_force, advised(found, in_force, goal), best, len(found), len(set(space.all()) | {now}),
        front(found, goal),
    )  # fmt: skip


def _simpler(setting: Setting, now: Setting, found: Sequence[Played]) -> list[Setting]:
    """Returns what was not tried yet and changes one thing less than this setting."""
    known = {played.setting for played in found}
    back = [taken_back(setting, name, now) for name in setting.differs(now)]
    return [each for each in back if each not in known]


def advised(found: Sequence[Played], in_force: Played, goal: Goal) -> Played:
    """Returns the setting to change to; what is in force, if it is as good."""
    best = min(found, key=goal.order)
    if not goal.keeps(best):
        return best if goal.latency(best) * ALIKE < goal.latency(in_force) else in_force
    enough = goal.value(best) * ALIKE
    good = [played for played in found if goal.keeps(played) and goal.value(played) <= enough]
    if in_force in good:
        return in_force
    steady = [played for played in good if _worse_in_no_half(played, in_force, goal)]
    if not steady:
        return in_force
    return min(steady, key=lambda each: (each.setting.changes(in_force.setting), goal.order(each)))


def _worse_in_no_half(played: Played, other: Played, goal: Goal) -> bool:
    """Whether a setting is as good as the other one in each half of the time. Only latency is compared: GPU seconds
    are a sum, which chance moves little."""
    if goal.saves_gpus:
        return True
    return all(
        mine.at(goal.objective) <= theirs.at(goal.objective) * ALIKE
        for mine, theirs in zip(played.halves, other.halves, strict=True)
    )
