"""The metrics page, made from the plain counters when somebody asks for it. Each process has one `Exposition`,
which the admin plane asks (`/metrics`). It reads counters and gauges, and changes none."""

from collections.abc import Callable

from penstock.adapters.observe import catalogue as c
from penstock.adapters.observe.histogram import Histogram
from penstock.adapters.observe.metrics import Metrics, ModelMetrics
from penstock.adapters.observe.own_process import OwnProcess
from penstock.adapters.observe.pauses import LoopPauses
from penstock.adapters.observe.text import CLASSIC, OPENMETRICS, Page, wants_openmetrics
from penstock.errors import Overloaded
from penstock.gauges import (
    BatchingGauges,
    LedgerGauges,
    ModelGauges,
    ScalingGauges,
    ServerGauges,
    StoreGauges,
    TlsGauges,
    TracingGauges,
)

_HISTOGRAMS: tuple[tuple[c.Family, Callable[[ModelMetrics], Histogram]], ...] = (
    (c.QUEUE_WAIT, lambda model: model.queue_wait),
    (c.BATCH_SIZE, lambda model: model.batch_size),
    (c.WORKER_LATENCY, lambda model: model.worker_latency),
)
_COUNTERS: tuple[tuple[c.Family, Callable[[ModelMetrics], int]], ...] = (
    (c.BATCHED, lambda model: model.batched_requests),
    (c.PADDING, lambda model: model.padding),
    (c.RETRIED, lambda model: model.retried_batches),
    (c.AHEAD, lambda model: model.ahead),
    (c.CROSSED, lambda model: model.crossed_batches),
    (c.CROSSED_REQUESTS, lambda model: model.crossed_requests),
    (c.OUT_OF_MEMORY, lambda model: model.out_of_memory),
)


class Exposition:
    """The page of one process. It has the families of its role and leaves out the others, even where there would be
    something to say: another role sees those whole."""

    def __init__(
        self,
        metrics: Metrics,
        gauges: Callable[[], ServerGauges],
        pauses: LoopPauses | None = None,
        role: str = c.SERVE,
    ) -> None:
        self._metrics = metrics
        self._gauges = gauges
        self._pauses = pauses
        self._role = role
        self._process = OwnProcess()
        self._families = [family for family in c.FAMILIES if role in family.roles]

    def answer(self, accept: str) -> tuple[bytes, str]:
        """Returns the page and its type, in the format that an Accept header prefers."""
        openmetrics = wants_openmetrics(accept)
        return self.text(openmetrics=openmetrics), OPENMETRICS if openmetrics else CLASSIC

    def text(self, *, openmetrics: bool = False) -> bytes:
        """Returns the page."""
        page = Page(self._families, openmetrics=openmetrics)
        self._counted(page)
        gauges = self._gauges()
        for name, model in gauges.models.items():
            _model(page, name, model)
        _asked(page, gauges)
        _caches(page, gauges)
        for kind, number in gauges.aside.items():
            page.add(c.SET_ASIDE, number, kind)
        for loop, number in gauges.restarts.items():
            page.add(c.LOOP_RESTARTS, number, loop)
        if gauges.store is not None:
            _store(page, gauges.store)
        if gauges.tls is not None:
            _tls(page, gauges.tls)
        if gauges.ledger is not None:
            _ledger(page, gauges.ledger)
        if gauges.tracing is not None:
            _tracing(page, gauges.tracing)
        if gauges.recording is not None:
            page.add(c.RECORDED, gauges.recording.recorded, "recorded")
            page.add(c.RECORDED, gauges.recording.dropped, "dropped")
        if gauges.scaling is not None:
            _scaling(page, gauges.scaling)
        self._own(page)
        return page.text()

    def _counted(self, page: Page) -> None:
        for name, model in self._metrics.models.items():
            page.add_histogram(c.LATENCY, model.latency, name, exemplars=model.traced)
            for family, pick in _HISTOGRAMS:
                page.add_histogram(family, pick(model), name)
            for counter, count in _COUNTERS:
                page.add(counter, count(model), name)
            page.add(c.REQUESTS, model.succeeded, name, "SUCCESS")
            for outcome, number in model.outcomes.items():
                page.add(c.REQUESTS, number, name, outcome)
            for reason, number in model.reasons.items():
                page.add(c.BATCHES, number, name, reason)
            # Prometheus sees no growth in a series that begins with its first refusal.
            page.add(c.REFUSED, self._metrics.refusals[name, Overloaded.code], name, Overloaded.code)
        for (name, code), number in self._metrics.refusals.items():
            if code != Overloaded.code or name not in self._metrics.models:
                page.add(c.REFUSED, number, name, code)
        for door, number in self._metrics.succeeded_at.items():
            page.add(c.AT_DOORS, number, door, "SUCCESS")
        for (door, code), number in self._metrics.unsuccessful_at.items():
            page.add(c.AT_DOORS, number, door, code)

    def _own(self, page: Page) -> None:
        process = self._process
        page.add(c.BUILD, 1, process.version, self._role)
        page.add(c.STARTED, process.started)
        page.add(c.CPU, process.cpu_seconds())
        page.add(c.MEMORY, process.resident_bytes())
        if self._pauses is not None:
            page.add_histogram(c.PAUSE, self._pauses.seconds)
            page.add(c.LONGEST_PAUSE, self._pauses.longest())


