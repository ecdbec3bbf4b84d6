"""The autoscaler in virtual time, on every shape of traffic: made here from a seed, or recorded (`traces/`)."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest

from penstock.core.rules import BatchingRules
from penstock.core.scaling.seen import ScalingRules
from penstock.load import arrivals
from penstock.load.traffic import Schedule
from penstock.service_model import parse_service
from penstock.sim.autoscaling import Staffed, fixed, scaled
from penstock.sim.kernel import Scenario
from penstock.sim.scaled import Staff

# One worker does 2 requests a second: little to simulate, and an hour takes a second.
RULES = ScalingRules(least=1, most=8)
BATCHING = BatchingRules(max_batch=4, processing=20.0)
SCENARIO = Scenario(parse_service("sim:2s"), 1, BATCHING, queue_limit=10.0, request_limit=20.0)
OBJECTIVE = 10.0
HOUR = 3600.0


def levels(*parts: tuple[float, float], seed: int = 1) -> "array[float]":
    """Arrivals at one rate after another. Each part: requests a second, and for how many seconds."""
    rng, times, begin = Random(seed), array("d"), 0.0
    for rate, span in parts:
        if rate:
            times.extend(begin + time for time in arrivals.poisson(rate, span, rng))
        begin += span
    return times


def ramp(seed: int = 1) -> "array[float]":
    return levels(*((1.0 + 0.25 * step, 60.0) for step in range(30)), seed=seed)


def recorded(name: str) -> "array[float]":
    gaps = (Path(__file__).parent / "traces" / f"{name}.txt").read_text().split()
    return array("d", (ms / 1000 for ms in accumulate(map(int, gaps))))


def jumping(seed: int = 1) -> "array[float]":
    rng = Random(seed)
    return levels(*((rng.uniform(0.5, 12.0), 600.0) for _ in range(8)), seed=seed)


@dataclass(frozen=True)
class Shape:
    make: Callable[[], "array[float]"]
    returns: int = 0  # how often the traffic itself comes back after it has gone down


SHAPES = {
    "steady": Shape(lambda: levels((4.0, HOUR / 2))),
    "light": Shape(lambda: levels((0.1, HOUR))),
    "beyond the most": Shape(lambda: levels((20.0, HOUR / 4))),
    "a jump up": Shape(lambda: levels((1.4, 900), (8.0, 1800))),
    "a fall": Shape(lambda: levels((9.0, 900), (1.0, 3000))),
    "a ramp": Shape(ramp),
    "bursts of seconds": Shape(lambda: arrivals.bursty(3.0, HOUR, 3.0, 10.0, Random(1))),
    "bursts of a minute": Shape(lambda: arrivals.bursty(3.0, HOUR, 3.0, 240.0, Random(1))),
    "a spike": Shape(lambda: levels((1.0, 1200), (12.0, 60), (1.0, 2400))),
    "on and off": Shape(lambda: levels((7.0, 900), (0.0, 900), (7.0, 900), (0.0, 890), (1.0, 10)), 1),
    "a swing": Shape(lambda: arrivals.swinging(5.0, 2 * HOUR, 0.8, 2 * HOUR, Random(1))),
    "evenly": Shape(lambda: arrivals.uniform(4.0, HOUR / 2)),
    "levels that jump": Shape(jumping, 1),
    "Azure code": Shape(lambda: recorded("azure_code")),
    "Azure conversation": Shape(lambda: recorded("azure_conv"), 1),  # from 4.7 to 8 a second
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def schedule_of(times: Sequence[float]) -> Schedule:
    return Schedule(array("d", times), None, times[-1], "")


def played(times: Sequence[float], **rules: object) -> Staffed:
    return scaled(SCENARIO, replace(RULES, **rules), schedule_of(times), 0.0, OBJECTIVE)  # type: ignore[arg-type]


@cache
def staff_of(shape: str, rules: str) -> Staff:
    return played(SHAPES[shape].make(), rules=rules).staff


@every_shape
@pytest.mark.parametrize("rules", ["predicted", "classic"])
def test_no_worker_is_added_and_soon_taken_away_whatever_comes(shape: str, rules: str) -> None:
    staff = staff_of(shape, rules)
    for (before, had), (now, has) in zip(staff.changes, staff.changes[1:], strict=False):
        if has < had:
            assert now - before >= RULES.cool_down
    assert min(count for _, count in staff.changes) >= RULES.least
    assert staff.most <= RULES.most


@every_shape
def test_workers_come_back_no_oftener_than_the_traffic_does(shape: str) -> None:
    assert staff_of(shape, "predicted").regrets <= SHAPES[shape].returns


def test_a_steady_load_ends_with_the_workers_that_it_needs_and_misses_nothing_after_the_start() -> None:
    found = played(SHAPES["evenly"].make())
    assert found.staff.changes[-1][1] in (
        3,
        4,
    )  # 4 ÷ (2 × 0.7), and one more where chance might be against it
    assert found.missed_share < 0.02


def test_workers_cost_less_than_a_fixed_number_on_a_swing_and_hardly_anything_is_missed() -> None:
    times = SHAPES["a swing"].make()
    found, most = played(times), fixed(SCENARIO, RULES.most, schedule_of(times), 0.0, OBJECTIVE)
    assert found.hours < 0.75 * most.hours
    assert most.missed == 0
    assert found.missed_share < 0.002


def test_a_fixed_number_is_paid_for_from_beginning_to_end() -> None:
    times = levels((1.0, 600))
    found = fixed(SCENARIO, 3, schedule_of(times), 0.0, OBJECTIVE)
    assert found.hours == pytest.approx(3 * times[-1] / 3600)
    assert (found.staff.most, found.staff.mean, found.staff.regrets) == (3, 3.0, 0)


def test_a_worker_is_paid_for_while_it_starts() -> None:
    times = levels((4.0, 600))
    quick, slow = played(times, start=1.0), played(times, start=100.0)
    assert slow.hours >= quick.hours
    assert slow.missed > quick.missed


def test_with_a_least_of_none_the_last_worker_goes_and_the_first_request_brings_it_back() -> None:
    times = levels((0.5, 300), (0.0, 1500), (0.5, 300))
    found = played(times, least=0, idle=600.0)
    counts = [count for _, count in found.staff.changes]
    assert 0 in counts
    assert counts[counts.index(0) + 1] == 1
    # Whoever came while the worker started was refused.
    back = next(when for when, count in found.staff.changes if count == 1 and when > 600)
    late = [time for time in times if back - 1 <= time <= back + RULES.start]
    assert found.missed == pytest.approx(len(late), abs=8)


def test_a_worker_that_is_wanted_no_more_finishes_its_batch() -> None:
    found = played(levels((9.0, 900), (1.0, 3000)))
    assert found.staff.changes[-1][1] < 7
    assert found.summary.errors.keys() <= {"SERVICE_OVERLOADED"}


def test_the_same_seed_gives_the_same_staff() -> None:
    first, again = played(ramp()), played(ramp())
    assert first.as_dict() == again.as_dict()
