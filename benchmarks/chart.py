"""Bar charts as SVG files, for both light and dark pages. The rivals' standings and the scaling over Redis are
drawn with it."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.svg import element, text

WIDTH = 760  # pixels, as all that follows
LABEL_WIDTH = 190
VALUE_WIDTH = 130  # room right of the longest bar for its figure
TOP = 62  # above the first bar
ROW = 34  # from one bar to the next
BAR = 20  # the height of a bar

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
    head = f"<style>{STYLE}\n  </style>\n  {text(title, 0, 20, 'title')}\n  {text(subtitle, 0, 42, 'quiet')}"
    drawing = element(
        "svg", f"\n  {head}\n{rows}\n", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH, height=height, role="img", aria_label=title,
    )  # fmt: skip
    return f"{drawing}\n"


def _row(bar: Bar, top: int, scale: float) -> str:
    length = (bar.value or 0.0) * scale
    baseline = top + BAR - 5
    label = text(bar.label, LABEL_WIDTH - 10, baseline, anchor="end")
    shape = element("rect", class_=bar.kind, x=LABEL_WIDTH, y=top, width=length, height=BAR, rx=2)
    figure = text(bar.text, LABEL_WIDTH + length + 8, baseline, "quiet")
    return "\n".join(
        f"  {part}" for part in ([label, figure] if bar.value is None else [label, shape, figure])
    )
