"""The dashboard `workers`: which workers work, and how well. `make dashboards` writes it as JSON."""

from tools.dashboards.grafana import Board, Panel, Query, Row, variable
from tools.dashboards.queries import JOB, MODEL, SERVING, quantile, rate, total

WORKERS = "penstock_workers_expected"
BY = "instance, model"
NAMED = "{{instance}} {{model}}"
# Only processes that have workers of their own.
OWN = f"and on (instance) {WORKERS}{{{MODEL}}}"
CPU = f"rate(penstock_process_cpu_seconds_total{{{JOB}}}[$__rate_interval])"
RESTARTS = f"increase(penstock_worker_restarts_total{{{MODEL}}}[$__rate_interval])"
AWAY = total("penstock_workers", f"{BY}, state", f'{MODEL}, state!~"idle|busy"')

STATES = Row(
    "States",
    [
        Panel("By state", [Query(total("penstock_workers", "state"), "{{state}}")], stacked=True),
        Panel(
            "Serve, and should serve",
            [Query(SERVING, "serve"), Query(total(WORKERS), "expected")],
        ),
        Panel(
            "That cannot serve",
            [Query(f"{AWAY} > 0", f"{NAMED} {{{{state}}}}", empty="all can serve")],
            about="offline: crashed or away. resting: failed again and again. loading: in its first batch.",
            warn=1,
        ),
    ],
)

WORK = Row(
    "Work",
    [
        Panel(
            "Busy",
            [Query(f"{rate('penstock_worker_busy_seconds_total', BY)} / {total(WORKERS, BY)}", NAMED)],
            "percentunit",
            "The part of their time that workers run batches. Under paced it is high at middle load too.",
            most=1,
        ),
        Panel(
            "A batch on its worker, 95th percentile",
            [Query(quantile(0.95, "penstock_gpu_worker_latency_seconds", BY), NAMED)],
            "s",
            "A machine that stands out is slower than the others.",
        ),
        Panel(
            "Batches",
            [Query(rate("penstock_gpu_worker_latency_seconds_count", BY), NAMED)],
            "ops",
            "That succeeded.",
        ),
        Panel(
            "Restarts",
            [Query(f"sum by ({BY}) ({RESTARTS})", NAMED)],
            about="Backends that were started anew.",
            warn=1,
        ),
        Panel(
            "How full they say they are",
            [Query(f"max by ({BY}) (penstock_worker_pressure{{{MODEL}}})", NAMED)],
            "percentunit",
            "The fullest worker. Above 90 % it is given nothing until it is below 80 %.",
            most=1,
            warn=0.8,
            alarm=0.9,
        ),
        Panel(
            "Busy seconds for a thousand requests",
            [
                Query(
                    f"1000 * {rate('penstock_worker_busy_seconds_total', 'model')}"
                    f" / {rate('penstock_batched_requests_total', 'model')}",
                    "{{model}}",
                )
            ],
            "s",
            "What a thousand requests cost of a GPU.",
        ),
    ],
)

PROCESSES = Row(
    "Their processes",
    [
        Panel(
            "Processor",
            [Query(f"{CPU} {OWN}", "{{instance}}")],
            "percentunit",
            "Of the process that feeds the workers, without theirs.",
        ),
        Panel(
            "Memory",
            [Query(f"penstock_process_resident_bytes{{{JOB}}} {OWN}", "{{instance}}")],
            "bytes",
        ),
        Panel(
            "Longest pause",
            [Query(f"penstock_loop_longest_pause_seconds{{{JOB}}} {OWN}", "{{instance}}")],
            "s",
            "The longest of the last minute or two in which one thing kept all others waiting.",
            warn=0.1,
        ),
    ],
)

BOARD = Board(
    "penstock-workers",
    "Penstock: workers",
    "Which workers work, and how well?",
    [STATES, WORK, PROCESSES],
    [variable("model", "penstock_workers_expected")],
)
