"""The dashboard `overview`: is it well? What somebody looks at first, and who was woken. `make dashboards` writes
it as JSON."""

from tools.dashboards.grafana import COLUMNS, Board, Panel, Query, Row, variable
from tools.dashboards.queries import (
    ALL_REQUESTS,
    EXPECTED,
    JOB,
    LATENCY,
    MODEL,
    QUEUE_BY_NUMBER,
    QUEUE_BY_TIME,
    REFUSED,
    SERVING,
    most,
    quantile,
    quantiles,
    rate,
    total,
)

GOOD = f'{MODEL}, outcome="SUCCESS"'
ACCEPTED = rate("penstock_requests_total", "model")
BAD = f'{MODEL}, outcome!~"SUCCESS|CLIENT_LEFT|CANCELLED"'
AT_DOORS, DOOR = "penstock_door_requests_total", f'{JOB}, door!=""'
ILL, NO_ILL = 'outcome!="SUCCESS"', "every request succeeds"
OBJECTIVE = f"min (penstock_latency_objective_seconds{{{MODEL}}})"
ALERTS = 'ALERTS{alertname=~"Penstock.*", alertstate="firing"}'


def _stat(title: str, expression: str, unit: str = "short", **more: float | str | None) -> Panel:
    warn, alarm = more.get("warn"), more.get("alarm")
    assert not isinstance(warn, str)
    assert not isinstance(alarm, str)
    return Panel(
        title, [Query(expression)], unit, str(more.get("about", "")), "stat", 3, 4, warn=warn, alarm=alarm
    )


NOW = Row(
    "Now",
    [
        _stat("Requests", ALL_REQUESTS, "reqps"),
        _stat("Answered well", f"{rate('penstock_requests_total', where=GOOD)} / {ALL_REQUESTS}", "percentunit"),
        _stat(
            "Refused",
            f"{rate('penstock_refused_requests_total')} / {ALL_REQUESTS}",
            "percentunit", warn=0.001, alarm=0.01,
        ),
        _stat("99th percentile", quantile(0.99, LATENCY), "s", about="Of requests that succeeded."),
        _stat(
            "Of the objective", f"{quantile(0.99, LATENCY)} / {OBJECTIVE}", "percentunit", warn=0.8, alarm=1.0,
            about="The 99th percentile of latency over the strictest objective of these models.",
        ),
        _stat("Waiting", total("penstock_queue_depth")),
        _stat("Workers that serve", f"{SERVING} / {EXPECTED}", "percentunit"),
        _stat("Alerts", f"count({ALERTS}) or vector(0)", warn=1, alarm=2),
    ],
)  # fmt: skip

REQUESTS = Row(
    "Requests",
    [
        Panel(
            "How requests end",
            [
                Query(rate("penstock_requests_total", "outcome"), "{{outcome}}"),
                Query(
                    rate("penstock_refused_requests_total", "code", f"{JOB}, {REFUSED}"), "refused: {{code}}"
                ),
            ],
            "reqps",
            "Accepted requests by outcome, and refused ones by error code.",
            stacked=True,
        ),
        Panel(
            "Latency",
            [*quantiles(LATENCY, exemplars=True), Query(OBJECTIVE, "objective")],
            "s",
            "From arrival to answer, of requests that succeeded, with the traces of some.",
        ),
        Panel(
            "Refused and failed",
            [
                Query(
                    f"{rate('penstock_refused_requests_total', 'model')}"
                    f" / ({rate('penstock_requests_total', 'model')}"
                    f" + {rate('penstock_refused_requests_total', 'model')})",
                    "refused: {{model}}",
                ),
                Query(
                    f"({rate('penstock_requests_total', 'model', BAD)} or 0 * {ACCEPTED}) / {ACCEPTED}",
                    "failed: {{model}}",
                ),
            ],
            "percentunit",
            "The part of a model's requests that was refused on arrival, and of the accepted ones that failed.",
            warn=0.01,
        ),
    ],
)

DOORS = Row(
    "Doors",
    [
        Panel(
            "Requests at each door",
            [Query(rate(AT_DOORS, "door", DOOR), "{{door}}")],
            "reqps",
            "Accepted and refused, of all models. What came to no door is left out.",
            width=COLUMNS // 2,
            stacked=True,
        ),
        Panel(
            "Refused and failed, at each door",
            [Query(rate(AT_DOORS, "door, outcome", f"{DOOR}, {ILL}"), "{{door}}: {{outcome}}", empty=NO_ILL)],
            "reqps",
            "By error code, of all models.",
            width=COLUMNS // 2,
        ),
    ],
)

QUEUE = Row(
    "Queue and workers",
    [
        Panel(
            "Waiting, by tier",
            [Query(total("penstock_queue_depth", "tier"), "{{tier}}")],
            about="Requests that wait for a worker.",
            stacked=True,
        ),
        Panel(
            "The queue, relative to its cap",
            [
                Query(QUEUE_BY_NUMBER, "by number: {{model}}"),
                Query(QUEUE_BY_TIME, "by time: {{model}}"),
            ],
            "percentunit",
            "How many wait, over limits.max_queue; and the expected wait, over the queue's time limit.",
            warn=0.8,
            alarm=1.0,
        ),
        Panel(
            "Load over capacity",
            [Query(most("penstock_utilization", "model"), "{{model}}")],
            "percentunit",
            "Offered load over what the workers have shown at full batches.",
            warn=0.9,
            alarm=1.0,
        ),
        Panel(
            "Workers",
            [Query(total("penstock_workers", "state"), "{{state}}"), Query(EXPECTED, "expected")],
        ),
        Panel(
            "Accepted and not yet answered",
            [Query(total("penstock_waiting_clients", "instance", JOB), "{{instance}}")],
        ),
        Panel(
            "Dead letters",
            [
                Query(
                    f"sum by (model) (increase(penstock_dead_letters_total{{{MODEL}}}[$__rate_interval]))",
                    "{{model}}",
                )
            ],
            about="Requests that failed for good. penstock dlq list shows them.",
            warn=1,
        ),
    ],
)

ALARMS = Row(
    "Alerts",
    [
        Panel(
            "Firing now",
            [Query(ALERTS, empty="all is well")],
            about="Each is described in docs/operations.md.",
            kind="table",
            width=COLUMNS,
        )
    ],
)

BOARD = Board(
    "penstock-overview",
    "Penstock: overview",
    "Is it well?",
    [NOW, REQUESTS, DOORS, QUEUE, ALARMS],
    [variable("model", "penstock_request_latency_seconds_count")],
)
