"""Runs `penstock bench` as a process of its own, and makes the figures of several rounds into one. Every benchmark
of latency offers its load so."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.serving import PENSTOCK

WARM_UP_SECONDS = 2.0
SPARE_SECONDS = 60  # beyond the schedule, for starting and for the last answers


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is sent; the same seed gives the same schedule, also to the simulator."""

    rate: float
    seconds: float  # measured
    warmup: float = WARM_UP_SECONDS
    arrivals: str = "poisson"
    trace: Path | None = None
    timeout_ms: int | None = None
    seed: int = 0
    characters: int | None = None  # in each input; by default 2 KB, or what the trace says


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run, or the median of several, came to. Durations in ms; none where nothing was answered."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    goodput: float  # good answers a second, in time where there was a deadline
    refused_p99: float | None = None  # how soon a refusal was known
    lateness_p99: float | None = None  # of the generator itself; latencies include it
    batch: float | None = None  # mean size
    busy: float | None = None  # share of the workers' time
    sent: int = 0
    ok: int = 0
    rejected: int = 0
    errors: int = 0  # all that are not ok, refusals included
    codes: Mapping[str, int] = field(default_factory=dict)  # the same by their codes


def bench(url: str, admin: str | None, traffic: Traffic) -> Measured:
    """Load the server and read the figures."""
    command = [
        *PENSTOCK, "bench", url, "--json", "-",
        "--rate", f"{traffic.rate:g}",
        "--duration", f"{traffic.seconds:g}s",
        "--warmup", f"{traffic.warmup:g}s",
        "--arrivals", "poisson" if traffic.trace else traffic.arrivals,
        "--seed", str(traffic.seed),
        *(["--trace", str(traffic.trace)] if traffic.trace else []),
        *(["--timeout-ms", str(traffic.timeout_ms)] if traffic.timeout_ms else []),
        *(["--payload-size", str(traffic.characters)] if traffic.characters else []),
        *(["--admin", admin] if admin else []),
    ]  # fmt: skip
    limit = traffic.seconds + traffic.warmup + SPARE_SECONDS
    finished = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    if finished.returncode:
        words = finished.stderr.strip().splitlines()
        raise RuntimeError(f"penstock bench: {words[-1] if words else f'exit code {finished.returncode}'}")
    return measured(json.loads(finished.stdout))


def measured(summary: dict[str, Any]) -> Measured:
    """The figures in the JSON of `penstock bench` or of the simulator, which have the same fields."""
    latency, lateness = summary["latency_ms"], summary["generator_lateness_ms"] or {}
    return Measured(
        mean=latency["mean"],
        p50=latency["p50"],
        p95=latency["p95"],
        p99=latency["p99"],
        goodput=summary["goodput_rps"],
        refused_p99=summary["rejected_latency_ms"]["p99"],
        lateness_p99=lateness.get("p99"),
        batch=summary["batch"]["mean_size"],
        busy=summary["busy"],
        sent=summary["sent"],
        ok=summary["ok"],
        rejected=summary["rejected"],
        errors=sum(summary["errors"].values()),
        codes=summary["errors"],
    )


def middle(rounds: Sequence[Measured]) -> Measured:
    """The median of each figure, the counts summed."""

    def of(figure: Callable[[Measured], float | None]) -> float | None:
        known = [value for value in map(figure, rounds) if value is not None]
        return median(known) if len(known) == len(rounds) else None

    return Measured(
        mean=of(lambda m: m.mean),
        p50=of(lambda m: m.p50),
        p95=of(lambda m: m.p95),
        p99=of(lambda m: m.p99),
        goodput=median(m.goodput for m in rounds),
        refused_p99=of(lambda m: m.refused_p99),
        lateness_p99=of(lambda m: m.lateness_p99),
        batch=of(lambda m: m.batch),
        busy=of(lambda m: m.busy),
        sent=sum(m.sent for m in rounds),
        ok=sum(m.ok for m in rounds),
        rejected=sum(m.rejected for m in rounds),
        errors=sum(m.errors for m in rounds),
        codes=sum((Counter(m.codes) for m in rounds), Counter()),
    )
