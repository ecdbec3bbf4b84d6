"""The screen of `penstock top`: an overview as lines of text, for so many columns and rows. `watch.py` asks for it,
and `cli/top.py` with `--once`."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from penstock.overview.figures import utilization
from penstock.overview.overview import Overview
from penstock.top.keys import HELP, Looking
from penstock.top.lists import KINDS, Column, Row, Rows, rows_of, served
from penstock.top.words import fitted, milliseconds, percent

LEAST_DETAILS = 4  # rows that must be free below a list, so that details of the marked row are shown there
WIDEST = 60  # columns that one cell may take
BAR = 20  # columns of the bar that shows the load


class Line(NamedTuple):
    """One line of the screen. `style`: what `terminal.py` knows it by; empty: as usual."""

    text: str
    style: str = ""


def screen(overview: Overview, looking: Looking, width: int, height: int, trouble: str = "") -> list[Line]:
    """Returns the lines that fill a screen of this size. `trouble`: why the overview is not the newest; empty if it
    is."""
    lines = [*_head(overview, looking, trouble), Line("")]
    if looking.help:
        lines += [Line("KEYS", "title"), *(Line(f"  {each}") for each in HELP)]
        return _cut(lines, width, height)
    rows = rows_of(overview, looking.kind)
    ordered = in_order(rows, looking)
    marked = next((row for row in ordered if row.name == looking.name), ordered[0] if ordered else None)
    lines.append(Line(_tabs(overview, looking), "soft"))
    if looking.alone and marked is not None:
        lines += _table(rows.columns, [marked], looking, marked, width)
        lines += [Line(""), *(Line(f"  {each}") for each in marked.details)]
        return _cut(lines, width, height)
    room = max(1, height - len(lines) - 2)  # without the heads of the list and the line of keys
    at = ordered.index(marked) if marked is not None else 0
    first = max(0, min(at - room // 2, len(ordered) - room))
    lines += _table(rows.columns, ordered[first : first + room], looking, marked, width)
    free = height - 1 - len(lines)
    if marked is not None and marked.details and free > LEAST_DETAILS:
        lines += [
            Line(""),
            Line(f"  {marked.name}", "title"),
            *(Line(f"  {each}") for each in marked.details),
        ]
        lines = lines[: height - 1]
    return _cut(lines, width, height)


def everything(overview: Overview, width: int) -> list[Line]:
    """All lists one below the other, for somebody who looks once."""
    lines = [*_head(overview, Looking(), "")]
    for kind in KINDS:
        rows = rows_of(overview, kind)
        if rows.rows:
            lines += [Line(""), Line(kind.upper(), "title")]
            lines += _table(rows.columns, in_order(rows, Looking(kind)), Looking(kind), None, width)
    return [Line(fitted(line.text, width).rstrip(), line.style) for line in lines]


def in_order(rows: Rows, looking: Looking) -> list[Row]:
    """The rows as they are sorted: names from A on, figures from the greatest on."""
    sorted_by = min(looking.sort, len(rows.columns) - 1)
    down = bool(rows.columns[sorted_by].right) != looking.reverse

    def order(row: Row) -> tuple[bool, float, str]:
        value = row.order[sorted_by]
        return (isinstance(value, str), 0.0, value) if isinstance(value, str) else (False, value, "")

    return sorted(rows.rows, key=order, reverse=down)


# ---- the head ----------------------------------------------------------------------------------------------


def _head(overview: Overview, looking: Looking, trouble: str) -> list[Line]:
    verdict, figures = overview.verdict, overview.figures
    clock = time.strftime("%H:%M:%S", time.localtime(overview.at))
    number = len(overview.processes)
    fleet = f"  {number} process{'es' * (number > 1)}" if number else ""
    state = "  PAUSED" if looking.paused else ""
    used = max((utilization(model.figures) or 0.0 for model in overview.models), default=0.0)
    filled = min(BAR, round(BAR * used))
    wait = max((model.standing.expected_wait or 0.0 for model in overview.models), default=0.0)
    latency = (
        f"p50 {milliseconds(figures.p50)}  p95 {milliseconds(figures.p95)}  p99 {milliseconds(figures.p99)}"
    )
    letters = sum(model.letters for model in overview.models)
    return [
        Line(f"penstock {overview.version}  {overview.name}{fleet}  {clock}{state}", "soft"),
        Line(trouble, "bad") if trouble else Line(verdict.says, verdict.level),
        Line("" if trouble else verdict.advice),
        Line(served(figures)),
        Line(f"{latency}  queue {sum(figures.queue.values()):,} (wait {milliseconds(1e3 * wait)})"),
        Line(f"load {percent(used)} [{'#' * filled}{'.' * (BAR - filled)}]  dead letters {letters:,}"),
    ]


def _tabs(overview: Overview, looking: Looking) -> str:
    tabs = []
    for kind in KINDS:
        number = len(rows_of(overview, kind).rows)
        name = f"{kind} {number}"
        tabs.append(f"[{name}]" if kind == looking.kind else f" {name} ")
    return " ".join(tabs)


# ---- a list ------------------------------------------------------------------------------------------------


def _table(
    columns: Sequence[Column], rows: Sequence[Row], looking: Looking, marked: Row | None, width: int
) -> list[Line]:
    sorted_by = min(looking.sort, len(columns) - 1)
    titles = [f"{column.title}{'*' if at == sorted_by else ''}" for at, column in enumerate(columns)]
    widths = [
        min(WIDEST, max(len(title), *(len(row.cells[at]) for row in rows))) if rows else len(title)
        for at, title in enumerate(titles)
    ]
    # The first column gives way, so that the figures can be seen.
    over = sum(widths) + 2 * (len(widths) - 1) + 2 - width
    if over > 0:
        last = columns[-1].right
        widths[0] = max(8, widths[0] - over) if last else widths[0]

    def text(cells: Sequence[str]) -> str:
        parts = (
            fitted(cell, room, right=column.right)
            for cell, room, column in zip(cells, widths, columns, strict=True)
        )
        return "  ".join(parts)

    lines = [Line("  " + text(titles), "title")]
    for row in rows:
        style = "marked" if row is marked else "warning" if row.trouble else ""
        lines.append(Line(("> " if row is marked else "  ") + text(row.cells), style))
    return lines if rows else [*lines, Line("  none", "soft")]


def _cut(lines: Sequence[Line], width: int, height: int) -> list[Line]:
    """Returns as many lines as the screen has, the last of them with the keys."""
    shown = [Line(fitted(line.text, width), line.style) for line in lines[: max(1, height - 1)]]
    shown += [Line(" " * width)] * (height - 1 - len(shown))
    keys = " m t w p lists  up/down row  Enter alone  s sort  r reverse  ? keys  q leave"
    return [*shown, Line(fitted(keys, width), "soft")][:height]
