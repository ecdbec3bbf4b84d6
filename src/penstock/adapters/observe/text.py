"""Metrics as text that Prometheus reads: the classic format, and OpenMetrics, which has units and exemplars
besides. The metrics page is one `Page`, which `exposition.py` fills with each family in turn.

A page has some hundred lines for each model, nearly all of them buckets. How a bucket's line begins never changes,
so it is kept.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from penstock.adapters.observe.catalogue import Family
from penstock.adapters.observe.exemplars import Exemplars
from penstock.adapters.observe.histogram import Histogram

CLASSIC = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_NAME = OPENMETRICS.partition(";")[0]


def wants_openmetrics(accept: str) -> bool:
    """Returns whether an Accept header prefers OpenMetrics to the classic text, which everybody else gets."""
    weights = dict[str, float]()
    for part in accept.lower().split(","):
        kind, *parameters = (each.strip() for each in part.split(";"))
        given = dict(each.split("=", 1) for each in parameters if "=" in each)
        if given.get("version", "1.0.0") == "1.0.0" or kind != _NAME:
            weights[kind] = max(weights.get(kind, 0.0), _weight(given.get("q", "1")))
    classic = max(weights.get(kind, 0.0) for kind in ("text/plain", "text/*", "*/*"))
    return weights.get(_NAME, 0.0) >= classic and weights.get(_NAME, 0.0) > 0.0


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class Page:
    """One page. It has the families that it is made with, in their order. What is added to others is dropped."""

    def __init__(self, families: Sequence[Family], *, openmetrics: bool) -> None:
        self._openmetrics = openmetrics
        self._lines: dict[Family, list[str]] = {family: [] for family in families}

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add one sample. `labels`: the values of the family's labels."""
        if family in self._lines:
            self._lines[family].append(f"{family.shown}{_labels(family.labels, labels)} {number(value)}\n")

    def add_histogram(
        self, family: Family, histogram: Histogram, *labels: str, exemplars: Exemplars | None = None
    ) -> None:
        """Add the samples of a histogram. `labels`: the values of the family's labels."""
        if family not in self._lines:
            return
        begin = _buckets(family, labels, tuple(histogram.bounds), self._openmetrics)
        counts = list(accumulate(histogram.counts))
        lines = [f"{head}{count}.0\n" for head, count in zip(begin, counts, strict=True)]
        if exemplars is not None and self._openmetrics:
            for bucket, found in exemplars.by_bucket.items():
                shown = f' # {{trace_id="{found.trace_id}"}} {found.value:.6g} {found.when:.3f}'
                lines[bucket] = f"{lines[bucket][:-1]}{shown}\n"
        given = _labels(family.labels, labels)
        lines.append(f"{family.name}_count{given} {counts[-1]}.0\n")
        lines.append(f"{family.name}_sum{given} {number(histogram.total)}\n")
        self._lines[family] += lines

    def text(self) -> bytes:
        parts: list[str] = []
        for family, lines in self._lines.items():
            if family.optional and not lines:
                continue
            name = family.name if self._openmetrics else family.shown
            parts += (f"# HELP {name} {family.about}\n", f"# TYPE {name} {family.kind}\n")
            if self._openmetrics and name.endswith(f"_{family.unit}"):
                parts.append(f"# UNIT {name} {family.unit}\n")
            parts += lines
        if self._openmetrics:
            parts.append("# EOF\n")
        return "".join(parts).encode()


def number(value: float) -> str:
    """Returns a number as both formats write it."""
    text = repr(float(value))
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text, text)


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = sorted(zip(names, values, strict=True))
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@lru_cache(1024)  # for each histogram of each model, in both formats
def _buckets(
    family: Family, labels: tuple[str, ...], bounds: tuple[float, ...], openmetrics: bool
) -> list[str]:
    """Returns how the line of each bucket begins. OpenMetrics writes 1.0 where the classic format writes 1."""
    ends = [*((repr(float(bound)) if openmetrics else f"{bound:g}") for bound in bounds), "+Inf"]
    names, values = ("le", *family.labels), labels
    return [f"{family.name}_bucket{_labels(names, (end, *values))} " for end in ends]