def _model(page: Page, name: str, model: ModelGauges) -> None:
    for tier, waiting in model.queue_depth.items():
        page.add(c.DEPTH, waiting, name, tier)
    for state, number in model.workers.items():
        page.add(c.WORKERS, number, name, state)
    page.add(c.WORKERS_EXPECTED, sum(model.workers.values()), name)
    page.add(c.UTILIZATION, model.utilization, name)
    page.add(c.CAPACITY, model.capacity, name)
    page.add(c.BUSY, model.busy_seconds, name)
    page.add(c.RESTARTS, model.restarts, name)
    if model.pressure is not None:
        page.add(c.PRESSURE, model.pressure, name)
    if model.largest_fitting is not None:
        page.add(c.FITTING, model.largest_fitting, name)
    if model.batching is not None:
        _batching(page, name, model.batching)


def _batching(page: Page, name: str, batching: BatchingGauges) -> None:
    page.add(c.QUEUE_LIMIT, batching.queue_limit, name)
    if batching.expected_wait is not None:
        page.add(c.EXPECTED_WAIT, batching.expected_wait, name)
    for level, depth in batching.refusal_depths.items():
        page.add(c.REFUSAL_DEPTH, depth, name, level)
    page.add(c.RETRY_BUDGET, batching.retry_budget, name)
    for batch, seconds in batching.service.items():
        page.add(c.SERVICE, seconds, name, batch)
    page.add(c.BEST_BATCH, batching.best_batch, name)
    page.add(c.MAX_BATCH, batching.max_batch, name)
    page.add(c.POLICY, 1, name, batching.policy)


def _asked(page: Page, server: ServerGauges) -> None:
    for name, desk in server.desks.items():
        page.add(c.OBJECTIVE, desk.objective, name)
        page.add(c.QUEUE_TIMEOUT, desk.queue_timeout, name)
        page.add(c.MODEL_READY, desk.ready, name)
    page.add(c.WAITING_CLIENTS, server.waiting_clients)
    page.add(c.WAITING_LIMIT, server.waiting_limit)
    page.add(c.TASKS, server.tasks)
    # Models without a dead letter are shown too: Prometheus sees no growth in a series that begins with 1.
    for name in server.models:
        page.add(c.LETTERS, server.dead_letters.get(name, 0), name)
    page.add(c.LETTERS_DROPPED, server.letters_dropped)
    if server.unsent is not None:
        size, cut = server.unsent
        page.add(c.UNSENT_BYTES, size)
        page.add(c.UNSENT_CUT, cut)


def _caches(page: Page, server: ServerGauges) -> None:
    for name, counts in server.caches.items():
        page.add(c.CACHED, counts.hits, name, "hit")
        page.add(c.CACHED, counts.misses, name, "miss")
        page.add(c.CACHED, counts.bypassed, name, "bypass")
        page.add(c.CACHE_STORED, counts.stored, name)
        page.add(c.COLLAPSED, counts.collapsed, name)
    page.add(c.CACHE_EVICTED, server.evicted)


def _store(page: Page, store: StoreGauges) -> None:
    page.add(c.REDIS_UP, store.up)
    page.add(c.REDIS_MEMORY, store.memory)
    page.add(c.REDIS_MEMORY_LIMIT, store.memory_limit)
    for role, number in store.processes.items():
        page.add(c.PROCESSES, number, role)
    page.add(c.LOST_WORKERS, store.lost_workers)


def _tls(page: Page, tls: TlsGauges) -> None:
    if tls.ends is not None:
        page.add(c.CERTIFICATE_END, tls.ends)
    page.add(c.CERTIFICATE_LOADS, tls.loads)
    page.add(c.FAILED_LOADS, tls.failed_loads)
    page.add(c.FAILED_HANDSHAKES, tls.failed_handshakes)


def _ledger(page: Page, ledger: LedgerGauges) -> None:
    for state, number in ledger.rows.items():
        page.add(c.LEDGER_ROWS, number, state)
    page.add(c.LEDGER_WAITING, ledger.waiting)
    page.add(c.LEDGER_SPOOL, ledger.spool_bytes)
    page.add(c.LEDGER_SPOOL_LIMIT, ledger.spool_limit)
    page.add(c.LEDGER_UP, ledger.up)


def _tracing(page: Page, tracing: TracingGauges) -> None:
    page.add(c.TRACE_SPANS, tracing.sent, "sent")
    page.add(c.TRACE_SPANS, tracing.dropped, "dropped")
    page.add(c.TRACE_WAITING, tracing.waiting)


def _scaling(page: Page, scaling: ScalingGauges) -> None:
    page.add(c.SCALER_LEADS, scaling.leads)
    page.add(c.SCALER_FAILURES, scaling.failures)
    if scaling.workers is not None:
        page.add(c.SCALER_WORKERS, scaling.workers)
    for name, model in scaling.models.items():
        page.add(c.SCALER_WANTED, model.wanted, name)
        page.add(c.SCALER_READY, model.ready, name)
        page.add(c.SCALER_START, model.start_seconds, name)
        page.add(c.SCALER_ADDED, model.added, name)
        page.add(c.SCALER_REMOVED, model.removed, name)
