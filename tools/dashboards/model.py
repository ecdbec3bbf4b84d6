"""The dashboard `model`, why a model is as fast as it is: its batches, what its batcher has learned, and where the
time goes. `make dashboards` writes it as JSON."""

from tools.dashboards.grafana import Board, Panel, Query, Row, variable
from tools.dashboards.queries import (
    LATENCY,
    MODEL,
    SERVING,
    most,
    quantiles,
    rate,
    total,
)

ONCE = "the model is not deterministic"
BATCHES, MEMBERS, PADDING = (
    rate(f"penstock_{name}_total") for name in ("batches", "batched_requests", "padding")
)

LOAD = Row(
    "Load",
    [
        Panel(
            "Load and capacity",
            [
                Query(
                    f"{rate('penstock_requests_total')} + {rate('penstock_refused_requests_total')}", "asked"
                ),
                Query(rate("penstock_requests_total", where=f'{MODEL}, outcome="SUCCESS"'), "answered well"),
                Query(most("penstock_capacity_rps"), "capacity"),
            ],
            "reqps",
            "Capacity is what the healthy workers have shown at full batches.",
        ),
        Panel(
            "Latency",
            [
                *quantiles(LATENCY, exemplars=True),
                Query(most("penstock_latency_objective_seconds"), "objective"),
            ],
            "s",
        ),
        Panel(
            "Where the time goes",
            [
                *(
                    Query(f"{rate(f'{metric}_sum')} / {rate(f'{metric}_count')}", legend)
                    for metric, legend in (
                        (LATENCY, "from arrival to answer"),
                        ("penstock_queue_wait_seconds", "waiting"),
                        ("penstock_gpu_worker_latency_seconds", "on the worker, by batches"),
                    )
                )
            ],
            "s",
            "Means. Small batches weigh as much as large ones in the last.",
        ),
        Panel("Wait for a worker", quantiles("penstock_queue_wait_seconds"), "s"),
        Panel(
            "Expected wait and its limit",
            [
                Query(most("penstock_expected_wait_seconds"), "expected wait"),
                Query(f"min (penstock_queue_timeout_seconds{{{MODEL}}})", "longest wait allowed"),
            ],
            "s",
            "Where the first comes near the second, requests are refused.",
        ),
        Panel(
            "Waiting, and where tiers are refused",
            [
                Query(total("penstock_queue_depth", "tier"), "{{tier}}"),
                Query(total("penstock_refusal_depth", "level"), "{{level}}"),
            ],
            about="At warning the lowest tier is refused, at critical all but the best, if several are in use.",
        ),
    ],
)

BATCHING = Row(
    "Batches",
    [
        Panel(
            "Why batches went",
            [Query(rate("penstock_batches_total", "reason"), "{{reason}}")],
            "ops",
            "full: no more fit. due: its turn came. idle: workers are plentiful. deadline: some would be late.",
            stacked=True,
        ),
        Panel(
            "Size of batches",
            [
                Query(f"{MEMBERS} / {BATCHES}", "mean"),
                Query(most("penstock_best_batch_size"), "best"),
                Query(most("penstock_max_batch_size"), "largest"),
            ],
            about="Best: the smallest batch with nearly the best throughput.",
        ),
        Panel(
            "Sizes of batches",
            [Query(rate("penstock_batch_size_distribution_bucket", "le"), "{{le}}")],
            kind="heatmap",
        ),
        Panel(
            "A batch on its worker",
            [
                *quantiles("penstock_gpu_worker_latency_seconds"),
                Query(most("penstock_service_seconds", "batch"), "learned: {{batch}}"),
            ],
            "s",
            "And the learned times of a batch of one and of a full one.",
        ),
        Panel(
            "Padding and retries",
            [
                Query(f"{PADDING} / ({PADDING} + {MEMBERS})", "padding"),
                Query(f"{rate('penstock_retried_batches_total')} / {BATCHES}", "batches that were retries"),
                Query(f"1 - min (penstock_retry_budget_ratio{{{MODEL}}})", "retry budget that is spent"),
            ],
            "percentunit",
        ),
        Panel(
            "Batches that were too large",
            [
                Query(rate("penstock_out_of_memory_total"), "out of memory"),
                Query(rate("penstock_ahead_batches_total"), "handed over ahead"),
            ],
            "ops",
            "Out of memory: they are halved, and the size is remembered. Ahead: their worker still ran another.",
        ),
    ],
)

MORE = Row(
    "Policy, workers and cache",
    [
        Panel(
            "Policy in force",
            [Query(f"max by (model, policy) (penstock_policy_info{{{MODEL}}})")],
            kind="table",
        ),
        Panel(
            "Workers",
            [
                Query(SERVING, "serve"),
                Query(f"{rate('penstock_worker_busy_seconds_total')}", "busy, on average"),
                Query(total("penstock_workers_expected"), "expected"),
            ],
        ),
        Panel(
            "Cache",
            [
                Query(rate("penstock_cache_requests_total", "result"), "{{result}}", empty=ONCE),
                Query(rate("penstock_collapsed_requests_total"), "shared an execution", empty=ONCE),
            ],
            "reqps",
        ),
    ],
)

BOARD = Board(
    "penstock-model",
    "Penstock: a model and its policy",
    "Why is it as fast as it is?",
    [LOAD, BATCHING, MORE],
    [variable("model", "penstock_request_latency_seconds_count")],
)
