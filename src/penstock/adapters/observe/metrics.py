"""The counters and histograms of the hot path. `roles/observers.py` makes them. Nothing here formats, locks, or
allocates more than an integer for a request. `exposition.py` makes Prometheus' text of them when somebody asks."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from penstock.errors import BackendOutOfMemory
from penstock.ports import Observer
from penstock.types import Batch, Execution, Failure, Refusal, Reply, WorkerId

# Upper bounds of the buckets, in seconds.
SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.125,
    0.15,
    0.2,
    0.3,
    0.5,
    0.75,
    1.0,
    2.0,
    4.0,
    10.0,
)
# Upper bounds of the buckets, in requests of a batch.
SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)


class Histogram:
    """How many values fell into each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: Sequence[float]) -> None:
        """Observe values in ascending order, at least one. Each bucket is looked for once, and not each value."""
        counts, bounds, at = self.counts, self.bounds, 0
        first, last = bisect_left(bounds, values[0]), bisect_left(bounds, values[-1])
        for bucket in range(first, last):
            end = bisect_right(values, bounds[bucket], at)
            counts[bucket] += end - at
            at = end
        counts[last] += len(values) - at
        self.total += sum(values)


class ModelMetrics:
    """The counters of one model."""

    def __init__(self) -> None:
        self.latency = Histogram(SECONDS)  # from arrival to reply, of requests that succeeded
        self.queue_wait = Histogram(SECONDS)  # from arrival to dispatch
        self.worker_latency = Histogram(SECONDS)  # how long batches took on their workers
        self.batch_size = Histogram(SIZES)
        self.succeeded = 0
        self.outcomes: Counter[str] = Counter()  # requests that did not succeed, by error code
        self.reasons: Counter[str] = Counter()  # batches, by why they were sent
        self.retried_batches = 0
        self.ahead = 0  # batches that were with their workers before these had ended the one before
        self.out_of_memory = 0  # batches
        self.batched_requests = 0
        self.padding = 0  # inputs that were repeated to fill batches


class Metrics(Observer):
    """The observer that counts requests and batches. There are few labels: the models that are served, and the
    codes of the error tree."""

    def __init__(self, models: Iterable[str]) -> None:
        self.models = {name: ModelMetrics() for name in models}
        self.refusals: Counter[tuple[str, str]] = Counter()  # by model (empty where it is not known) and code

    def add_model(self, name: str) -> None:
        """Count for this model too. It was not in the configuration, but a worker has announced it."""
        self.models.setdefault(name, ModelMetrics())

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        model = self.models[batch.model]
        model.reasons[batch.reason] += 1
        model.retried_batches += batch.retry
        model.ahead += batch.ahead
        model.batched_requests += len(batch.requests)
        model.batch_size.observe(len(batch.requests))

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        self.models[batch.model].padding += execution.padding
        if failure is not None and failure.code == BackendOutOfMemory.code:
            self.models[batch.model].out_of_memory += 1

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        execution: Execution | None = None
        arrivals: list[float] = []  # of requests that were executed together
        executed: list[tuple[ModelMetrics, Execution, list[float]]] = []
        for reply in replies:
            if reply.execution is execution is not None:  # members of one batch come together
                arrivals.append(reply.request.arrival)
                continue
            other, model = reply.execution, self.models[reply.request.model]
            if other is None:
                assert reply.failure is not None
                model.outcomes[reply.failure.code] += 1
            elif (
                not other.counted or type(reply) is not Reply
            ):  # another execution gave it, which is counted there
                model.succeeded += 1
                model.latency.observe(now - reply.request.arrival)
            else:
                execution, arrivals = other, [reply.request.arrival]
                executed.append((model, execution, arrivals))
        for each in executed:
            self._executed(*each, now)

    def _executed(self, model: ModelMetrics, execution: Execution, arrivals: list[float], now: float) -> None:
        """Count requests that were executed together and succeeded."""
        model.succeeded += len(arrivals)
        model.worker_latency.observe(execution.seconds)
        arrivals.sort(reverse=True)
        started = execution.started
        model.latency.observe_all([now - arrival for arrival in arrivals])
        model.queue_wait.observe_all([started - arrival for arrival in arrivals])

    def refused(self, refusal: Refusal) -> None:
        self.refusals[refusal.model, refusal.code] += 1
