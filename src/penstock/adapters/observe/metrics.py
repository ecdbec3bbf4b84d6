"""The counters and histograms of the hot path. Every process has one `Metrics` among its observers
(`roles/observers.py`). Nothing here formats, locks, or allocates more than an integer for a request.
`exposition.py` makes Prometheus' text of them when somebody asks, and `sampling.py` the figures of the overview."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from penstock.adapters.observe.exemplars import Exemplars, Looks
from penstock.adapters.observe.histogram import COARSE, FINE, SIZES, Histogram
from penstock.errors import BackendOutOfMemory
from penstock.ports import Observer
from penstock.types import Batch, Execution, Failure, Refusal, Reply, WorkerId


class ModelMetrics:
    """The counters of one model."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self.latency = Histogram(FINE)  # from arrival to reply, of requests that succeeded
        self.traced = Exemplars(FINE, wall_clock)  # examples of the latency
        self.queue_wait = Histogram(COARSE)  # from arrival to dispatch, of requests that succeeded
        self.worker_latency = Histogram(FINE)  # how long batches took on their workers, where these succeeded
        self.batch_size = Histogram(SIZES)
        self.succeeded = 0
        self.outcomes: Counter[str] = Counter()  # requests that did not succeed, by error code
        self.reasons: Counter[str] = Counter()  # batches, by why they were sent
        self.retried_batches = 0
        self.ahead = 0  # batches that were with their workers before these had ended the one before
        self.crossed_batches = 0  # batches sent to workers of another zone
        self.crossed_requests = 0  # the requests in those batches
        self.out_of_memory = 0  # batches that did not fit into a worker's memory
        self.batched_requests = 0
        self.padding = 0  # inputs that were repeated to fill batches


class Metrics(Observer):
    """The observer that counts requests and batches. There are few labels: the models that are served, and the
    codes of the error tree."""

    def __init__(self, models: Iterable[str], wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._looks = Looks()  # for examples of requests
        self.models = {name: ModelMetrics(wall_clock) for name in models}
        self.refusals: Counter[tuple[str, str]] = Counter()  # by model (empty where it is not known) and code
        # By the name of the door: requests that succeeded; and by the error code too, those that did not.
        self.succeeded_at: defaultdict[str, int] = defaultdict(int)
        self.unsuccessful_at: Counter[tuple[str, str]] = Counter()

    def add_model(self, name: str) -> None:
        """Count for this model too. It was not in the configuration, but a worker has announced it."""
        self.models.setdefault(name, ModelMetrics(self._wall_clock))

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        model = self.models[batch.model]
        model.reasons[batch.reason] += 1
        model.retried_batches += batch.retry
        model.ahead += batch.ahead
        if batch.crossed:
            model.crossed_batches += 1
            model.crossed_requests += len(batch.requests)
        model.batched_requests += len(batch.requests)
        model.batch_size.observe(len(batch.requests))

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        model = self.models[batch.model]
        model.padding += execution.padding
        if failure is None:
            model.worker_latency.observe(execution.seconds)
        elif failure.code == BackendOutOfMemory.code:
            model.out_of_memory += 1

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        execution: Execution | None = None
        arrivals: list[float] = []  # of requests that were executed together
        executed: list[tuple[ModelMetrics, Execution, list[float]]] = []
        succeeded_at = self.succeeded_at
        for reply in replies:
            request = reply.request
            if reply.execution is execution is not None:  # members of one batch come together
                arrivals.append(request.arrival)
                succeeded_at[request.door] += 1
                continue
            other, model = reply.execution, self.models[request.model]
            if other is None:
                assert reply.failure is not None
                model.outcomes[reply.failure.code] += 1
                self.unsuccessful_at[request.door, reply.failure.code] += 1
                continue
            succeeded_at[request.door] += 1
            if not other.counted or type(reply) is not Reply:
                # The answer is of an execution that is counted elsewhere.
                model.succeeded += 1
                model.latency.observe(now - request.arrival)
            else:
                execution, arrivals = other, [request.arrival]
                executed.append((model, execution, arrivals))
        for each in executed:
            self._executed(*each, now)
        looks = self._looks.take(len(replies), now)
        if looks:
            self._find_examples(replies[:looks], now)

    def _find_examples(self, replies: Sequence[Reply], now: float) -> None:
        for reply in replies:
            request = reply.request
            if request.traceparent is not None and reply.failure is None:
                self.models[request.model].traced.note(request.traceparent, now - request.arrival)

    def _executed(self, model: ModelMetrics, execution: Execution, arrivals: list[float], now: float) -> None:
        """Count requests that were executed together and succeeded."""
        model.succeeded += len(arrivals)
        arrivals.sort(reverse=True)
        started = execution.started
        model.latency.observe_all([now - arrival for arrival in arrivals])
        model.queue_wait.observe_all([started - arrival for arrival in arrivals])

    def refused(self, refusal: Refusal) -> None:
        self.refusals[refusal.model, refusal.code] += 1
        self.unsuccessful_at[refusal.door, refusal.code] += 1
