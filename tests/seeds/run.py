"""One run: an installation comes up, clients ask while faults happen, all is mended, everything must be served and
over, and all processes end."""

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from math import ceil
from random import Random
from unittest.mock import patch

from seeds import checks
from seeds.backends import is_poison
from seeds.city import City
from seeds.clients import Crowd
from seeds.draw import Drawn, draw
from seeds.faults import Faults
from seeds.history import History
from seeds.processes import ProcessLoop

LONGEST = 200.0  # seconds of virtual time in which a run must be over
LONGEST_END = 5.0  # seconds in which a process with nothing in hand must have ended
LOOK = 0.25  # seconds between two looks whether all is over
AFTERMATH = 2.0  # seconds in which what is over is settled everywhere
CALM_ASKS = 6


@dataclass
class Verdict:
    seed: int
    wrong: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    seconds: float = 0.0  # of virtual time
    asked: int = 0
    executed: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


Setup = Callable[[City], object]  # what a test changes in a city before it begins


def play(seed: int, *, drawn: Drawn | None = None, setup: Setup = lambda city: None) -> Verdict:
    """Play the run of a seed."""
    drawn = drawn or draw(seed)
    verdict = Verdict(seed)
    ids, names = Random(f"ids {seed}"), count(1)
    loop = ProcessLoop()
    history = History(loop.time)
    city = City(drawn, loop, Random(f"city {seed}"), history)
    setup(city)
    with (
        patch("os.urandom", ids.randbytes),
        patch("secrets.token_hex", lambda size=None: f"{next(names):06x}"),
    ):
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(_whole(city, drawn, verdict))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            verdict.wrong.append(f"the run did not end: {type(error).__name__}: {error} ({where})")
    verdict.told, verdict.seconds = history.told(), loop.time()
    verdict.asked, verdict.executed = len(history.asked), len(history.executions)
    for each in history.asked:
        verdict.outcomes[each.outcome] = verdict.outcomes.get(each.outcome, 0) + 1
    return verdict


async def _whole(city: City, drawn: Drawn, verdict: Verdict) -> None:
    try:
        async with asyncio.timeout(LONGEST):
            await _live(city, drawn, verdict)
    finally:
        for house in city.houses:
            house.process.kill()
            await house.process.bury()


async def _live(city: City, drawn: Drawn, verdict: Verdict) -> None:
    history, rng = city.history, Random(f"play {drawn.seed}")
    crowd, faults = Crowd(city, rng), Faults(city, Random(f"faults {drawn.seed}"))
    city.build()
    keeper = None if city.keeper is None else asyncio.create_task(city.keeper(city))
    begins_at = rng.choice((0.0, 1.0, 2.0))
    await asyncio.sleep(begins_at if city.begins_at is None else city.begins_at)
    await asyncio.gather(crowd.come(), faults.happen())
    await faults.all_well()
    mended = max([city.clock(), *(each.deadline for each in history.asked if is_poison(each.input))])
    await asyncio.sleep(mended + checks.RECOVERY - city.clock())
    before = len(history.asked)
    for _ in range(CALM_ASKS):
        crowd.one(plain=True)
        await asyncio.sleep(rng.uniform(0.0, 0.1))
    calm = history.asked[before:]
    await _all_answered(city)
    checks.gather_tasks(city)
    verdict.wrong += checks.wrong_in(history, mended)
    verdict.wrong += checks.calm_is_served(calm)
    if crowd.without and len(calm) < CALM_ASKS:
        verdict.wrong.append("no gateway came back")
    verdict.wrong += checks.wrong_letters(city)
    verdict.wrong += checks.not_quiet(city)
    if keeper is not None:
        keeper.cancel()
    for role in ("gateway", "batcher", "worker"):
        for house in city.of(role, open_only=False):
            city.drain(house)
        await _until_over(city, role)
    verdict.wrong += checks.left_over(city)


async def _all_answered(city: City) -> None:
    """Wait until every request is over, or must be, and then until nobody has anything to tell."""
    last = max((each.deadline for each in city.history.asked), default=0.0) + 1.0
    for _ in range(ceil(max(0.0, last - city.clock()) / LOOK)):
        if not any(checks.is_open(city, each) for each in city.history.asked):
            break
        await asyncio.sleep(LOOK)
    await asyncio.sleep(AFTERMATH)


async def _until_over(city: City, role: str) -> None:
    """Wait until all processes of a role have ended, as long as that may take when nothing is in hand."""
    for _ in range(20):
        await asyncio.sleep(LONGEST_END / 20)
        if all(house.over or not house.process.alive for house in city.houses if house.role == role):
            return
