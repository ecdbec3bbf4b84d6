"""Overload by tiers, over HTTP with API keys: twice the capacity, and ten times with clients that try again.

    python -m benchmarks.overload_tiers

Goodput counts answers in time. Of twice the capacity the best tier is 40 %, so all of it should be served; of ten
times it alone is twice what the workers can do. Quotas are out of the way: all refusals are for want of capacity.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from benchmarks.figure import Check, Figure, Say, conduct, number, options
from benchmarks.floors import Service
from benchmarks.generator import SPARE_SECONDS
from benchmarks.serving import Server, serving
from benchmarks.table import markdown_table
from benchmarks.tiered_load import Phase, Seen, TieredTraffic
from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from penstock.load.report import at_share

NAME = "overload_tiers"
ROOT = Path(__file__).parent.parent
TIERS = {"enterprise": 0.2, "paid": 0.3, "free": 0.5}  # of the requests
TENANTS = 10  # of each tier
TIMEOUT_MS = 1000
TWICE = Service(a=0.100, workers=6, max_batch=32)
# The storm has a smaller capacity: ten times 1,920 requests a second, each tried up to three times, is more than
# two cores can even refuse.
STORM = Service(a=0.100, workers=6, max_batch=4)
ATTEMPTS = 3  # of a client, the first included
WARM_UP = 3.0  # seconds, not counted
CALM, CALM_SECONDS = 0.5, 10.0  # of the capacity, before the storm and after it
SLOWER = 1.5  # times the p95 of before; above it, things are not yet normal
# Promised: per cent, and seconds.
GOODPUT, STORM_GOODPUT, BEST, LATE, NORMAL_SECONDS = 97.0, 90.0, 99.9, 0.5, 5.0


@dataclass(frozen=True, slots=True)
class Part:
    """What became of the requests that were due in one part of a run; shares in per cent."""

    goodput: float  # of the capacity
    served: tuple[float, ...]  # in time, by tier
    late: float  # of all that were served
    attempts: float  # for each request
    p95_ms: float | None  # of all that were served
    unanswered: int


def part(seen: Seen, service: Service, start: float, end: float) -> Part:
    timeout = TIMEOUT_MS / 1e3
    chosen = [index for index, due in enumerate(seen.due) if start <= due < end]
    sent, in_time = [0] * len(TIERS), [0] * len(TIERS)
    seconds: list[float] = []
    for index in chosen:
        tier = seen.tier[index]
        sent[tier] += 1
        if seen.status[index] == 200:
            seconds.append(seen.done[index] - seen.sent[index])
            in_time[tier] += seconds[-1] <= timeout
    good, served = sum(in_time), len(seconds)
    seconds.sort()
    return Part(
        goodput=100 * good / (end - start) / service.capacity,
        served=tuple(100 * got / asked if asked else 100.0 for got, asked in zip(in_time, sent, strict=True)),
        late=100 * (served - good) / served if served else 0.0,
        attempts=sum(seen.attempts[index] for index in chosen) / max(1, len(chosen)),
        p95_ms=at_share(seconds, 0.95) * 1e3 if served else None,
        unanswered=sum(not seen.status[index] for index in chosen),
    )


def seconds_to_normal(seen: Seen, service: Service, before: Part, storm_end: float, end: float) -> float:
    """How long it takes until, from some second on, everybody is served about as fast as before."""
    normal = 0.0
    assert before.p95_ms is not None
    for start in range(int(end - storm_end)):
        second = part(seen, service, storm_end + start, storm_end + start + 1)
        slow = second.p95_ms is None or second.p95_ms > SLOWER * before.p95_ms
        if slow or min(second.served) < 100.0:
            normal = start + 1.0
    return normal


@contextmanager
def gateway(service: Service) -> Iterator[tuple[Server, list[list[str]]]]:
    """A server that asks for keys, and the keys of the tenants of each tier."""
    with tempfile.TemporaryDirectory(prefix="penstock-tiers-") as folder:
        file = Path(folder, "keys.json")
        keys = [[api_key(file, f"{tier}-{number}", tier) for number in range(TENANTS)] for tier in TIERS]
        settings = {
            "PENSTOCK_AUTH_MODE": "keys",
            "PENSTOCK_AUTH_KEYS_FILE": str(file),
            "PENSTOCK_TIERS_LEVELS_FREE_REQUESTS_PER_MINUTE": "100000000",
        }
        flags = ("--workers", str(service.workers), "--max-batch", str(service.max_batch))
        with serving(f"sim:{service.a * 1e3:g}ms", *flags, settings=settings) as server:
            yield server, keys


def api_key(file: Path, tenant: str, tier: str) -> str:
    key, record = make_key(tenant, tier, time.time())
    asyncio.run(KeysFile(file).add(record))
    return key


def offered(service: Service, phases: Sequence[Phase], attempts: int, seed: int) -> Seen:
    with gateway(service) as (server, keys), tempfile.NamedTemporaryFile(prefix="tiered-load-") as file:
        shares = list(TIERS.values())
        traffic = TieredTraffic(server.url, list(phases), shares, keys, TIMEOUT_MS, attempts, seed)
        return played(traffic, Path(file.name))


def played(traffic: TieredTraffic, file: Path) -> Seen:
    """What a process of its own saw when it sent this traffic."""
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.tiered_load", str(file)],
        cwd=ROOT,
        input=msgspec.json.encode(traffic),
        capture_output=True,
        timeout=sum(phase.seconds for phase in traffic.phases) + SPARE_SECONDS,
        check=False,
    )
    if finished.returncode:
        words = finished.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"the load generator: {words[-1] if words else finished.returncode}")
    return msgspec.msgpack.decode(file.read_bytes(), type=Seen)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    return options(NAME, __doc__, seconds=60.0).parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    seconds = given.seconds
    say(f"twice the capacity of {TWICE.capacity:,.0f}/s, {seconds:g} s …")
    phases = [Phase(2 * TWICE.capacity, WARM_UP + seconds)]
    seen = offered(TWICE, phases, 1, 0)
    twice, lateness = part(seen, TWICE, WARM_UP, WARM_UP + seconds), _p99(seen.late)
    say(f"ten times the capacity of {STORM.capacity:,.0f}/s, {ATTEMPTS} attempts, {seconds:g} s …")
    calm = Phase(CALM * STORM.capacity, CALM_SECONDS)
    begins, ends = CALM_SECONDS, CALM_SECONDS + seconds
    seen = offered(STORM, [calm, Phase(10 * STORM.capacity, seconds), calm], ATTEMPTS, 1)
    before = part(seen, STORM, WARM_UP, begins)
    storm = (
        part(seen, STORM, begins + WARM_UP, ends)
        if seconds > 2 * WARM_UP
        else part(seen, STORM, begins, ends)
    )
    after = part(seen, STORM, ends, ends + CALM_SECONDS)
    normal = seconds_to_normal(seen, STORM, before, ends, ends + CALM_SECONDS)
    parts = {
        "2 × capacity": twice,
        f"{CALM:g} × capacity, before": before,
        "10 × capacity, clients try again": storm,
        f"{CALM:g} × capacity, after": after,
    }
    return figure(parts, normal, seconds, (lateness, _p99(seen.late)))


def figure(parts: dict[str, Part], normal: float, seconds: float, lateness: tuple[float, float]) -> Figure:
    twice, _, storm, _ = parts.values()
    header = ["offered", "goodput / capacity", *(f"{tier}, in time" for tier in TIERS)]
    header += ["served late", "attempts each", "p95, ms", "unanswered"]
    rows = [
        [
            name, f"{p.goodput:.1f} %", *(f"{share:.2f} %" for share in p.served),
            f"{p.late:.2f} %", f"{p.attempts:.2f}", number(p.p95_ms), str(p.unanswered),
        ]
        for name, p in parts.items()
    ]  # fmt: skip
    return Figure(
        title="Overload by tiers",
        method=(
            f"Over HTTP, {TENANTS} tenants with API keys in each tier, "
            f"{' / '.join(f'{tier} {share:.0%}' for tier, share in TIERS.items())} of the requests, Poisson, open "
            f"loop, {TIMEOUT_MS} ms to live, weighted tiers as they are by default, no quotas. 2 ×: sim:100ms, 6 "
            f"workers, batches up to 32 (capacity {TWICE.capacity:,.0f}/s), {seconds:g} s after {WARM_UP:g} s of "
            f"the same. 10 ×: batches up to 4 (capacity {STORM.capacity:,.0f}/s), since the server and its clients "
            f"share this machine; a client that is refused tries {ATTEMPTS - 1} times more, after 100 and 200 ms "
            f"give or take half, whatever `Retry-After` says; {seconds:g} s between {CALM_SECONDS:g} s at half the "
            f"capacity. Normal again: the first second from which on all are served and p95 is at most "
            f"{SLOWER:g} × that of before. The generator was late by {lateness[0] * 1e3:.1f} and "
            f"{lateness[1] * 1e3:.1f} ms, p99."
        ),
        tables=[markdown_table(header, rows)],
        checks=[
            Check("2 ×: goodput / capacity", twice.goodput, GOODPUT, "%", at_least=True),
            Check("2 ×: enterprise served in time", twice.served[0], BEST, "%", at_least=True),
            Check("2 ×: served late", twice.late, LATE, "%"),
            Check("10 ×: goodput / capacity", storm.goodput, STORM_GOODPUT, "%", at_least=True),
            Check("10 ×: normal again after", normal, NORMAL_SECONDS, "s"),
        ],
        data={"parts": {name: asdict(p) for name, p in parts.items()}, "seconds_to_normal": normal},
    )


def _p99(values: Sequence[float]) -> float:
    return at_share(sorted(values), 0.99) if values else 0.0


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
