"""Cancellation at every await: a small installation without any other fault, in which the k-th step of all tasks
raises `CancelledError` where the task waits. There is one run for each k.

- Stray: something that the task waited for was cancelled, and nobody wanted the task to end. It must go on, or be
  started again, and nothing may be lost.
- Wanted: the task itself is cancelled. If a loop of a process ends by that, its probe says so, and a supervisor
  puts another process into its place.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from seeds.city import City
from seeds.draw import Drawn, draw
from seeds.processes import NumberedTask
from seeds.run import Verdict, play

BEGINS, ENDS = 1.0, 2.2  # seconds between which tasks are cancelled: by then everybody has started
# Work that nobody cancels but the end of its process: whoever waits for it may leave, and it goes on.
UNBROKEN = ("KeyedDesk._pursue", "KeyedDesk._place", "TaskDesk._accept", "TaskDesk._retry")
PROBED = 0.25  # seconds between two looks of the supervisor


@dataclass
class Strike:
    """Cancels the task that makes the k-th step."""

    city: City
    at: int | None  # None: it only counts
    stray: bool
    seen: int = 0
    struck: str = ""
    begun: set[int] = field(
        default_factory=set
    )  # the tasks that have made a step: only these wait for something

    def step(self, task: NumberedTask) -> None:
        if not BEGINS <= self.city.clock() < ENDS:
            self.begun.add(task.number)
            return
        if task.number not in self.begun:
            self.begun.add(task.number)
            return
        if not self.stray and task.get_coro().__qualname__ in UNBROKEN:  # type: ignore[union-attr]
            return
        self.seen += 1
        if self.seen == self.at:
            self.struck = f"{task.get_name()} {task.get_coro()}"
            self.city.history.note(f"cancelled: {self.struck}")
            task.cancel()
            if self.stray:
                task.uncancel()


def scene(seed: int) -> Drawn:
    """A small installation in which nothing else goes wrong."""
    drawn = draw(seed, calm=True)
    return replace(
        drawn, gateways=1, batchers=2, workers=2, zones=(), asks=14, asking_seconds=1.0, batch_seconds=0.05,
        tasks=0.4, keyed=0.2, leaves=0.1,
    )  # fmt: skip


def struck(seed: int, at: int | None, *, stray: bool) -> tuple[Verdict, Strike]:
    """The run in which the step of this number is cancelled."""
    strikes: list[Strike] = []

    def setup(city: City) -> None:
        strike = Strike(city, at, stray)
        strikes.append(strike)
        city.loop.strike = strike.step
        city.begins_at = BEGINS
        city.keeper = supervise

    verdict = play(seed, drawn=scene(seed), setup=setup)
    return verdict, strikes[0]


def sweep(seed: int, *, stray: bool, every: int = 1, first: int = 0) -> Iterator[tuple[int, Verdict, Strike]]:
    """One run for each step, or for each of so many."""
    _, counted = struck(seed, None, stray=stray)
    for at in range(1 + first, counted.seen + 1, every):
        verdict, strike = struck(seed, at, stray=stray)
        yield at, verdict, strike


async def supervise(city: City) -> None:
    """Put another process into the place of one whose probe says that it is dead."""
    with suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(PROBED)
            for house in list(city.houses):
                if house.well and house.member is not None and house.member.dead_loops():
                    city.history.note(f"{house.name} is dead: {list(house.member.dead_loops())}")
                    city.kill(house)
                    city.add(house.role, house.zone)
