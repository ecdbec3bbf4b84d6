"""One line of figures every few seconds, for a person at a terminal: rate, latency, queue and busy share.
`roles/serve.py` and `cli/up.py` call `show`, and hand it the function that gets the metrics pages.

The figures are read from those pages, so they cost requests nothing.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic

EVERY = 5.0  # seconds
_SAMPLE = re.compile(
    r"^penstock_(request_latency_seconds_bucket|requests_total|refused_requests_total|queue_depth|workers"
    r'|worker_busy_seconds_total)(?:\{(?:.*?le="([^"]+)")?.*\})? (\S+)',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Pages:
    """Metrics pages as text: from gateways, batchers and workers. In one process all three are the same page."""

    requests: Sequence[str]
    queues: Sequence[str]
    workers: Sequence[str]


@dataclass(slots=True)
class Reading:
    """The figures of all pages at one moment."""

    at: float  # seconds
    ended: float = 0.0
    refused: float = 0.0
    queue: float = 0.0
    busy_seconds: float = 0.0
    workers: float = 0.0
    within: dict[float, float] = field(default_factory=dict)  # by seconds, how many requests took no longer


def read(pages: Pages, at: float) -> Reading:
    """Returns the figures of the pages. `at`: when they were fetched."""
    reading = Reading(at, within=defaultdict(float))
    for name, limit, value in _samples(pages.requests):
        if name == "requests_total":
            reading.ended += value
        elif name == "refused_requests_total":
            reading.refused += value
        elif name == "request_latency_seconds_bucket":
            reading.within[inf if limit == "+Inf" else float(limit)] += value
    reading.queue = sum(value for name, _, value in _samples(pages.queues) if name == "queue_depth")
    for name, _, value in _samples(pages.workers):
        reading.busy_seconds += value if name == "worker_busy_seconds_total" else 0.0
        reading.workers += value if name == "workers" else 0.0
    return reading


def _samples(pages: Iterable[str]) -> Iterable[tuple[str, str, float]]:
    for page in pages:
        for name, limit, value in _SAMPLE.findall(page):
            yield name, limit, float(value)


def line(before: Reading, now: Reading) -> str:
    """Returns the line for the time between two readings; empty if nothing happened."""
    span = now.at - before.at
    ended, refused = (max(0.0, now.ended - before.ended), max(0.0, now.refused - before.refused))
    if not (ended or refused or now.queue):
        return ""
    spent = max(0.0, now.busy_seconds - before.busy_seconds)
    busy = min(1.0, spent / (now.workers * span)) if now.workers else 0.0
    parts = [f"{ended / span:,.0f}/s" if ended >= 10 * span else f"{ended / span:,.1f}/s"]
    grown = {limit: max(0.0, count - before.within.get(limit, 0.0)) for limit, count in now.within.items()}
    if any(grown.values()):
        parts += [f"p50 {_percentile(grown, 0.5)}", f"p99 {_percentile(grown, 0.99)}"]
    parts += [f"queue {now.queue:,.0f}", f"busy {busy:.0%}"]
    if refused:
        parts.append(f"refused {refused / span:,.1f}/s")
    return "   ".join(parts)


def _percentile(within: dict[float, float], share: float) -> str:
    """Returns a percentile as text. Between two bounds of the histogram it is interpolated, as Prometheus does
    it."""
    limits = sorted(within)
    wanted = share * within[limits[-1]]
    low, below = 0.0, 0.0
    for limit in limits:
        if within[limit] >= wanted and limit < inf:
            part = (wanted - below) / ((within[limit] - below) or 1.0)
            found = (low + part * (limit - low)) * 1e3
            return f"{found:,.0f} ms" if found >= 100 else f"{found:.3g} ms"
        if limit < inf:
            low, below = limit, within[limit]
    return f"over {low:g} s"


Say = Callable[[str], None]


async def show(fetch: Callable[[], Awaitable[Pages]], say: Say, every: float = EVERY) -> None:
    """Writes a line every `every` seconds until cancelled, unless nothing happened."""
    before = read(await fetch(), monotonic())
    while True:
        await asyncio.sleep(every)
        now = read(await fetch(), monotonic())
        if text := line(before, now):
            say(text)
        before = now
