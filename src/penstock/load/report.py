"""The one summary that `penstock sim` and `penstock bench` both give, as JSON and as a table. The simulator makes
it of what it played (`sim/study.py`), the load generator of what it saw (`bench/outcomes.py`); the two commands and
the benchmarks print it.

Every request that was sent is counted exactly once: sent = ok + sum(errors.values()).
`rejected` counts those errors that were refusals (429 or 503); they are in `errors` too, by code.
"""

import json
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

LATE_GENERATOR_MS = 10.0  # beyond this the generator, not the server, shapes the latencies


@dataclass(slots=True, frozen=True)
class Spread:
    """How a set of durations is spread, in milliseconds. All fields are None if the set is empty."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None


@dataclass(slots=True, frozen=True)
class Batches:
    """The batches of a run."""

    # How many batches. A whole number if the server counted; if it is estimated from answers, each answer adds its
    # part of its batch.
    count: float = 0
    mean_size: float | None = None
    reasons: dict[str, int] = field(default_factory=dict)  # why batches went, by reason
    padded_share: float | None = None  # the part of what workers ran that was padding; None: not known


@dataclass(slots=True, frozen=True)
class Summary:
    """The figures of a run."""

    offered_rps: float
    sent: int
    ok: int
    rejected: int
    errors: dict[str, int]
    latency_ms: Spread
    batch: Batches
    busy: float | None  # the part of all workers' time spent on batches
    duration_s: float
    goodput_rps: float  # answers that were ok, and in time if a deadline was set
    late: int  # ok, but after the deadline
    rejected_latency_ms: Spread  # how soon a refusal came
    generator_lateness_ms: Spread | None = None  # how long after its scheduled time a request was sent
    resent: int = 0  # sent again, because the server closed an idle connection at that moment
    source: str = ""  # the source of a replayed trace, which a report must name

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2)

    @property
    def warning(self) -> str:
        """One line if the figures cannot be trusted, otherwise empty."""
        own = self.generator_lateness_ms
        if own is None or own.p99 is None or own.p99 <= LATE_GENERATOR_MS:
            return ""
        return (
            f"the generator itself was late (p99 {own.p99:.1f} ms, max {own.max:.1f} ms): latencies include "
            "that; lower --rate, raise --connections, or give it a core of its own"
        )


def at_share(ordered: Sequence[float], share: float) -> float:
    """Returns the percentile at a share from 0 to 1: the smallest value v such that at least this share of all
    values is v or less."""
    # We subtract 1e-9 because 0.9 * 10 may be slightly more than 9 in floats, and would then pick the tenth value.
    return ordered[max(0, min(len(ordered), math.ceil(share * len(ordered) - 1e-9)) - 1)]


def spread(seconds: Iterable[float]) -> Spread:
    """Returns the spread of these durations. It is exact: they are sorted."""
    ordered = sorted(seconds)
    if not ordered:
        return Spread()
    p50, p90, p95, p99, p999 = (_ms(at_share(ordered, share)) for share in (0.5, 0.9, 0.95, 0.99, 0.999))
    return Spread(_ms(math.fsum(ordered) / len(ordered)), p50, p90, p95, p99, p999, _ms(ordered[-1]))


def summarize(
    *,
    duration: float,
    latencies: Iterable[float],
    rejected_latencies: Iterable[float] = (),
    errors: Mapping[str, int],
    batch: Batches,
    busy: float | None,
    late: int = 0,
    generator_lateness: Iterable[float] | None = None,
    resent: int = 0,
    source: str = "",
) -> Summary:
    """Makes a summary. Times are in seconds. `latencies`: those of good answers, of which `late` came after their
    deadline. `errors`: all other answers, by code. `busy`: the part of the workers' time that they ran batches."""
    answered = latencies if isinstance(latencies, list | array) else list(latencies)
    refused = rejected_latencies if isinstance(rejected_latencies, list | array) else list(rejected_latencies)
    ok = len(answered)
    sent = ok + sum(errors.values())
    span = duration if duration > 0 else math.inf
    return Summary(
        offered_rps=round(sent / span, 3),
        sent=sent,
        ok=ok,
        rejected=len(refused),
        errors=dict(sorted(errors.items())),
        latency_ms=spread(answered),
        batch=batch,
        busy=None if busy is None else round(busy, 4),
        duration_s=round(duration, 6),
        goodput_rps=round((ok - late) / span, 3),
        late=late,
        rejected_latency_ms=spread(refused),
        generator_lateness_ms=None if generator_lateness is None else spread(generator_lateness),
        resent=resent,
        source=source,
    )


def tables(summary: Summary) -> RenderableType:
    """Returns a summary as tables for people, for a rich console."""
    parts: list[RenderableType] = [_counts(summary), _spreads(summary), Text(f"batches  {_batches(summary)}")]
    if summary.errors:
        parts.append(Text("errors   " + _listed(summary.errors), style="yellow"))
    if summary.source:
        parts.append(Text(f"traffic  {summary.source}", style="dim"))
    if summary.warning:
        parts.append(Text(f"warning  {summary.warning}", style="bold yellow"))
    return Group(*parts)


def _counts(summary: Summary) -> Table:
    cells = {
        "offered": f"{summary.offered_rps:,.1f}/s",
        "goodput": f"{summary.goodput_rps:,.1f}/s",
        "sent": f"{summary.sent:,}",
        "ok": f"{summary.ok:,}",
        "rejected": f"{summary.rejected:,}",
        "other errors": f"{summary.sent - summary.ok - summary.rejected:,}",
    }
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for name in cells:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*cells.values(), style="bold")
    return table


def _batches(summary: Summary) -> str:
    batch = summary.batch
    parts = [f"{batch.count:,.0f}"]
    if batch.mean_size is not None:
        parts.append(f"mean size {batch.mean_size:.1f}")
    if batch.padded_share:
        parts.append(f"{batch.padded_share:.1%} padding")
    if summary.busy is not None:
        parts.append(f"workers {summary.busy:.1%} busy")
    if batch.reasons:
        parts.append(f"sent because {_listed(batch.reasons)}")
    return " · ".join(parts)


def _spreads(summary: Summary) -> Table:
    rows = {"latency": summary.latency_ms, "refusals": summary.rejected_latency_ms}
    if summary.generator_lateness_ms is not None:
        rows["generator lateness"] = summary.generator_lateness_ms
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("ms", no_wrap=True)
    for name in Spread.__dataclass_fields__:
        table.add_column(name, justify="right", no_wrap=True)
    for title, row in rows.items():
        if row.max is not None:
            table.add_row(title, *(_short(value) for value in asdict(row).values()))
    return table


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _short(value: float) -> str:
    """Returns a number as text of at most seven characters, so that a row fits an old terminal."""
    return f"{value:,.{2 if value < 100 else 1 if value < 1000 else 0}f}"


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 4)
