"""Reads the server's own batch counters from its admin plane, before and after the measured window. `load.py` calls
`scrape` at both moments, and `compare` at the end.

Over Redis the batchers and workers have those counters; the admin plane of any process there says where theirs are.
The pages are fetched in a thread while the load runs, and read only afterwards.
"""

import json
import os
import re
import time
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from penstock.load.report import Batches

PATIENCE = 5.0  # seconds; a server under load may answer slowly
ROLES = ("batcher", "worker")  # the roles that form batches, and that run them

_SAMPLE = re.compile(
    r"^penstock_(batches_total|batched_requests_total|padding_total|worker_busy_seconds_total|workers)"
    r"(?:\{(.*)\})? (\S+)",
    re.MULTILINE,
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True, frozen=True)
class Scrape:
    """The metrics pages at one moment."""

    taken: float  # monotonic seconds
    pages: Mapping[str, str]  # by the URL of the admin plane


@dataclass(slots=True, frozen=True)
class Window:
    """What the workers did between two scrapes."""

    batch: Batches
    busy: float | None  # the share of the workers' time


def scrape(admin: str) -> Scrape | None:
    """Returns the metrics of the processes that form and run batches; None if no admin plane answers."""
    admin = admin.rstrip("/")
    pages = {}
    for plane in _planes(admin):
        with suppress(OSError, ValueError):  # one of several processes may just have ended
            pages[plane] = _get(f"{plane}/metrics")
    return Scrape(time.monotonic(), pages) if pages else None


def _planes(admin: str) -> list[str]:
    """Returns the admin planes of all batchers and workers; if there is none, this one."""
    try:
        processes = json.loads(_get(f"{admin}/internal/health"))["processes"]
        found = [str(each["admin"]) for each in processes if each["role"] in ROLES and each["admin"]]
    except (OSError, ValueError, LookupError, TypeError):
        found = []
    return found or [admin]


def _get(url: str) -> str:
    token = os.environ.get("PENSTOCK_SERVER_ADMIN_TOKEN")
    request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"} if token else {})
    # Without a proxy that the environment may name: an admin plane is not behind one.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=PATIENCE) as answer:
        return str(answer.read().decode("utf-8", "replace"))


def compare(before: Scrape | None, after: Scrape | None, model: str | None) -> Window | None:
    """Returns what happened between two scrapes; None if one is missing or has no batch counters."""
    if before is None or after is None:
        return None
    reasons: dict[str, int] = defaultdict(int)
    members, busy_seconds, workers, counted = 0.0, 0.0, 0.0, False
    padding = 0.0
    for plane, page in after.pages.items():
        first, last = _read(before.pages.get(plane, ""), model), _read(page, model)
        for (name, label), value in last.items():
            start = first.get((name, label), 0.0)
            # A process that was started anew meanwhile counts from 0.
            grown = value - start if value >= start else value
            if name == "batches_total":
                reasons[label] += round(grown)
            elif name == "batched_requests_total":
                members, counted = members + grown, True
            elif name == "padding_total":
                padding += grown
            elif name == "worker_busy_seconds_total":
                busy_seconds += grown
            else:
                workers += value
    if not counted:
        return None
    count = sum(reasons.values())
    capacity = workers * (after.taken - before.taken)
    return Window(
        Batches(
            count,
            round(members / count, 3) if count else None,
            {reason: number for reason, number in sorted(reasons.items()) if number},
            round(padding / (members + padding), 4) if members else None,
        ),
        min(1.0, busy_seconds / capacity) if capacity > 0 else None,
    )


def _read(text: str, model: str | None) -> dict[tuple[str, str], float]:
    """Returns totals by metric, and by reason or worker state if the metric has one."""
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for name, labels, value in _SAMPLE.findall(text):
        named = dict(_LABEL.findall(labels))
        if model is None or named.get("model") == model:
            totals[name, named.get("reason") or named.get("state") or ""] += float(value)
    return totals
