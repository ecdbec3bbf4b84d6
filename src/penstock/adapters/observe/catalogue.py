"""Every metric: its name, what it counts, in what unit, with which labels, and which roles have it. `exposition.py`
fills the metrics in, and `sampling.py` goes by the same roles. docs/metrics.md describes the metrics for readers; a
test keeps the two together.

Each figure is shown by the role that sees it whole, and by no other. So a sum over all processes counts nothing
twice. `penstock serve` does everything itself and shows nearly all of them.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]

SERVE, GATEWAY, BATCHER, WORKER, AUTOSCALER = "serve", "gateway", "batcher", "worker", "autoscaler"
ALL = frozenset({SERVE, GATEWAY, BATCHER, WORKER, AUTOSCALER})
ASKED = frozenset({SERVE, GATEWAY})  # roles that clients ask
BATCHING = frozenset({SERVE, BATCHER})  # roles that form batches
WORKING = frozenset({SERVE, WORKER})  # roles that have workers
TOGETHER = ALL - {SERVE}  # roles that meet at a Redis
ALONE = frozenset({SERVE})
SCALING = frozenset({AUTOSCALER})

MODEL = ("model",)


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One metric. `name` is without the `_total` that the samples of a counter have."""

    name: str
    kind: Kind
    unit: str
    about: str
    roles: frozenset[str]
    labels: tuple[str, ...] = ()
    optional: bool = False  # shown only by a process that has what it is about

    @property
    def shown(self) -> str:
        """The name as queries use it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def _counter(
    name: str, unit: str, about: str, roles: frozenset[str], *labels: str, optional: bool = False
) -> Family:
    return Family(f"penstock_{name}", "counter", unit, about, roles, labels, optional)


def _gauge(
    name: str, unit: str, about: str, roles: frozenset[str], *labels: str, optional: bool = False
) -> Family:
    return Family(f"penstock_{name}", "gauge", unit, about, roles, labels, optional)


def _histogram(name: str, unit: str, about: str, roles: frozenset[str], *labels: str) -> Family:
    return Family(f"penstock_{name}", "histogram", unit, about, roles, labels)


# ---- requests ----------------------------------------------------------------------------------------------

LATENCY = _histogram(
    "request_latency_seconds", "seconds", "From arrival to answer, of requests that succeeded", ASKED, "model"
)
QUEUE_WAIT = _histogram(
    "queue_wait_seconds", "seconds", "From arrival to dispatch, of requests that succeeded", ASKED, "model"
)
REQUESTS = _counter("requests", "requests", "Accepted requests, by how they ended", ASKED, "model", "outcome")
REFUSED = _counter(
    "refused_requests", "requests", "Requests refused on arrival, by error code", ASKED, "model", "code"
)
AT_DOORS = _counter(
    "door_requests", "requests", "Requests at each door, by how they ended", ASKED, "door", "outcome"
)
OBJECTIVE = _gauge(
    "latency_objective_seconds",
    "seconds",
    "The latency that requests of the model are meant to keep",
    ASKED,
    "model",
)
QUEUE_TIMEOUT = _gauge(
    "queue_timeout_seconds", "seconds", "The longest wait for a worker, of the strictest tier", ASKED, "model"
)
MODEL_READY = _gauge("model_ready", "0 or 1", "Whether a worker can serve the model now", ASKED, "model")
WAITING_CLIENTS = _gauge("waiting_clients", "requests", "Accepted requests not yet answered", ASKED)
WAITING_LIMIT = _gauge(
    "waiting_clients_limit", "requests", "How many of these a gateway takes", frozenset({GATEWAY})
)
TASKS = _gauge("tasks", "tasks", "Asynchronous tasks, pending and kept", ALONE)
UNSENT_BYTES = _gauge("unsent_bytes", "bytes", "Answers that their clients have not taken", ASKED)
UNSENT_CUT = _counter(
    "unsent_cut", "clients", "Clients cut off, since answers that nobody takes were too much", ASKED
)

# ---- the queue and its batches -----------------------------------------------------------------------------

BATCH_SIZE = _histogram("batch_size_distribution", "requests", "Requests in a batch", BATCHING, "model")
BATCHES = _counter("batches", "batches", "Batches sent, by why they went", BATCHING, "model", "reason")
BATCHED = _counter("batched_requests", "requests", "Requests in all batches", BATCHING, "model")
PADDING = _counter("padding", "inputs", "Inputs that were repeated to fill batches", BATCHING, "model")
RETRIED = _counter("retried_batches", "batches", "Batches that were retries", BATCHING, "model")
AHEAD = _counter("ahead_batches", "batches", "Batches handed to workers that ran another", BATCHING, "model")
CROSSED = _counter(
    "crossed_batches", "batches", "Batches sent to workers of another zone", frozenset({BATCHER}), "model"
)
CROSSED_REQUESTS = _counter(
    "crossed_requests", "requests", "Requests in batches to another zone", frozenset({BATCHER}), "model"
)
OUT_OF_MEMORY = _counter(
    "out_of_memory", "batches", "Batches that did not fit into a worker's memory", BATCHING, "model"
)
DEPTH = _gauge("queue_depth", "requests", "Requests waiting", BATCHING, "model", "tier")
QUEUE_LIMIT = _gauge("queue_limit", "requests", "How many requests of the model may wait", BATCHING, "model")
EXPECTED_WAIT = _gauge(
    "expected_wait_seconds",
    "seconds",
    "How long a request that arrives now will wait for a worker, in the worst tier",
    BATCHING,
    "model",
)
REFUSAL_DEPTH = _gauge(
    "refusal_depth",
    "requests",
    "Waiting requests at which the lowest tier (warning), or all but the best (critical), is refused",
    BATCHING,
    "model",
    "level",
)
UTILIZATION = _gauge("utilization", "ratio", "Offered load over capacity", BATCHING, "model")
CAPACITY = _gauge("capacity_rps", "requests/s", "Requests a second at full batches", BATCHING, "model")
SERVICE = _gauge(
    "service_seconds", "seconds", "The learned time of a batch of one and of a full one", BATCHING, "model", "batch"
)  # fmt: skip
BEST_BATCH = _gauge(
    "best_batch_size", "requests", "The smallest batch with nearly the best throughput", BATCHING, "model"
)
MAX_BATCH = _gauge("max_batch_size", "requests", "The largest batch", BATCHING, "model")
POLICY = _gauge("policy_info", "always 1", "The policy in force", BATCHING, "model", "policy")
RETRY_BUDGET = _gauge(
    "retry_budget_ratio", "ratio", "The part of the retry budget that is left", BATCHING, "model"
)
FITTING = _gauge(
    "largest_fitting_batch",
    "requests",
    "Requests that fit into the memory of the worker with the least, where a batch was too large",
    BATCHING,
    "model",
)
LETTERS = _counter("dead_letters", "requests", "Requests kept as dead letters", BATCHING, "model")
LETTERS_DROPPED = _counter(
    "dead_letters_dropped", "requests", "Dead letters that made room for newer ones", BATCHING
)

# ---- the workers -------------------------------------------------------------------------------------------

WORKER_LATENCY = _histogram(
    "gpu_worker_latency_seconds", "seconds", "A batch on its worker, where it succeeded", WORKING, "model"
)
WORKERS = _gauge("workers", "workers", "Workers, by state", WORKING, "model", "state")
WORKERS_EXPECTED = _gauge(
    "workers_expected", "workers", "Workers that this process is to have", WORKING, "model"
)
BUSY = _counter("worker_busy_seconds", "seconds", "Workers' time on batches", WORKING, "model")
RESTARTS = _counter("worker_restarts", "restarts", "Backends started anew", WORKING, "model")
PRESSURE = _gauge(
    "worker_pressure", "ratio", "How full the fullest worker says it is, 0 to 1", WORKING, "model"
)

# ---- the cache ---------------------------------------------------------------------------------------------

CACHED = _counter(
    "cache_requests",
    "requests",
    "Requests to deterministic models, by what the cache said",
    ASKED,
    "model",
    "result",
)
CACHE_STORED = _counter("cache_stored", "answers", "Answers kept in the cache", ASKED, "model")
COLLAPSED = _counter(
    "collapsed_requests", "requests", "Requests answered with an identical one's execution", ASKED, "model"
)
CACHE_EVICTED = _counter(
    "cache_evicted", "answers", "Answers dropped before their time, to make room for others", ASKED
)

# ---- an installation over Redis ----------------------------------------------------------------------------

REDIS_UP = _gauge("redis_up", "0 or 1", "Whether Redis answers this process", TOGETHER)
REDIS_MEMORY = _gauge(
    "redis_memory_ratio", "ratio", "The part of its maxmemory that Redis uses; 0 where it has none", TOGETHER
)
REDIS_MEMORY_LIMIT = _gauge(
    "redis_memory_limit_ratio", "ratio", "The part beyond which nothing is accepted", TOGETHER
)
PROCESSES = _gauge("processes", "processes", "Processes of the installation, by role", TOGETHER, "role")
LOST_WORKERS = _gauge(
    "lost_worker_processes",
    "processes",
    "Worker processes that went without a word in the last minute",
    TOGETHER,
)
SET_ASIDE = _counter("set_aside", "messages", "What could not be read, by kind", TOGETHER, "kind")

# ---- the autoscaler ----------------------------------------------------------------------------------------

SCALER_LEADS = _gauge("autoscaler_leads", "0 or 1", "Whether this autoscaler decides", SCALING)
SCALER_WORKERS = _gauge(
    "autoscaler_workers",
    "workers",
    "Worker processes that there should be, for all models together; shown by the one that leads",
    SCALING,
    optional=True,
)
SCALER_WANTED = _gauge(
    "autoscaler_wanted_workers", "workers", "Worker processes that the model needs", SCALING, "model"
)
SCALER_READY = _gauge(
    "autoscaler_ready_workers", "workers", "Worker processes that can take a batch", SCALING, "model"
)
SCALER_START = _gauge(
    "autoscaler_start_seconds", "seconds", "How long a worker takes until it is ready", SCALING, "model"
)
SCALER_ADDED = _counter("autoscaler_added_workers", "workers", "Workers asked for", SCALING, "model")
SCALER_REMOVED = _counter("autoscaler_removed_workers", "workers", "Workers let go", SCALING, "model")
SCALER_FAILURES = _counter(
    "autoscaler_failures", "calls", "How often the number of workers could not be set", SCALING
)

# ---- TLS and the ledger ------------------------------------------------------------------------------------

CERTIFICATE_END = _gauge(
    "tls_certificate_end_timestamp_seconds",
    "seconds",
    "When the certificate in use ends, in seconds since the epoch",
    ASKED,
    optional=True,
)
CERTIFICATE_LOADS = _counter(
    "tls_certificate_loads", "loads", "Certificates taken into use", ASKED, optional=True
)
FAILED_LOADS = _counter(
    "tls_failed_certificate_loads", "loads", "Changed files that could not be used", ASKED, optional=True
)
FAILED_HANDSHAKES = _counter(
    "tls_failed_handshakes", "connections", "Connections that failed their handshake", ASKED, optional=True
)
LEDGER_ROWS = _counter(
    "ledger_rows", "rows", "Rows of the ledger, by what became of them", ASKED, "state", optional=True
)
LEDGER_WAITING = _gauge("ledger_waiting_rows", "rows", "Rows not in the database yet", ASKED, optional=True)
LEDGER_SPOOL = _gauge("ledger_spool_bytes", "bytes", "Of them, what is on disk", ASKED, optional=True)
LEDGER_SPOOL_LIMIT = _gauge(
    "ledger_spool_limit_bytes", "bytes", "How much may be on disk until rows are lost", ASKED, optional=True
)
LEDGER_UP = _gauge("ledger_up", "0 or 1", "Whether the database takes rows", ASKED, optional=True)

# ---- traces -------------------------------------------------------------------------------------------------

TRACE_SPANS = _counter(
    "trace_spans", "spans", "Spans of traces, by what became of them", ALL, "state", optional=True
)
TRACE_WAITING = _gauge("trace_waiting_spans", "spans", "Spans not sent yet", ALL, optional=True)

# ---- recorded arrivals -----------------------------------------------------------------------------------------

RECORDED = _counter(
    "recorded_requests",
    "requests",
    "Arrivals for [trace] record, by what became of them",
    ASKED,
    "state",
    optional=True,
)

# ---- the process itself ------------------------------------------------------------------------------------

BUILD = _gauge("build_info", "always 1", "What runs here", ALL, "version", "role")
STARTED = _gauge(
    "process_start_timestamp_seconds", "seconds", "When the process started, in seconds since the epoch", ALL
)
CPU = _counter("process_cpu_seconds", "seconds", "Processor time of the process", ALL)
MEMORY = _gauge("process_resident_bytes", "bytes", "Memory of the process", ALL)
PAUSE = _histogram(
    "loop_pause_seconds", "seconds", "The event loop was busy with one thing, if for 5 ms or more", ALL
)
LONGEST_PAUSE = _gauge(
    "loop_longest_pause_seconds", "seconds", "The longest of these in the last minute or two", ALL
)
LOOP_RESTARTS = _counter(
    "loop_restarts", "restarts", "Background loops that ended and were started again", ALL, "loop"
)

FAMILIES = [value for value in globals().copy().values() if isinstance(value, Family)]
