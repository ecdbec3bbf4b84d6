"""Plays one schedule under one policy, and makes tables of what came of it. `penstock sim` and the benchmarks call
it; the other studies of this folder use parts of it.

`study` plays the schedule and returns a `Finding`. `render` shows one finding in full, or several side by side,
with the floor: the latency that no policy can beat.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.errors import Overloaded
from penstock.load.report import Batches, Spread, Summary, summarize, tables
from penstock.load.traffic import Schedule
from penstock.sim.kernel import Kernel, Run, Scenario

STRIDE = 5_000  # arrivals between two updates of the progress line


@dataclass(frozen=True, slots=True)
class Tier:
    """How many requests of one tier were sent, and served in time."""

    sent: int
    in_time: int

    @property
    def share(self) -> float:
        return self.in_time / self.sent if self.sent else 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one policy made of the schedule."""

    summary: Summary
    tiers: Mapping[str, Tier]  # empty if there is only one tier
    floor: Spread | None  # None: there is none, or it was not asked for

    def as_dict(self) -> dict[str, object]:
        """Returns the fields of the summary, the tiers, and the floor, which only a simulator knows."""
        tiers = {name: {**asdict(tier), "share": round(tier.share, 4)} for name, tier in self.tiers.items()}
        floor = None if self.floor is None else asdict(self.floor)
        return {**self.summary.as_dict(), "tiers": tiers, "floor_ms": floor}


def study(
    scenario: Scenario,
    schedule: Schedule,
    warmup: float,
    tiers: Sequence[str],
    floor: Spread | None,
    progress: Callable[[int], None] | None = None,
) -> Finding:
    """Play the schedule under one policy."""
    kernel, times = Kernel(scenario), schedule.times
    costs = costs_of(scenario, schedule)
    run = kernel.run(times if progress is None else Watched(times, progress), costs, warmup)
    shown_tiers = tiers if len(scenario.tier_shares) > 1 else ()
    return Finding(
        summary_of(run, schedule, scenario.workers * (run.ended - warmup)),
        {name: Tier(run.sent_by_tier[i], run.in_time_by_tier[i]) for i, name in enumerate(shown_tiers)},
        floor,
    )


def costs_of(scenario: Scenario, schedule: Schedule) -> "array[int] | None":
    """Returns what each request costs; None where that makes no difference."""
    rules = scenario.rules
    by_cost = rules.max_cost < float("inf") or rules.group_lengths or scenario.service.length > 0.0
    return schedule.tokens if by_cost else None


def summary_of(run: Run, schedule: Schedule, available: float) -> Summary:
    """Returns the figures of a run. `available`: the seconds of all workers together, after the warm-up."""
    return summarize(
        duration=schedule.measured,
        latencies=run.latencies,
        rejected_latencies=[0.0] * run.errors[Overloaded.code],  # a refusal takes no virtual time
        errors=run.errors,
        batch=Batches(
            run.batches,
            round(run.batched / run.batches, 4) if run.batches else None,
            {str(reason): count for reason, count in sorted(run.reasons.items())},
            round(run.padding / (run.batched + run.padding), 4) if run.batches else None,
        ),
        busy=run.busy_seconds / available if available > 0 else 0.0,
        source=schedule.source,
    )


class Watched(Sequence[float]):
    """A schedule that reports how far it has been played."""

    def __init__(self, times: Sequence[float], progress: Callable[[int], None]) -> None:
        self._times = times
        self._progress = progress

    def __iter__(self) -> Iterator[float]:
        times = iter(self._times)
        for start in range(0, len(self._times), STRIDE):
            self._progress(start)
            yield from islice(times, STRIDE)

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, index: Any) -> Any:
        return self._times[index]


def render(findings: Mapping[str, Finding]) -> RenderableType:
    """Returns findings, by policy, as tables for people: one in full, several side by side."""
    parts: list[RenderableType]
    first = next(iter(findings.values()))
    if len(findings) == 1:
        parts = [tables(first.summary)]
        if first.floor is not None:
            floor = first.floor
            parts.append(Text(f"floor    mean {floor.mean} · p95 {floor.p95} · p99 {floor.p99} ms", "dim"))
    else:
        parts = [_side_by_side(findings)]
        if first.summary.source:
            parts.append(Text(f"traffic  {first.summary.source}", style="dim"))
    if first.tiers:
        parts.append(_tiers(findings))
    return Group(*parts)


def _side_by_side(findings: Mapping[str, Finding]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("ms", no_wrap=True)
    for heading in ("mean", "p50", "p95", "p99", "max", "goodput/s", "refused", "errors", "batch", "busy"):
        table.add_column(heading, justify="right", no_wrap=True)
    padded = any(finding.summary.batch.padded_share for finding in findings.values())
    if padded:
        table.add_column("padded", justify="right", no_wrap=True)
    for policy, finding in findings.items():
        found, busy = finding.summary, finding.summary.busy or 0.0
        table.add_row(
            policy,
            *_cells(found.latency_ms),
            f"{found.goodput_rps:,.1f}",
            f"{found.rejected:,}",
            f"{found.sent - found.ok - found.rejected:,}",
            f"{found.batch.mean_size or 0:.1f}",
            f"{busy:.0%}",
            *([f"{found.batch.padded_share or 0:.1%}"] if padded else []),
        )
    floor = next(iter(findings.values())).floor
    if floor is not None:
        table.add_row("floor", *_cells(floor), style="dim")
    return table


def _cells(figures: Spread) -> list[str]:
    values = (figures.mean, figures.p50, figures.p95, figures.p99, figures.max)
    return ["–" if value is None else f"{value:,.1f}" for value in values]


def _tiers(findings: Mapping[str, Finding]) -> Table:
    names = list(next(iter(findings.values())).tiers)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("served in time", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for policy, finding in findings.items():
        table.add_row(policy, *(f"{finding.tiers[name].share:.1%}" for name in names))
    return table
