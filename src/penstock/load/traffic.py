"""Makes the schedule of one run from what was asked for. `penstock sim`, `bench` and `plan` say with it what
traffic they want, `tune` does if it has no trace, and so do the benchmarks. A trace is read from its file."""

from array import array
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from penstock.errors import UserMistake
from penstock.load import arrivals

BURST_FACTOR, BURST_PERIOD = 3.0, 10.0  # times the rate, and seconds; see `arrivals.bursty`
DAY, SWING = 24 * 3600.0, 0.8  # seconds, and by which part the rate swings in a day; see `arrivals.swinging`


@dataclass(frozen=True, slots=True)
class Traffic:
    """What was asked for on the command line."""

    rate: float = 1000.0  # requests a second
    duration: float = 60.0  # seconds that are measured
    warmup: float = 2.0  # seconds before those that are measured
    arrivals: str = "poisson"  # poisson, uniform, bursty, day or trace
    trace: Path | None = None  # a file of recorded arrivals, to be replayed
    seed: int = 0
    bursts: float = BURST_FACTOR  # times the rate, where arrivals are bursty


class Schedule(NamedTuple):
    """When requests arrive."""

    times: "array[float]"  # seconds from the start
    tokens: "array[int] | None"  # how many tokens each request has; None unless a trace says it
    measured: float  # seconds that are measured: the warm-up is left out
    source: str  # the source of a trace, which a report must name
    sizes: "array[int] | None" = None  # bytes of each input; None unless a trace says it


def make_schedule(traffic: Traffic) -> Schedule:
    """Returns the schedule. The same seed gives `penstock sim` and `penstock bench` the same times."""
    rng, span, rate = Random(traffic.seed), traffic.warmup + traffic.duration, traffic.rate
    tokens, sizes, source = None, None, ""
    if traffic.trace is not None and traffic.arrivals not in ("poisson", "trace"):
        raise UserMistake(
            f"--trace says when requests arrive, and so does --arrivals {traffic.arrivals}: leave one of them out"
        )
    match "trace" if traffic.trace is not None else traffic.arrivals:
        case "poisson":
            times = arrivals.poisson(rate, span, rng)
        case "uniform":
            times = arrivals.uniform(rate, span)
        case "bursty":
            times = arrivals.bursty(rate, span, traffic.bursts, BURST_PERIOD, rng)
        case "day":
            times = arrivals.swinging(rate, span, SWING, DAY, rng)
        case "trace":
            if traffic.trace is None:
                raise UserMistake("--arrivals trace needs --trace FILE")
            times, tokens, sizes, source = arrivals.trace(traffic.trace, rate, span)
            span = min(span, times[-1] + 1 / rate)
        case other:
            raise UserMistake(f"--arrivals is poisson, uniform, bursty, day or trace, not {other!r}")
    if not times or times[-1] < traffic.warmup:
        raise UserMistake(
            f"nothing arrives after the warm-up of {traffic.warmup:g} s: "
            "raise --rate or --duration, or lower --warmup"
        )
    return Schedule(times, tokens, span - traffic.warmup, source, sizes)
