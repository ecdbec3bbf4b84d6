"""What the server says of itself: its batch counters, before and after the measured window.

The text is fetched in a thread while the load runs, and read only afterwards.
"""

import re
import time
import urllib.request
from collections import defaultdict
from dataclasses import dataclass

from penstock.sim.report import Batches

PATIENCE = 5.0  # seconds: a server under load may be slow to say it

_SAMPLE = re.compile(
    r"^penstock_(batches_total|batched_requests_total|worker_busy_seconds_total|workers)"
    r"(?:\{(.*)\})? (\S+)",
    re.MULTILINE,
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True, frozen=True)
class Scrape:
    taken: float  # monotonic seconds
    text: str


@dataclass(slots=True, frozen=True)
class Window:
    """What the workers did between two scrapes."""

    batch: Batches
    busy: float | None


def scrape(admin: str) -> Scrape | None:
    """The metrics page of the admin plane, or None where there is none to be had."""
    try:
        # A plane on this machine must not be looked for behind a proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(admin.rstrip("/") + "/metrics", timeout=PATIENCE) as answer:
            return Scrape(time.monotonic(), answer.read().decode("utf-8", "replace"))
    except (OSError, ValueError):
        return None


def compare(before: Scrape | None, after: Scrape | None, model: str | None) -> Window | None:
    """The difference; None unless both are there and show batch counters."""
    if before is None or after is None:
        return None
    first, last = _read(before.text, model), _read(after.text, model)
    if not any(name == "batched_requests_total" for name, _ in last):
        return None
    grown = {key: value - first.get(key, 0.0) for key, value in last.items()}
    reasons: dict[str, int] = defaultdict(int)
    members, busy_seconds, workers = 0.0, 0.0, 0.0
    for (name, label), value in grown.items():
        if name == "batches_total":
            reasons[label] += round(value)
        elif name == "batched_requests_total":
            members += value
        elif name == "worker_busy_seconds_total":
            busy_seconds += value
        else:
            workers += last[name, label]
    count = sum(reasons.values())
    capacity = workers * (after.taken - before.taken)
    return Window(
        Batches(
            count,
            round(members / count, 3) if count else None,
            {reason: number for reason, number in sorted(reasons.items()) if number},
        ),
        min(1.0, busy_seconds / capacity) if capacity > 0 else None,
    )


def _read(text: str, model: str | None) -> dict[tuple[str, str], float]:
    """Totals by metric, and by reason or worker state where it has one."""
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for name, labels, value in _SAMPLE.findall(text):
        named = dict(_LABEL.findall(labels))
        if model is None or named.get("model") == model:
            totals[name, named.get("reason") or named.get("state") or ""] += float(value)
    return totals
