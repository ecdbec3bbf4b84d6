"""When requests arrive: schedules, fixed before anything runs. The schedule of every run of `penstock sim` and
`penstock bench` is made here (by `traffic.py`), and that of some benchmarks.

A schedule is a sorted `array('d')` of seconds from its start. The simulator and the load generator use the same
schedules, so that their figures can be compared.
"""

import csv
from array import array
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import NamedTuple

from penstock.errors import UserMistake


class Trace(NamedTuple):
    """Recorded traffic, sped up or slowed down to a chosen mean rate."""

    times: "array[float]"
    tokens: "array[int]"  # how long each prompt was; stands for the length of a payload, or for its cost
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
    share = 1 / (2 * factor)
    burst, calm = rate * factor, rate * 0.5 / (1 - share)
    times = array("d")
    now, start, in_burst = 0.0, 0.0, False
    while now < duration:
        # The rate holds until `end`. An exponential gap that crosses `end` is drawn anew there, which is exact,
        # because an exponential gap does not depend on how long it has lasted already.
        end = start + period * (share if in_burst else 1 - share)
        now += rng.expovariate(burst if in_burst else calm)
        if now >= end:
            now = start = end
            in_burst = not in_burst
        elif now < duration:
            times.append(now)
    return times


def trace(path: Path, rate: float, duration: float | None = None) -> Trace:
    """Returns the requests of an Azure LLM trace in their order, the gaps scaled to a mean of `rate` a second."""
    _must_be_positive(rate, 1.0 if duration is None else duration)
    stamps, tokens = _read(path)
    span = _span(path, stamps)
    scale = (len(stamps) - 1) / span / rate
    times = array("d", ((stamp - stamps[0]) * scale for stamp in stamps))
    if duration is not None:
        while times and times[-1] >= duration:
            times.pop()
        tokens = tokens[: len(times)]
    credit = (
        "Azure LLM inference trace 2023, Microsoft Azure, CC-BY 4.0" if "azure" in path.name.lower() else ""
    )
    return Trace(times, tokens, credit)


def recorded_rate(path: Path) -> float:
    """Returns the requests a second of a trace as it was recorded."""
    stamps, _ = _read(path)
    return (len(stamps) - 1) / _span(path, stamps)


def burstiness(times: Sequence[float]) -> float:
    """Returns how many requests came in the busiest second, divided by the mean. 1 is even."""
    if not times:
        return 1.0
    first, seconds = int(times[0]), max(1.0, times[-1] - times[0])
    return max(1.0, max(Counter(int(time) - first for time in times).values()) / (len(times) / seconds))


def _span(path: Path, stamps: "array[float]") -> float:
    span = stamps[-1] - stamps[0]
    if span <= 0:
        raise UserMistake(
            f"{path}: all requests of this trace come at one instant; a rate needs a span of time"
        )
    return span


def _read(path: Path) -> "tuple[array[float], array[int]]":
    stamps, tokens = array("d"), array("L")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            missing = {"TIMESTAMP", "ContextTokens"} - set(rows.fieldnames or ())
            if missing:
                raise UserMistake(f"{path}: not a trace, the header lacks {' and '.join(sorted(missing))}")
            for row in rows:
                try:
                    stamps.append(_seconds(row["TIMESTAMP"]))
                    tokens.append(int(row["ContextTokens"]))
                except (TypeError, ValueError, OverflowError):
                    raise UserMistake(
                        f"{path}, line {rows.line_num}: expected a UTC time and a count of tokens, "
                        f"found {row['TIMESTAMP']!r} and {row['ContextTokens']!r}"
                    ) from None
    except OSError as error:
        raise UserMistake(f"cannot read the trace {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise UserMistake(f"{path}: not a trace, expected CSV text") from None
    if len(stamps) < 2:
        raise UserMistake(f"{path}: a trace needs at least two requests, this one has {len(stamps)}")
    # A trace is not always in order: now and then a recorder has written a request just after a later one.
    order = sorted(range(len(stamps)), key=stamps.__getitem__)
    return array("d", (stamps[i] for i in order)), array("L", (tokens[i] for i in order))


def _seconds(stamp: str) -> float:
    """Returns a time of a trace as seconds since the epoch. Traces have seven digits after the point. `datetime`
    reads six, so the fraction is read by itself."""
    whole, _, fraction = stamp.strip().partition(".")
    base = datetime.fromisoformat(whole + "+00:00").timestamp()
    return base + (float(f"0.{fraction}") if fraction else 0.0)


def _must_be_positive(rate: float, duration: float) -> None:
    if not 0 < rate < float("inf"):
        raise UserMistake(f"the rate must be above 0 requests a second, not {rate:g}")
    if not 0 < duration < float("inf"):
        raise UserMistake(f"the duration must be above 0 seconds, not {duration:g}")
