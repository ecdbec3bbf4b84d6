"""The metrics page in Prometheus' text format, made from the plain counters when somebody asks for it.
`roles/process.py` makes it for each process; the admin plane shows it."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from penstock.adapters.observe.metrics import Histogram, Metrics, ModelMetrics
from penstock.adapters.observe.pauses import LoopPauses
from penstock.gauges import LedgerGauges, ServerGauges, TracingGauges

HISTOGRAMS: tuple[tuple[str, str, Callable[[ModelMetrics], Histogram]], ...] = (
    (
        "penstock_request_latency_seconds",
        "From arrival to answer, of requests that succeeded",
        lambda m: m.latency,
    ),
    ("penstock_queue_wait_seconds", "From arrival to dispatch", lambda m: m.queue_wait),
    ("penstock_gpu_worker_latency_seconds", "A batch on its worker", lambda m: m.worker_latency),
    ("penstock_batch_size_distribution", "Requests in a batch", lambda m: m.batch_size),
)


class Exposition:
    """A collector for prometheus_client, which calls `collect`. `text` returns the page for the admin plane."""

    def __init__(
        self, metrics: Metrics, gauges: Callable[[], ServerGauges], pauses: LoopPauses | None = None
    ) -> None:
        self._metrics = metrics
        self._gauges = gauges
        self._pauses = pauses
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        yield from self._histograms()
        yield from self._counters()
        gauges = self._gauges()
        yield from self._levels(gauges)
        yield from self._caches(gauges)
        if self._pauses is not None:
            yield from _pauses(self._pauses)
        yield from _mishaps(gauges)
        if gauges.unsent is not None:
            yield from _unsent(*gauges.unsent)
        if gauges.ledger is not None:
            yield from _ledger(gauges.ledger)
        if gauges.tracing is not None:
            yield from _tracing(gauges.tracing)

    def _histograms(self) -> Iterator[Metric]:
        for name, about, pick in HISTOGRAMS:
            family = HistogramMetricFamily(name, about, labels=["model"])
            for model, metrics in self._metrics.models.items():
                family.add_metric([model], _buckets(pick(metrics)), pick(metrics).total)
            yield family

    def _counters(self) -> Iterator[Metric]:
        outcomes = CounterMetricFamily(
            "penstock_requests", "Accepted requests, by how they ended", labels=["model", "outcome"]
        )
        reasons = CounterMetricFamily(
            "penstock_batches", "Batches sent, by why they went", labels=["model", "reason"]
        )
        batched = CounterMetricFamily(
            "penstock_batched_requests", "Requests in all batches", labels=["model"]
        )
        padding = CounterMetricFamily(
            "penstock_padding", "Inputs that were repeated to fill batches", labels=["model"]
        )
        retries = CounterMetricFamily(
            "penstock_retried_batches", "Batches that were retries", labels=["model"]
        )
        ahead = CounterMetricFamily(
            "penstock_ahead_batches", "Batches handed to workers that ran another", labels=["model"]
        )
        too_large = CounterMetricFamily(
            "penstock_out_of_memory", "Batches that did not fit into a worker's memory", labels=["model"]
        )
        for name, metrics in self._metrics.models.items():
            outcomes.add_metric([name, "SUCCESS"], metrics.succeeded)
            for outcome, count in metrics.outcomes.items():
                outcomes.add_metric([name, outcome], count)
            for reason, count in metrics.reasons.items():
                reasons.add_metric([name, reason], count)
            batched.add_metric([name], metrics.batched_requests)
            padding.add_metric([name], metrics.padding)
            retries.add_metric([name], metrics.retried_batches)
            ahead.add_metric([name], metrics.ahead)
            too_large.add_metric([name], metrics.out_of_memory)
        refused = CounterMetricFamily(
            "penstock_refused_requests",
            "Requests refused on arrival, by error code",
            labels=["model", "code"],
        )
        for (model, code), count in self._metrics.refusals.items():
            refused.add_metric([model, code], count)
        yield from (outcomes, reasons, batched, padding, retries, ahead, too_large, refused)

    def _levels(self, server: ServerGauges) -> Iterator[Metric]:
        depth = GaugeMetricFamily("penstock_queue_depth", "Requests waiting", labels=["model", "tier"])
        workers = GaugeMetricFamily("penstock_workers", "Workers, by state", labels=["model", "state"])
        load = GaugeMetricFamily("penstock_utilization", "Offered load over capacity", labels=["model"])
        capacity = GaugeMetricFamily(
            "penstock_capacity_rps", "Requests a second at full batches", labels=["model"]
        )
        busy = CounterMetricFamily(
            "penstock_worker_busy_seconds", "Workers' time on batches", labels=["model"]
        )
        restarts = CounterMetricFamily("penstock_worker_restarts", "Backends started anew", labels=["model"])
        pressure = GaugeMetricFamily(
            "penstock_worker_pressure", "How full the fullest worker says it is, 0 to 1", labels=["model"]
        )
        fitting = GaugeMetricFamily(
            "penstock_largest_fitting_batch",
            "Requests that fit into the memory of the worker with the least, where a batch was too large",
            labels=["model"],
        )
        for name, model in server.models.items():
            for tier, waiting in model.queue_depth.items():
                depth.add_metric([name, tier], waiting)
            for state, number in model.workers.items():
                workers.add_metric([name, state], number)
            load.add_metric([name], model.utilization)
            capacity.add_metric([name], model.capacity)
            busy.add_metric([name], model.busy_seconds)
            restarts.add_metric([name], model.restarts)
            if model.pressure is not None:
                pressure.add_metric([name], model.pressure)
            if model.largest_fitting is not None:
                fitting.add_metric([name], model.largest_fitting)
        clients = GaugeMetricFamily("penstock_waiting_clients", "Accepted requests not yet answered")
        clients.add_metric([], server.waiting_clients)
        tasks = GaugeMetricFamily("penstock_tasks", "Asynchronous tasks, pending and kept")
        tasks.add_metric([], server.tasks)
        letters = CounterMetricFamily(
            "penstock_dead_letters", "Requests kept as dead letters", labels=["model"]
        )
        for name, number in server.dead_letters.items():
            letters.add_metric([name], number)
        dropped = CounterMetricFamily(
            "penstock_dead_letters_dropped", "Dead letters that made room for newer ones"
        )
        dropped.add_metric([], server.letters_dropped)
        yield from (
            depth,
            workers,
            load,
            capacity,
            busy,
            restarts,
            pressure,
            fitting,
            clients,
            tasks,
            letters,
            dropped,
        )
        for name, count in server.tls.items():
            family = CounterMetricFamily(f"penstock_tls_{name}", f"TLS: {name.replace('_', ' ')}")
            family.add_metric([], count)
            yield family

    def _caches(self, server: ServerGauges) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "penstock_cache_requests",
            "Requests to deterministic models, by what the cache said",
            labels=["model", "result"],
        )
        stored = CounterMetricFamily("penstock_cache_stored", "Answers kept in the cache", labels=["model"])
        collapsed = CounterMetricFamily(
            "penstock_collapsed_requests",
            "Requests answered with an identical one's execution",
            labels=["model"],
        )
        for name, counts in server.caches.items():
            requests.add_metric([name, "hit"], counts.hits)
            requests.add_metric([name, "miss"], counts.misses)
            requests.add_metric([name, "bypass"], counts.bypassed)
            stored.add_metric([name], counts.stored)
            collapsed.add_metric([name], counts.collapsed)
        evicted = CounterMetricFamily(
            "penstock_cache_evicted", "Answers dropped before their time, to make room for others"
        )
        evicted.add_metric([], server.evicted)
        yield from (requests, stored, collapsed, evicted)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    running = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        running += count
        buckets.append(("+Inf" if bound == float("inf") else f"{bound:g}", running))
    return buckets


def _pauses(pauses: LoopPauses) -> Iterator[Metric]:
    family = HistogramMetricFamily(
        "penstock_loop_pause_seconds", "The event loop was busy with one thing, if for 5 ms or more"
    )
    family.add_metric([], _buckets(pauses.seconds), pauses.seconds.total)
    yield family
    yield GaugeMetricFamily(
        "penstock_loop_longest_pause_seconds",
        "The longest of these in the last minute or two",
        pauses.longest(),
    )


def _mishaps(server: ServerGauges) -> Iterator[Metric]:
    aside = CounterMetricFamily("penstock_set_aside", "What could not be read, by kind", labels=["kind"])
    for kind, number in server.aside.items():
        aside.add_metric([kind], number)
    restarts = CounterMetricFamily(
        "penstock_loop_restarts", "Background loops that ended and were started again", labels=["loop"]
    )
    for loop, number in server.restarts.items():
        restarts.add_metric([loop], number)
    yield from (aside, restarts)


def _unsent(size: int, cut: int) -> Iterator[Metric]:
    yield GaugeMetricFamily("penstock_unsent_bytes", "Answers that their clients have not taken", size)
    yield CounterMetricFamily(
        "penstock_unsent_cut", "Clients cut off, since answers that nobody takes were too much", cut
    )


def _ledger(ledger: LedgerGauges) -> Iterator[Metric]:
    rows = CounterMetricFamily(
        "penstock_ledger_rows", "Rows of the ledger, by what became of them", labels=["state"]
    )
    for state, number in ledger.rows.items():
        rows.add_metric([state], number)
    yield rows
    yield GaugeMetricFamily("penstock_ledger_waiting_rows", "Rows not in the database yet", ledger.waiting)
    yield GaugeMetricFamily("penstock_ledger_spool_bytes", "Of them, what is on disk", ledger.spool_bytes)
    yield GaugeMetricFamily("penstock_ledger_up", "Whether the database takes rows", int(ledger.up))


def _tracing(tracing: TracingGauges) -> Iterator[Metric]:
    spans = CounterMetricFamily(
        "penstock_trace_spans", "Spans of traces, by what became of them", labels=["state"]
    )
    spans.add_metric(["sent"], tracing.sent)
    spans.add_metric(["dropped"], tracing.dropped)
    yield spans
    yield GaugeMetricFamily("penstock_trace_waiting_spans", "Spans not sent yet", tracing.waiting)
