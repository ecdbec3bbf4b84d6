"""Finds the best setting without trying all of them. `tuning.py` calls `search`, and hands it what plays settings.
Pure, as long as that is.

The first round tries a few settings of every policy from everywhere. Each later round tries what is beside the best
ones and beside the best of each policy. The search ends when all of that has been tried. The whole space has
hundreds of settings, and the search tries about a quarter of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from penstock.advice.goal import Goal
from penstock.advice.played import Played
from penstock.advice.setting import Setting
from penstock.advice.space import Space

KEPT = 4  # settings of each round whose neighbours are tried, beside the best of each policy
ROUNDS = 12  # at most

Try = Callable[[Sequence[Setting]], list[Played]]  # plays settings, in any order


def search(space: Space, goal: Goal, tried: Try) -> list[Played]:
    """Returns everything that was tried. `tried`: what plays settings."""
    found: dict[Setting, Played] = {}
    for _ in range(ROUNDS):
        wanted = space.spread_out() if not found else _beside(space, goal, found.values())
        new = [setting for setting in dict.fromkeys(wanted) if setting not in found]
        if not new:
            break
        found.update((played.setting, played) for played in tried(new))
    return list(found.values())


def _beside(space: Space, goal: Goal, found: Iterable[Played]) -> Iterator[Setting]:
    """Yields the neighbours of the best settings, and of the best one of each policy."""
    ordered = sorted(found, key=goal.order)
    best = ordered[:KEPT]
    policies = {played.setting.policy for played in best}
    for played in ordered[KEPT:]:
        if played.setting.policy not in policies:
            policies.add(played.setting.policy)
            best.append(played)
    for played in best:
        yield from space.beside(played.setting)


def front(found: Iterable[Played], goal: Goal) -> list[Played]:
    """Returns the settings that no other one beats in both latency and GPU seconds, the fastest first."""
    best: list[Played] = []
    for played in sorted(found, key=lambda each: (goal.latency(each), each.gpu_seconds)):
        if not best or played.gpu_seconds < best[-1].gpu_seconds * (1.0 - 1e-9):
            best.append(played)
    return best
