"""Plays one schedule on several zones, and makes a table of the results of several ways in which these may help
each other. `penstock sim --zones` calls it for each way (`cli/sim_zones.py`)."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table

from penstock.errors import Overloaded
from penstock.load.report import Batches, Summary, at_share, summarize
from penstock.load.traffic import Schedule
from penstock.sim.kernel import Scenario
from penstock.sim.zoned import ZonedKernel, ZonedRun, Zones
from penstock.types import Seconds

# After the loss of a zone, p99 counts as back once it is no more than this multiple of what it was before.
BACK = 1.5


@dataclass(frozen=True, slots=True)
class ZonedFinding:
    """What one way of helping each other made of the schedule."""

    summary: Summary
    # The part of the requests served in time whose batch ran in another zone than they were asked in.
    crossed: float
    accepted: int  # requests that were let in
    failed: int  # requests that were let in and expired, or were late
    inherited: int  # requests that a lost zone had in hand
    # Seconds from the loss until p99 was back; None if no zone was lost, or it never was.
    back: Seconds | None

    def as_dict(self) -> dict[str, object]:
        return {
            **self.summary.as_dict(),
            "crossed_share": round(self.crossed, 4),
            "accepted": self.accepted,
            "accepted_failed": self.failed,
            "inherited": self.inherited,
            "p99_back_s": self.back,
        }


def zoned_study(scenario: Scenario, zones: Zones, schedule: Schedule, warmup: Seconds) -> ZonedFinding:
    """Play the schedule with one way of helping each other."""
    run = ZonedKernel(scenario, zones).run(schedule.times, warmup)
    refused = run.errors[Overloaded.code]
    available = scenario.workers * (run.ended - warmup)
    summary = summarize(
        duration=schedule.measured,
        latencies=run.latencies,
        rejected_latencies=[0.0] * refused,  # a refusal takes no virtual time
        errors=run.errors,
        batch=Batches(run.batches, round(run.batched / run.batches, 4) if run.batches else None),
        busy=run.busy_seconds / available if available > 0 else 0.0,
        source=schedule.source,
    )
    served = len(run.latencies)
    return ZonedFinding(
        summary,
        run.crossed / served if served else 0.0,
        run.accepted,
        run.accepted - served,
        run.inherited,
        back_after(run, zones.lost_at) if zones.lost else None,
    )


def back_after(run: ZonedRun, lost_at: Seconds) -> Seconds | None:
    """Seconds from the loss of a zone until p99 of those that arrive within one second is back; None if it still
    is not at the end."""
    before = sorted(
        latency for arrival, latency in zip(run.arrivals, run.latencies, strict=True) if arrival < lost_at
    )
    by_second: defaultdict[int, list[float]] = defaultdict(list)
    for arrival, latency in zip(run.arrivals, run.latencies, strict=True):
        if arrival >= lost_at:
            by_second[int(arrival - lost_at)].append(latency)
    if not before or not by_second:
        return None
    limit = BACK * at_share(before, 0.99)
    worse = [second for second, found in by_second.items() if at_share(sorted(found), 0.99) > limit]
    last = max(by_second)
    if last in worse:
        return None
    return float(max(worse, default=-1) + 1)


def render_zones(findings: Mapping[str, ZonedFinding], lost: str) -> RenderableType:
    """Returns what was found, by the way of helping each other, as a table. `lost`: the zone that was lost, if
    any."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("ms", no_wrap=True)
    headings = ["mean", "p99", "max", "goodput/s", "refused", "failed", "crossed", "busy"]
    for heading in headings + (["back"] if lost else []):
        table.add_column(heading, justify="right", no_wrap=True)
    for way, finding in findings.items():
        found, ms = finding.summary, finding.summary.latency_ms
        values = (ms.mean, ms.p99, ms.max)
        cells = ["–" if value is None else f"{value:,.1f}" for value in values]
        cells += [f"{found.goodput_rps:,.1f}", f"{found.rejected:,}", f"{finding.failed:,}"]
        cells += [f"{finding.crossed:.1%}", f"{found.busy or 0.0:.0%}"]
        if lost:
            cells.append("never" if finding.back is None else f"{finding.back:.0f} s")
        table.add_row(way, *cells)
    return table
