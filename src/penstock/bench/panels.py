"""The four charts of the report, each drawn for a screen and for a telephone. The page (`html.py`) arranges them.
Pure."""

from collections.abc import Callable
from itertools import pairwise

from penstock.bench.chart import FULL, HALF, NARROW, Axis, Chart, Size, linear, logarithmic, number
from penstock.bench.load import Run
from penstock.bench.series import Timeline, histogram, percentiles
from penstock.load.report import Summary

_NINES = (  # the ticks of the percentile axis: where, in nines, and the text there
    (0.0, "0"),
    (0.30103, "50"),
    (1.0, "90"),
    (2.0, "99"),
    (3.0, "99.9"),
    (4.0, "99.99"),
    (5.0, "99.999"),
)


def _drawn(wide: Size, draw: Callable[[Size], Chart]) -> str:
    """Returns the chart twice: for a screen, and for a telephone, where the first would be too small to read."""
    return draw(wide).render() + draw(NARROW).render()


def ms(value: float | None) -> str:
    """Returns milliseconds as text, with three digits that matter; a dash if there is no value."""
    if value is None:
        return "–"
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def by_percentile(ordered: list[float]) -> str:
    """Returns the chart of latency by percentile. `ordered`: latencies in milliseconds, in ascending order."""
    points = percentiles(ordered)
    most = max(points[-1][0], 0.5)
    x = Axis(0.0, most, tuple((at, f"{name} %") for at, name in _NINES if at <= most), label="percentile")
    y = logarithmic(ordered[0], ordered[-1], "ms")
    xs, ys = [nines for nines, _ in points], [value for _, value in points]

    def draw(size: Size) -> Chart:
        chart = Chart(x, y, size, "Latency by percentile")
        chart.area(xs, [ordered[0] * 0.9] * len(xs), ys, "p50")
        chart.line(xs, ys, "p50")
        for nines, value in points:
            chart.reading(nines, f"{100 * (1 - 10**-nines):.5g} %", [("at most", ms(value), "p50")])
        return chart

    return _drawn(HALF, draw)


def distribution(ordered: list[float], summary: Summary) -> str:
    """Returns the chart of how many answers had which latency. `ordered`: as in `by_percentile`."""
    edges, counts = histogram(ordered)
    x, y = logarithmic(edges[0], edges[-1], "latency, ms"), linear(max(counts), "answers", whole=True)

    def draw(size: Size) -> Chart:
        chart = Chart(x, y, size, "Latency distribution")
        chart.bars(edges, counts, "p50")
        for value, kind in ((summary.latency_ms.p95, "p95"), (summary.latency_ms.p99, "p99")):
            if value is not None:
                chart.mark(value, kind, kind, left=kind == "p95")
        for (left, right), count in zip(pairwise(edges), counts, strict=True):
            middle = (left * right) ** 0.5
            chart.reading(middle, f"{number(left)} – {number(right)} ms", [("answers", f"{count:,}", "p50")])
        return chart

    return _drawn(HALF, draw)


def over_time(line: Timeline, run: Run) -> str:
    """Returns the chart of latency over time."""
    known = [value for value in line.p99 if value is not None]
    x = linear(run.end - run.start, "seconds", exact=True)
    y = linear(max(known, default=1.0) * 1.05, "ms")

    def draw(size: Size) -> Chart:
        chart = Chart(x, y, size, "Latency over time")
        chart.area(line.at, line.p50, line.p99, "p99")
        chart.area(line.at, line.p50, line.p95, "p95")
        for kind, values in (("p99", line.p99), ("p95", line.p95), ("p50", line.p50)):
            chart.line(line.at, values, kind)
        for at, *values in zip(line.at, line.p99, line.p95, line.p50, strict=True):
            rows = [(kind, ms(v), kind) for kind, v in zip(("p99", "p95", "p50"), values, strict=True)]
            chart.reading(at, f"{at:.4g} s", rows)
        return chart

    return _drawn(FULL, draw)


def throughput(line: Timeline, run: Run) -> str:
    """Returns the chart of answers, refusals and errors over time."""
    refused = [ok + no for ok, no in zip(line.ok, line.rejected, strict=True)]
    ended = [some + no for some, no in zip(refused, line.failed, strict=True)]
    x = linear(run.end - run.start, "seconds", exact=True)
    y = linear(max(*ended, *line.offered, 1.0) * 1.05, "requests/s")
    read = (
        ("offered", line.offered, "offered"),
        ("ok", line.ok, "ok"),
        ("rejected", line.rejected, "rejected"),
        ("errors", line.failed, "failed"),
    )

    def draw(size: Size) -> Chart:
        chart = Chart(x, y, size, "Throughput")
        chart.area(line.at, [0.0] * len(line.at), line.ok, "ok")
        chart.area(line.at, line.ok, refused, "rejected")
        chart.area(line.at, refused, ended, "failed")
        chart.line(line.at, line.ok, "ok")
        chart.line(line.at, line.offered, "offered")
        for index, at in enumerate(line.at):
            rows = [(name, f"{number(round(values[index], 1))}/s", kind) for name, values, kind in read]
            chart.reading(at, f"{at:.4g} s", rows)
        return chart

    return _drawn(FULL, draw)
