"""One chart as inline SVG: axes, lines, areas, bars, and the values to show when a pointer is over them. The
report's four charts are made of it (`panels.py`).

Colours are classes (`k-ok`, `k-p99`, …) that the page's style sheet (`style.py`) defines for light and dark. A
`kind` is the end of such a name. Pure.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise

from penstock.bench.svg import element, text

LEFT, RIGHT, TOP, BOTTOM = 58, 16, 14, 42  # pixels: margins around the plot
MOST_TICKS = 8  # on one axis
LETTER, APART = 6.5, 12  # pixels: width of a letter at a tick, and of the gap to the next tick's text

Size = tuple[int, int]  # width and height
FULL, HALF, NARROW = (1080, 270), (530, 300), (350, 250)  # as wide as a page, half a page, a telephone
# The class of each size. The style sheet shows one of them.
NAMES = {FULL: "full", HALF: "half", NARROW: "narrow"}


@dataclass(slots=True, frozen=True)
class Axis:
    """An axis of a chart."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False
    label: str = ""

    def share(self, value: float) -> float:
        """Returns where a value is on the axis: 0 at its start, 1 at its end."""
        if self.log:
            value = max(value, self.low)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def linear(
    high: float, label: str, *, low: float = 0.0, unit: str = "", exact: bool = False, whole: bool = False
) -> Axis:
    """Returns an axis from `low` to the next round value above `high` (with `exact`, to `high`), with two to five
    steps. `whole`: steps of at least 1."""
    high = high if high > low else low + 1
    step = max(_round_step((high - low) / 5), 1.0 if whole else 0.0)
    top = high if exact else low + step * math.ceil((high - low) / step - 1e-9)
    count = int((top - low) / step + 1e-9)
    ticks = tuple((low + step * i, number(low + step * i) + unit) for i in range(count + 1))
    return Axis(low, top, ticks, label=label)


def logarithmic(low: float, high: float, label: str) -> Axis:
    """Returns an axis with ticks at powers of ten, or at 1, 2 and 5 times those; within one power of ten, at round
    steps of equal size."""
    low, high = max(low, 1e-3) * 0.9, max(high, 1e-3) * 1.1
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values: list[float] = []
    for least, steps in ((4, (1,)), (3, (1, 2, 5))):
        values = [m * 10.0**p for p in powers for m in steps if low <= m * 10.0**p <= high]
        if least <= len(values) <= MOST_TICKS:
            break
    else:
        if high / low < 10:
            step = _round_step((high - low) / 5)
            values = [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
        else:
            values = [10.0**p for p in powers if low <= 10.0**p <= high]
            values = values[:: math.ceil(len(values) / MOST_TICKS)]
    return Axis(low, high, tuple((v, number(v)) for v in values), log=True, label=label)


def _round_step(least: float) -> float:
    """Returns the next number above that is 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * 0.999)


def number(value: float) -> str:
    """Returns a number as an axis shows it."""
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


class Chart:
    """One chart. Its marks are drawn in the order in which they are added."""

    def __init__(self, x: Axis, y: Axis, size: Size, title: str) -> None:
        self._x, self._y, self._title = x, y, title
        self._size = size
        self._width, self._height = size
        self._marks: list[str] = []
        self._readings: list[tuple[float, str, list[tuple[str, str, str]]]] = []

    def line(self, xs: Sequence[float], ys: Sequence[float | None], kind: str) -> None:
        """Draw a line through these points, with a gap where a value is missing."""
        path = ""
        for known, run in groupby(zip(xs, ys, strict=True), lambda point: point[1] is not None):
            if known:
                points = [self._at(x, y or 0.0) for x, y in run]
                path += f"M{points[0]}h0L{'L'.join(points)}"  # h0: a point on its own shows as a dot
        self._marks.append(element("path", class_=f"line k-{kind}", d=path))

    def area(
        self, xs: Sequence[float], lows: Sequence[float | None], highs: Sequence[float | None], kind: str
    ) -> None:
        """Fill the area between two lines, with a gap where a value is missing."""
        path = ""
        for known, run in groupby(zip(xs, lows, highs, strict=True), lambda point: None not in point):
            if known:
                points = list(run)
                upper = [self._at(x, high or 0.0) for x, _, high in points]
                lower = [self._at(x, low or 0.0) for x, low, _ in reversed(points)]
                path += f"M{'L'.join(upper + lower)}Z"
        self._marks.append(element("path", class_=f"area k-{kind}", d=path))

    def bars(self, edges: Sequence[float], heights: Sequence[float], kind: str) -> None:
        """Draw a bar between each two edges."""
        base = self._py(self._y.low)
        for (left, right), height in zip(pairwise(edges), heights, strict=True):
            if height:
                x, top = self._px(left), self._py(height)
                width = max(1.0, self._px(right) - x - 1)
                tall = max(base - top, 0.8)
                self._marks.append(
                    element("rect", class_=f"bar k-{kind}", x=x, y=top, width=width, height=tall, rx=1.5)
                )

    def mark(self, x: float, name: str, kind: str, *, left: bool = False) -> None:
        """Draw a vertical rule, with its name to the right or left."""
        at, bottom = self._px(x), self._height - BOTTOM
        anchor, beside = ("end", at - 4) if left else ("start", at + 4)
        self._marks.append(element("line", class_=f"rule k-{kind}", x1=at, x2=at, y1=TOP, y2=bottom))
        self._marks.append(text(name, beside, TOP + 9, f"note k-{kind}", anchor))

    def reading(self, x: float, title: str, values: Sequence[tuple[str, str, str]]) -> None:
        """Note what to show when the pointer is nearest to x: a title, and (name, value, colour) rows."""
        self._readings.append((round(self._px(x), 1), title, list(values)))

    def render(self) -> str:
        """Returns the chart as markup."""
        width, height = self._width, self._height
        data = json.dumps(self._readings, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        return (
            f'<div class="chart {NAMES[self._size]}"><svg viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{escape(self._title)}">{self._grid()}{"".join(self._marks)}'
            f'<line class="cursor" y1="{TOP}" y2="{height - BOTTOM}"/></svg>'
            f'<script type="application/json">{data}</script></div>'
        )

    def _grid(self) -> str:
        right, bottom = self._width - RIGHT, self._height - BOTTOM
        parts = []
        for value, words in self._y.ticks:
            at = self._py(value)
            parts.append(element("line", class_="grid", x1=LEFT, x2=right, y1=at, y2=at))
            parts.append(text(words, LEFT - 8, at + 4, "tick", "end"))
        free = -math.inf  # where the text of the last tick has ended
        for value, words in self._x.ticks:
            at, half = self._px(value), len(words) * LETTER / 2
            if at - half < free:
                continue
            free = at + half + APART
            parts.append(element("line", class_="axis", x1=at, x2=at, y1=bottom, y2=bottom + 4))
            parts.append(text(words, at, bottom + 17, "tick", "middle"))
        parts.append(element("line", class_="axis", x1=LEFT, x2=right, y1=bottom, y2=bottom))
        parts.append(text(self._x.label, (LEFT + right) / 2, self._height - 6, "label", "middle"))
        return "".join(parts)

    def _at(self, x: float, y: float) -> str:
        return f"{self._px(x):.1f} {self._py(y):.1f}"

    def _px(self, x: float) -> float:
        return LEFT + self._x.share(x) * (self._width - LEFT - RIGHT)

    def _py(self, y: float) -> float:
        return self._height - BOTTOM - self._y.share(y) * (self._height - TOP - BOTTOM)
