"""Plays one schedule with autoscaled workers and with a fixed number, and makes a table of both.
`penstock sim --autoscale` and `benchmarks/autoscaling.py` call it.

What is compared is what the workers cost, as worker-hours, and how often the objective was missed: by a request
that was refused, failed, or was answered later than its objective.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from rich.table import Table

from penstock.core.scaling.seen import ScalingRules
from penstock.load.report import Summary
from penstock.load.traffic import Schedule
from penstock.sim.kernel import Kernel, Run, Scenario
from penstock.sim.scaled import ScaledKernel, Staff
from penstock.sim.study import Watched, costs_of, summary_of

Progress = Callable[[int], None]  # called now and then with how many arrivals have been played


@dataclass(frozen=True, slots=True)
class Staffed:
    """What one way of having workers made of the schedule."""

    summary: Summary
    staff: Staff
    missed: int  # requests that missed the objective

    @property
    def hours(self) -> float:
        """Worker-hours."""
        return self.staff.seconds / 3600

    @property
    def missed_share(self) -> float:
        return self.missed / self.summary.sent if self.summary.sent else 0.0

    def as_dict(self) -> dict[str, object]:
        staff = self.staff
        workers = {
            "hours": round(self.hours, 4),
            "mean": round(staff.mean, 4),
            "most": staff.most,
            "changes": len(staff.changes) - 1,
            "regrets": staff.regrets,
        }
        missed = {"requests": self.missed, "share": round(self.missed_share, 6)}
        return {**asdict(self.summary), "workers": workers, "missed": missed}


def scaled(
    scenario: Scenario,
    rules: ScalingRules,
    schedule: Schedule,
    warmup: float,
    objective: float,
    progress: Progress | None = None,
) -> Staffed:
    """Play the schedule with as many workers as the rules ask for. A start takes as long as the rules believe it
    does (`rules.start`)."""
    kernel = ScaledKernel(scenario, rules, rules.start)
    run = _play(kernel, scenario, schedule, warmup, progress)
    return _staffed(run, kernel.staff, schedule, objective)


def fixed(
    scenario: Scenario,
    workers: int,
    schedule: Schedule,
    warmup: float,
    objective: float,
    progress: Progress | None = None,
) -> Staffed:
    """Play the schedule with so many workers from beginning to end."""
    run = _play(Kernel(replace(scenario, workers=workers)), scenario, schedule, warmup, progress)
    span = max(0.0, schedule.times[-1] - warmup)
    return _staffed(run, Staff(workers * span, span, workers, [(0.0, workers)]), schedule, objective)


def _play(
    kernel: Kernel, scenario: Scenario, schedule: Schedule, warmup: float, progress: Progress | None
) -> Run:
    times = schedule.times if progress is None else Watched(schedule.times, progress)
    return kernel.run(times, costs_of(scenario, schedule), warmup)


def _staffed(run: Run, staff: Staff, schedule: Schedule, objective: float) -> Staffed:
    summary = summary_of(run, schedule, staff.seconds)
    in_time = bisect_right(sorted(run.latencies), objective)
    return Staffed(summary, staff, run.sent - in_time)


def table(found: Mapping[str, Staffed]) -> Table:
    """Returns what was found, by name, as a table for people."""
    rows = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    rows.add_column("workers", no_wrap=True)
    for heading in ("hours", "mean", "most", "changes", "missed", "", "refused", "p95 ms", "p99 ms", "busy"):
        rows.add_column(heading, justify="right", no_wrap=True)
    for name, each in found.items():
        summary, staff = each.summary, each.staff
        rows.add_row(
            name,
            f"{each.hours:,.2f}",
            f"{staff.mean:.2f}",
            f"{staff.most}",
            f"{len(staff.changes) - 1}",
            f"{each.missed:,}",
            f"{each.missed_share:.3%}",
            f"{summary.rejected:,}",
            *("–" if ms is None else f"{ms:,.1f}" for ms in (summary.latency_ms.p95, summary.latency_ms.p99)),
            f"{summary.busy or 0.0:.0%}",
        )
    return rows
