"""The settings that `penstock tune` may try, and which of them are beside each other. `search.py` walks here, and a
benchmark tries all of them. Pure.

A policy that does not look at a setting is tried with the one that is in force, and no other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from penstock.advice.setting import Setting, changed
from penstock.core.policy import POLICIES
from penstock.types import Seconds

# The settings that a policy does not look at. A policy that is not named here is taken to look at everything.
BLIND_TO = {
    "window": ("reserve",),
    "greedy": ("max_wait", "reserve"),
    "ewma": ("max_wait", "reserve"),
    "table": ("max_wait", "reserve"),
}
# Waits, as parts of the time of the largest batch. Every other one is tried in the first round.
WAITS = (0.03, 0.06, 0.09, 0.125, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
MOST_RESERVED = 8  # workers: the largest `reserve` that is tried


@dataclass(frozen=True, slots=True)
class Space:
    """The values of each setting, in ascending order."""

    in_force: Setting
    policies: Sequence[str]
    batches: Sequence[int]
    waits: Sequence[Seconds]
    reserves: Sequence[int]
    orders: Sequence[bool]  # whether tiers may be served strictly in their order

    def all(self) -> Iterator[Setting]:
        """Yields every setting."""
        return self._of(self.batches, self.waits, self.reserves)

    def spread_out(self) -> Iterator[Setting]:
        """Yields a few settings from everywhere, and the one that is in force: where a search begins."""
        now = self.in_force
        yield now
        few = {size for size in self.batches if size & (size - 1) == 0} | {self.batches[-1], now.max_batch}
        yield from self._of(sorted(few), self.waits[1::4], sorted({0, now.reserve}))

    def beside(self, setting: Setting) -> Iterator[Setting]:
        """Yields the settings that are one step away, in whatever the policy looks at."""
        blind = BLIND_TO.get(setting.policy, ())
        for name, values in self._dimensions().items():
            if name in blind:
                continue
            here = getattr(setting, name)
            below = [value for value in values if value < here]
            above = [value for value in values if value > here]
            for value in (*below[-1:], *above[:1]):
                yield changed(setting, name, value)

    def _of(
        self, batches: Sequence[int], waits: Sequence[Seconds], reserves: Sequence[int]
    ) -> Iterator[Setting]:
        now = self.in_force
        for policy in self.policies:
            blind = BLIND_TO.get(policy, ())
            for size, wait, reserve, strict in product(
                batches,
                (now.max_wait,) if "max_wait" in blind else waits,
                (now.reserve,) if "reserve" in blind else reserves,
                self.orders,
            ):
                yield Setting(policy, size, wait, reserve, strict)

    def _dimensions(self) -> dict[str, Sequence[Any]]:
        return {
            "max_batch": self.batches,
            "max_wait": self.waits,
            "reserve": self.reserves,
            "strict": self.orders,
        }


def space_of(
    in_force: Setting,
    *,
    workers: int,
    largest: int,
    longest: Seconds,
    patience: Seconds,
    several_tiers: bool = False,
    any_size: bool = True,
    live: bool = False,
) -> Space:
    """Makes the space around the setting that is in force. `largest`: the largest batch that may be tried.
    `longest`: how long the largest batch takes. `patience`: how long a request may wait in the queue. `any_size`:
    False if the configuration lists the sizes, so that the largest batch stays. `live`: whether only what a running
    server takes over may change."""
    sizes = {in_force.max_batch}
    if any_size and not live:
        sizes |= {largest} | {n for n in _steps(largest) if n <= largest}
    waits = {_rounded(part * longest) for part in WAITS}
    return Space(
        in_force,
        tuple(POLICIES),
        sorted(sizes),
        sorted({wait for wait in waits if wait < patience} | {in_force.max_wait}),
        sorted({*range(min(workers, MOST_RESERVED + 1)), in_force.reserve}),
        (False, True) if several_tiers else (in_force.strict,),
    )


def _steps(largest: int) -> Iterator[int]:
    """Yields the powers of two, and what is halfway between them."""
    size = 1
    while size <= largest:
        yield size
        if size > 1:
            yield size + size // 2
        size *= 2


def _rounded(seconds: Seconds) -> Seconds:
    """Returns a wait with two digits, which are enough, and which people read."""
    return float(f"{seconds:.2g}")
