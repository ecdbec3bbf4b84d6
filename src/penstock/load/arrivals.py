"""When requests arrive: schedules, fixed before anything runs. `traffic.py` makes the schedule of every run of
`penstock sim` and `penstock bench` with these functions. `penstock plan` and `penstock tune` call some of them too,
and so do benchmarks. `trace` reads a file; the others only calculate.

A schedule is a sorted `array('d')` of seconds from its start. The simulator and the load generator use the same
schedules, so that their figures can be compared.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from math import cos, pi
from pathlib import Path
from random import Random
from typing import NamedTuple

from penstock.errors import UserMistake
from penstock.load.recorded import Recorded, read


class Trace(NamedTuple):
    """Recorded traffic, sped up or slowed down to a chosen mean rate."""

    times: "array[float]"
    tokens: "array[int]"  # how many tokens each prompt had: that stands for the length of an input, or for its cost
    sizes: "array[int] | None"  # bytes of each payload; None if the trace does not say it
    credit: str  # the source that a figure made from it must name; empty if unknown


def poisson(rate: float, duration: float, rng: Random) -> "array[float]":
    """Returns the arrivals of independent clients: the gaps are exponential."""
    _must_be_positive(rate, duration)
    times = array("d")
    append, gap = times.append, rng.expovariate
    now = gap(rate)
    while now < duration:
        append(now)
        now += gap(rate)
    return times


def uniform(rate: float, duration: float) -> "array[float]":
    """Returns arrivals at equal gaps. The first comes half a gap after the start, so that one schedule can follow
    another."""
    _must_be_positive(rate, duration)
    return array("d", ((index + 0.5) / rate for index in range(round(rate * duration))))


def bursty(rate: float, duration: float, factor: float, period: float, rng: Random) -> "array[float]":
    """Returns Poisson arrivals whose rate jumps to `factor` x `rate` for a while in each `period`.

    A burst takes 1/(2 x factor) of its period, so half of all requests come in bursts; the calm in
    between is slower by as much as keeps the mean at `rate`.
    """
    _must_be_positive(rate, duration)
    if factor <= 1 or period <= 0:
        raise UserMistake(f"bursts need a factor above 1 and a period above 0, not {factor:g} and {period:g}")
    part = 1 / (2 * factor)
    burst, calm = rate * factor, rate * 0.5 / (1 - part)
    times = array("d")
    now, start, in_burst = 0.0, 0.0, False
    while now < duration:
        # The rate holds until `end`. An exponential gap that crosses `end` is drawn anew there, which is exact,
        # because an exponential gap does not depend on how long it has lasted already.
        end = start + period * (part if in_burst else 1 - part)
        now += rng.expovariate(burst if in_burst else calm)
        if now >= end:
            now = start = end
            in_burst = not in_burst
        elif now < duration:
            times.append(now)
    return times


def swinging(rate: float, duration: float, swing: float, period: float, rng: Random) -> "array[float]":
    """Returns Poisson arrivals whose rate swings around `rate` by the part `swing`, once in each `period`. The rate
    is lowest at the beginning."""
    _must_be_positive(rate, duration)
    times = array("d")
    append, gap, chance, pace, most = times.append, rng.expovariate, rng.random, 2 * pi / period, 1 + swing
    now = gap(rate * most)
    while now < duration:
        # As many come as at the highest rate, and of these the part is kept that the rate has at that moment.
        if most * chance() < 1 - swing * cos(pace * now):
            append(now)
        now += gap(rate * most)
    return times


def trace(path: Path, rate: float, duration: float | None = None) -> Trace:
    """Returns the requests of a recorded trace in their order, the gaps scaled to a mean of `rate` a second."""
    return replayed(read(path), path, rate, duration)


def replayed(recorded: Recorded, path: Path, rate: float, duration: float | None = None) -> Trace:
    """Returns what `trace` does, for a trace that was already read from `path`."""
    _must_be_positive(rate, 1.0 if duration is None else duration)
    first, scale = recorded.times[0], recorded.rate / rate
    times = array("d", ((time - first) * scale for time in recorded.times))
    if duration is not None:
        while times and times[-1] >= duration:
            times.pop()
    credit = (
        "Azure LLM inference trace 2023, Microsoft Azure, CC-BY 4.0" if "azure" in path.name.lower() else ""
    )
    sizes = recorded.sizes
    return Trace(times, recorded.tokens[: len(times)], sizes and sizes[: len(times)], credit)


def burstiness(times: Sequence[float]) -> float:
    """Returns how many requests came in the busiest second, divided by the mean. 1 is even."""
    if not times:
        return 1.0
    first, seconds = times[0], max(1.0, times[-1] - times[0])
    return max(1.0, max(Counter(int(time - first) for time in times).values()) / (len(times) / seconds))


def _must_be_positive(rate: float, duration: float) -> None:
    if not 0 < rate < float("inf"):
        raise UserMistake(f"the rate must be above 0 requests a second, not {rate:g}")
    if not 0 < duration < float("inf"):
        raise UserMistake(f"the duration must be above 0 seconds, not {duration:g}")
