"""The dashboard `fleet`, an installation over Redis: its processes, its Redis, and the part of each. `make
dashboards` writes it as JSON."""

from tools.dashboards.grafana import Board, Panel, Query, Row
from tools.dashboards.queries import JOB, most, quantile, rate, total

ROLE = f"on (instance, job) group_left (role) penstock_build_info{{{JOB}}}"
PROCESS = "{{role}} {{instance}}"
CERTIFICATE = f"min by (instance) (penstock_tls_certificate_end_timestamp_seconds{{{JOB}}})"

PROCESSES = Row(
    "Processes",
    [
        Panel("By role", [Query(most("penstock_processes", "role", JOB), "{{role}}")]),
        Panel(
            "Answer Prometheus, by version",
            [Query(f"count by (role, version) (penstock_build_info{{{JOB}}})")],
            kind="table",
        ),
        Panel(
            "Worker processes lost in the last minute",
            [Query(most("penstock_lost_worker_processes", "job", JOB), "{{job}}")],
            about="They went without a word.",
            warn=1,
        ),
        Panel(
            "Processor",
            [Query(f"rate(penstock_process_cpu_seconds_total{{{JOB}}}[$__rate_interval]) * {ROLE}", PROCESS)],
            "percentunit",
            "A gateway or batcher takes one core at most.",
            warn=0.8,
            alarm=0.95,
        ),
        Panel("Memory", [Query(f"penstock_process_resident_bytes{{{JOB}}} * {ROLE}", PROCESS)], "bytes"),
        Panel(
            "Longest pause",
            [Query(f"penstock_loop_longest_pause_seconds{{{JOB}}} * {ROLE}", PROCESS)],
            "s",
            warn=0.1,
        ),
    ],
)

GATEWAYS = Row(
    "Gateways",
    [
        Panel(
            "Requests",
            [
                Query(
                    f"{rate('penstock_requests_total', 'instance', JOB)}"
                    f" + {rate('penstock_refused_requests_total', 'instance', JOB)}",
                    "{{instance}}",
                )
            ],
            "reqps",
            stacked=True,
        ),
        Panel(
            "Latency, 99th percentile",
            [Query(quantile(0.99, "penstock_request_latency_seconds", "instance", JOB), "{{instance}}")],
            "s",
        ),
        Panel(
            "Accepted and not yet answered",
            [
                Query(total("penstock_waiting_clients", "instance", JOB), "{{instance}}"),
                Query(f"min (penstock_waiting_clients_limit{{{JOB}}})", "limit of each"),
            ],
        ),
    ],
)

BATCHERS = Row(
    "Batchers",
    [
        Panel(
            "Batches",
            [Query(rate("penstock_batches_total", "instance", JOB), "{{instance}}")],
            "ops",
            stacked=True,
        ),
        Panel(
            "Waiting", [Query(total("penstock_queue_depth", "instance", JOB), "{{instance}}")], stacked=True
        ),
        Panel(
            "Load over capacity",
            [Query(f"max by (instance, model) (penstock_utilization{{{JOB}}})", "{{instance}} {{model}}")],
            "percentunit",
            warn=0.9,
            alarm=1.0,
        ),
        Panel(
            "Sent to another zone",
            [
                Query(rate("penstock_crossed_requests_total", "model", JOB), "requests: {{model}}"),
                Query(rate("penstock_crossed_batches_total", "model", JOB), "batches: {{model}}"),
            ],
            "ops",
            "Because their own zone could not do them in time, or had no worker. Always nothing without zones.",
        ),
    ],
)

NO_SCALER = "there is no autoscaler"
SCALING = Row(
    "Autoscaler",
    [
        Panel(
            "Workers",
            [
                Query(most("penstock_autoscaler_workers", "job", JOB), "wanted", empty=NO_SCALER),
                Query(
                    most("penstock_autoscaler_wanted_workers", "model", JOB), "for {{model}}", empty=NO_SCALER
                ),
                Query(
                    most("penstock_autoscaler_ready_workers", "model", JOB),
                    "ready: {{model}}",
                    empty=NO_SCALER,
                ),
            ],
        ),
        Panel(
            "Added and removed in an hour",
            [
                Query(
                    f"sum by (model) (increase(penstock_autoscaler_{what}_workers_total{{{JOB}}}[1h]))",
                    f"{what}: {{{{model}}}}",
                    empty=NO_SCALER,
                )
                for what in ("added", "removed")
            ],
        ),
        Panel(
            "How long a start takes",
            [Query(most("penstock_autoscaler_start_seconds", "model", JOB), "{{model}}", empty=NO_SCALER)],
            "s",
        ),
        Panel(
            "Autoscalers that lead",
            [Query(f"sum by (job) (penstock_autoscaler_leads{{{JOB}}})", "{{job}}", empty=NO_SCALER)],
        ),
        Panel(
            "Could not be set",
            [
                Query(
                    f"sum by (instance) (increase(penstock_autoscaler_failures_total{{{JOB}}}[$__rate_interval]))",
                    "{{instance}}",
                    empty=NO_SCALER,
                )
            ],
            about="The number of workers. The log of the autoscaler says why.",
            warn=1,
        ),
    ],
)

STORE = Row(
    "Redis, and what is kept",
    [
        Panel(
            "Redis answers",
            [Query(f"min by (instance) (penstock_redis_up{{{JOB}}})", "{{instance}}")],
            "bool_yes_no",
            most=1,
        ),
        Panel(
            "Memory of Redis",
            [
                Query(most("penstock_redis_memory_ratio", "job", JOB), "used: {{job}}"),
                Query(f"min by (job) (penstock_redis_memory_limit_ratio{{{JOB}}})", "limit: {{job}}"),
            ],
            "percentunit",
            "Of its maxmemory. Beyond the limit nothing is accepted.",
            most=1,
        ),
        Panel(
            "Could not be read",
            [
                Query(
                    f"sum by (kind) (increase(penstock_set_aside_total{{{JOB}}}[$__rate_interval]))",
                    "{{kind}}",
                    empty="everything in Redis could be read",
                )
            ],
            about="Set aside: /internal/aside shows it.",
        ),
        Panel(
            "The ledger's spool",
            [
                Query(
                    f"max by (instance) (penstock_ledger_spool_bytes{{{JOB}}}"
                    f" / penstock_ledger_spool_limit_bytes{{{JOB}}})",
                    "{{instance}}",
                    empty="there is no ledger",
                )
            ],
            "percentunit",
            "Rows that the database has not taken yet.",
            most=1,
            warn=0.5,
        ),
        Panel(
            "Days until the certificate ends",
            [Query(f"({CERTIFICATE} - time()) / 86400", "{{instance}}", empty="there is no TLS")],
            "d",
        ),
        Panel(
            "Loops that were started again",
            [
                Query(
                    f"sum by (instance, loop) (penstock_loop_restarts_total{{{JOB}}})",
                    "{{instance}} {{loop}}",
                    empty="no loop has ended",
                )
            ],
            about="By a mistake of ours: the log has the traceback.",
            warn=1,
        ),
    ],
)

BOARD = Board(
    "penstock-fleet",
    "Penstock: the fleet over Redis",
    "Who does what in an installation over Redis?",
    [PROCESSES, GATEWAYS, BATCHERS, SCALING, STORE],
)
