"""The report of `penstock bench --html`: one file that needs nothing else, in light and dark.

`cli/bench.py` calls `page` and writes the file. `panels.py` draws the charts. A kind ("p50", "ok", "warn") is part
of the name of a class in `style.py`, which gives it its colour.
"""

from datetime import datetime
from html import escape

from penstock.bench.load import Run
from penstock.bench.panels import by_percentile, distribution, ms, over_time, throughput
from penstock.bench.plan import Shape
from penstock.bench.series import ok_latencies, timeline
from penstock.bench.style import SCRIPT, STYLE
from penstock.load.report import Spread, Summary

_LABELS = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")  # in the order of the fields of `Spread`
# Legends: the kind of each line of a chart, and its name.
_OVER_TIME = (("p50", "p50"), ("p95", "p95"), ("p99", "p99"))
_RATES = (("offered", "offered"), ("ok", "ok"), ("rejected", "rejected"), ("failed", "errors"))


def page(run: Run, url: str, shape: Shape) -> str:
    """Returns the whole page. `shape`: what was to be sent to the server at `url`."""
    summary, line, ordered = run.summary, timeline(run), ok_latencies(run)
    made = datetime.now().astimezone()
    parts = [
        f'<header><div><p class="brand">penstock <b>bench</b></p><h1>{escape(url)}</h1>'
        f'<p class="sub">{escape(_asked(run, shape))}</p></div>'
        f'<time datetime="{made.isoformat(timespec="seconds")}">{made:%Y-%m-%d %H:%M %Z}</time></header>'
    ]
    if summary.warning:
        parts.append(f'<p class="warning">{escape(summary.warning)}</p>')
    parts.append(_headline(summary))
    if ordered:
        by_share = _card("Latency by percentile", "ms, log scales", by_percentile(ordered))
        by_value = _card("Latency distribution", "answers, by latency", distribution(ordered, summary))
        parts.append(f'<div class="pair">{by_share}{by_value}</div>')
        parts.append(_card("Latency over time", "ms, by scheduled time", over_time(line, run), _OVER_TIME))
    parts.append(_card("Throughput", "requests per second", throughput(line, run), _RATES))
    parts.append(f'<div class="pair">{_spread_table(summary)}<div>{_count_tables(summary)}</div></div>')
    source = f" Traffic: {escape(summary.source)}." if summary.source else ""
    parts.append(
        "<footer>Open loop: the schedule was fixed beforehand and latency counts from the scheduled time, "
        f"so a server that stalls is charged for every request it kept waiting.{source}</footer>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>penstock bench · {escape(url)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main><script>{SCRIPT}</script></body></html>\n"
    )


def _asked(run: Run, shape: Shape) -> str:
    """Returns one line for under the title: what was sent."""
    size = "own payload" if shape.payload is not None else f"{shape.payload_size or 2048:,} characters each"
    if shape.arrivals == "trace" and shape.payload is None and shape.payload_size is None:
        size = "lengths of the trace"
    name = f"trace {shape.trace.name}" if shape.arrivals == "trace" and shape.trace else shape.arrivals
    parts = [f"{shape.rate:,.6g} requests/s", name, f"{run.end - run.start:,.4g} s measured", size]
    if shape.warmup:
        parts.append(f"{shape.warmup:g} s warm-up")
    if shape.timeout_ms:
        parts.append(f"deadline {shape.timeout_ms:,} ms")
    parts.append(f"seed {shape.seed}")
    return " · ".join(parts)


def _headline(s: Summary) -> str:
    share = f"{s.ok / s.sent:.2%} of {s.sent:,}" if s.sent else "nothing sent"
    others = s.sent - s.ok - s.rejected
    tiles = [
        ("Median latency", ms(s.latency_ms.p50), f"mean {ms(s.latency_ms.mean)}", ""),
        ("p95 latency", ms(s.latency_ms.p95), f"p90 {ms(s.latency_ms.p90)}", ""),
        ("p99 latency", ms(s.latency_ms.p99), f"max {ms(s.latency_ms.max)}", ""),
        ("Goodput", f"{s.goodput_rps:,.0f}<i>/s</i>", f"offered {s.offered_rps:,.0f}/s", ""),
        ("Answered", f"{s.ok:,}", share, ""),
        (
            "Rejected",
            f"{s.rejected:,}",
            f"p99 {ms(s.rejected_latency_ms.p99)}",
            "warn" if s.rejected else "",
        ),
        ("Other errors", f"{others:,}", f"{s.late:,} answers late", "bad" if others else ""),
        (
            "Mean batch",
            "–" if s.batch.mean_size is None else f"{s.batch.mean_size:.1f}",
            f"{s.batch.count:,.0f} batches" + ("" if s.busy is None else f", {s.busy:.0%} busy"),
            "",
        ),
    ]
    return (
        '<section class="tiles">'
        + "".join(
            f'<div class="tile {kind}"><span>{name}</span><strong>{value}</strong><small>{note}</small></div>'
            for name, value, note, kind in tiles
        )
        + "</section>"
    )


def _card(title: str, note: str, body: str, legend: tuple[tuple[str, str], ...] = ()) -> str:
    keys = "".join(f'<span class="key k-{kind}">{name}</span>' for kind, name in legend)
    keys = f'<span class="keys">{keys}</span>' if keys else ""
    return f'<section class="card"><h2>{title}<small>{note}</small>{keys}</h2>{body}</section>'


def _spread_table(s: Summary) -> str:
    columns = [("Latency", s.latency_ms), ("Refusals", s.rejected_latency_ms)]
    if s.generator_lateness_ms is not None:
        columns.append(("Generator lateness", s.generator_lateness_ms))
    columns = [(name, values) for name, values in columns if values.max is not None]
    head = "".join(f"<th>{name}</th>" for name, _ in columns)
    rows = "".join(
        f"<tr><td>{label}</td>"
        + "".join(f"<td>{getattr(values, field):,.2f}</td>" for _, values in columns)
        + "</tr>"
        for field, label in zip(Spread.__dataclass_fields__, _LABELS, strict=True)
    )
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return _card("Percentiles", "milliseconds", table if columns else "<p>No answers.</p>")


def _count_tables(s: Summary) -> str:
    cards = ""
    if s.batch.reasons:
        cards += _card("Why batches were sent", "batches by reason", _counts(s.batch.reasons, "p50"))
    if s.errors:
        return cards + _card("Errors", "requests by code", _counts(s.errors, "failed"))
    return cards + _card("Errors", "", '<p class="none">None: every request was answered.</p>')


def _counts(counts: dict[str, int], kind: str) -> str:
    """Returns a table of counts, each with a bar for its share."""
    total = sum(counts.values())
    rows = (
        f"<tr><td>{escape(name)}</td>"
        f'<td class="meter"><span class="k-{kind}" style="width:{100 * count / total:.1f}%"></span></td>'
        f"<td>{count:,}</td><td>{count / total:.1%}</td></tr>"
        for name, count in sorted(counts.items(), key=lambda item: -item[1])
    )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"
