"""Dashboards as Grafana reads them: boards of rows of panels, placed from left to right. The files of the boards
beside this one are made of these classes. Nearly nothing here is about Penstock. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 38  # of Grafana 10, which every later one can read
COLUMNS = 24  # the width of a dashboard, as Grafana counts it
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GREEN, YELLOW, RED = "green", "yellow", "red"


@dataclass(frozen=True)
class Query:
    """What a panel shows: an expression of Prometheus, and how its lines are called."""

    expression: str
    legend: str = ""
    exemplars: bool = False  # whether traces of single requests are shown beside the line
    empty: str = ""  # when the query has nothing to show, in words that follow "while"


@dataclass(frozen=True)
class Panel:
    """One panel. `unit` is a name that Grafana knows."""

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    about: str = ""
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    most: float | None = None  # the end of the scale
    warn: float | None = None  # yellow from here on, and red from `alarm` on
    alarm: float | None = None

    @property
    def description(self) -> str:
        reasons = [
            f"{query.legend or 'Empty'}: nothing while {query.empty}."
            for query in self.queries
            if query.empty
        ]
        return " ".join([*([self.about] if self.about else []), *reasons])

    def as_json(self, number: int, x: int, y: int) -> dict[str, Any]:
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "targets": [self._target(query, chr(ord("A") + at)) for at, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": OPTIONS[self.kind],
        }

    def _target(self, query: Query, name: str) -> dict[str, Any]:
        target: dict[str, Any] = {
            "refId": name,
            "datasource": DATASOURCE,
            "expr": query.expression,
            "legendFormat": query.legend or "__auto",
            "exemplar": query.exemplars,
        }
        if self.kind in ("stat", "table"):
            target |= {"instant": True, "range": False}
        if self.kind == "table":
            target["format"] = "table"
        if self.kind == "heatmap":
            target["format"] = "heatmap"
        return target

    def _defaults(self) -> dict[str, Any]:
        steps: list[dict[str, Any]] = [{"color": GREEN, "value": None}]
        steps += [{"color": YELLOW, "value": self.warn}] if self.warn is not None else []
        steps += [{"color": RED, "value": self.alarm}] if self.alarm is not None else []
        defaults: dict[str, Any] = {
            "unit": self.unit,
            "min": 0,
            "thresholds": {"mode": "absolute", "steps": steps},
            "noValue": "–",
        }
        if self.most is not None:
            defaults["max"] = self.most
        if self.kind == "timeseries":
            defaults["custom"] = {
                "lineWidth": 1,
                "fillOpacity": 30 if self.stacked else 5,
                "showPoints": "never",
                "spanNulls": False,
                "stacking": {"mode": "normal" if self.stacked else "none"},
                "thresholdsStyle": {"mode": "dashed" if len(steps) > 1 else "off"},
            }
        return defaults


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "colorMode": "value",
        "graphMode": "none",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": "auto",
    },
    "table": {"showHeader": True},
    "heatmap": {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 64},
        "yAxis": {"unit": "short"},
        "tooltip": {"show": True},
    },
}


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Board:
    """One dashboard. `variables`: those that its queries use beside the data source and the jobs."""

    uid: str
    title: str
    about: str
    rows: Sequence[Row]
    variables: Sequence[Mapping[str, Any]] = ()
    links: Sequence[str] = field(default=("penstock",))  # tags of other boards, shown as links at the top

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row.panels]

    def as_json(self) -> dict[str, Any]:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": ["penstock"],
            "schemaVersion": SCHEMA,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "links": [
                {
                    "type": "dashboards",
                    "tags": [tag],
                    "title": "Penstock",
                    "asDropdown": True,
                    "keepTime": True,
                }
                for tag in self.links
            ],
            "templating": {"list": [_datasource(), variable("job", "penstock_build_info"), *self.variables]},
            "annotations": {"list": []},
            "panels": list(self._placed()),
        }

    def _placed(self) -> Iterator[dict[str, Any]]:
        number, y = 1, 0
        for row in self.rows:
            yield {
                "id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
            }  # fmt: skip
            number, y, x, height = number + 1, y + 1, 0, 0
            for panel in row.panels:
                if x + panel.width > COLUMNS:
                    x, y, height = 0, y + height, 0
                yield panel.as_json(number, x, y)
                number, x, height = number + 1, x + panel.width, max(height, panel.height)
            y += height


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def variable(label: str, metric: str, *, several: bool = True) -> dict[str, Any]:
    """A variable with the values of a label. `several`: whether more than one may be chosen, at first all."""
    within = "" if label == "job" else '{job=~"$job"}'
    query = f"label_values({metric}{within}, {label})"
    found: dict[str, Any] = {
        "name": label,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": label},
        "definition": query,
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
        "multi": several,
        "includeAll": several,
    }
    if several:
        found |= {"allValue": ".*", "current": {"text": "All", "value": "$__all"}}
    return found
