"""Tables for Markdown and bar charts for both light and dark pages, with nothing to install."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
LABEL_WIDTH = 190
VALUE_WIDTH = 130  # room right of the longest bar for its figure
TOP = 62
ROW = 34
BAR = 20

STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .quiet { fill: #59636e }
    .bar { fill: #8c959f }
    .ours { fill: #0969da }
    .limit { fill: none; stroke: #8c959f; stroke-dasharray: 4 3 }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .quiet { fill: #9198a1 }
      .bar { fill: #6e7681 }
      .ours { fill: #4493f8 }
      .limit { fill: none; stroke: #9198a1 }
    }"""


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    value: float | None  # None: there is no figure, and `text` says why
    text: str
    kind: str = "bar"  # bar, ours, or limit: what nobody can exceed, drawn as an outline


def bar_chart(title: str, subtitle: str, bars: Sequence[Bar]) -> str:
    """One horizontal bar for each figure, on a linear scale from zero: lengths compare as the figures do."""
    longest = max((bar.value for bar in bars if bar.value is not None), default=0.0)
    scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / longest if longest else 0.0
    height = TOP + ROW * len(bars) + 8
    rows = "\n".join(_row(bar, TOP + ROW * index, scale) for index, bar in enumerate(bars))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">\n'
        f"  <style>{STYLE}\n  </style>\n"
        f'  <text class="title" x="0" y="20">{escape(title)}</text>\n'
        f'  <text class="quiet" x="0" y="42">{escape(subtitle)}</text>\n'
        f"{rows}\n</svg>\n"
    )


def _row(bar: Bar, top: int, scale: float) -> str:
    length = (bar.value or 0.0) * scale
    baseline = top + BAR - 5
    label = f'<text x="{LABEL_WIDTH - 10}" y="{baseline}" text-anchor="end">{escape(bar.label)}</text>'
    shape = (
        f'<rect class="{bar.kind}" x="{LABEL_WIDTH}" y="{top}" width="{length:.1f}" height="{BAR}" rx="2"/>'
    )
    figure = (
        f'<text class="quiet" x="{LABEL_WIDTH + length + 8:.1f}" y="{baseline}">{escape(bar.text)}</text>'
    )
    return "\n".join(
        f"  {part}" for part in ([label, figure] if bar.value is None else [label, shape, figure])
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A table whose first `left` columns are words and the others figures, legible as plain text too."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(3, *(len(row[column]) for row in cells)) for column in range(len(header))]
    lines = [
        "| " + " | ".join(_pad(cell, widths[i], i < left) for i, cell in enumerate(row)) + " |"
        for row in cells
    ]
    rule = (
        "|" + "|".join("-" * (w + 2) if i < left else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    )
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def _pad(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)
