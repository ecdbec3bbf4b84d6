"""How the whole installation stands, by what the heartbeats in the registry say. Every member shows it on its admin
plane (`member.py`), and the overview shows it (`lookout.py`). A gateway also asks which models have workers.
It only reads what was said: nobody is asked anew."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct, structs

from penstock.cluster.staying import staying
from penstock.jobs import Slack
from penstock.ports.registry import Registry
from penstock.runtime.condition import (
    DEGRADED,
    HEALTHY,
    LOADING,
    OFFLINE,
    UNHEALTHY,
    WorkerRow,
    condition,
    row_of,
    worst,
)
from penstock.words.heartbeats import KINDS, LoadReport, WorkerHeartbeat


class ModelHealth(Struct):
    """How one model stands, by what all batchers and workers say."""

    queue_depth: int = 0
    requests_per_second: float = 0.0
    capacity_rps: float = 0.0
    # The depths at which the lowest tier, and all but the best, are refused.
    warning_depth: float | None = None
    critical_depth: float | None = None
    max_batch: int = 0
    # Sizes of batches that were run, and the seconds that one is believed to take; by the batcher that has met the
    # most sizes.
    service_curve: list[tuple[float, float]] = []
    workers: int = 0
    workers_healthy: int = 0
    status: str = UNHEALTHY
    gpu_utilization: float = 0.0
    padded_share: float = 0.0  # the part of the inputs that the workers ran lately that was padding
    # For each worker whose memory does not hold every batch: the largest batch that fits.
    largest_fitting: dict[str, int] = {}


class ProcessRow(Struct):
    """A process that is there, and where its admin plane is."""

    name: str
    role: str
    host: str
    pid: int | None
    admin: str
    last_seen: float  # seconds since it was last heard of
    zone: str = ""


class StoreHealth(Struct):
    """How the Redis stands."""

    reachable: bool
    memory: float  # the part of the memory it may use


class InstallationHealth(Struct):
    """How everything stands, as `/health` of each process shows it."""

    gpu_utilization: float
    queue_depth: int
    requests_per_second: float
    models: Mapping[str, ModelHealth]
    gateways: int
    batchers: int
    processes: Sequence[ProcessRow]
    redis: StoreHealth


def worker_rows(registry: Registry) -> Sequence[WorkerRow]:
    """The rows of the workers that are there. Those of a silent process are offline."""
    return [
        row
        for name, said in sorted(registry.members["workers"].items())
        for row in _rows(said, registry.age(name), offline=registry.is_silent(name))
    ]


def all_worker_rows(registry: Registry) -> Sequence[WorkerRow]:
    """The rows of all workers. Those that went without a word are included as long as the registry remembers
    them."""
    lost = (_rows(said, age, offline=True) for _, (age, said) in sorted(registry.lost_workers.items()))
    return [*worker_rows(registry), *chain.from_iterable(lost)]


def _rows(said: WorkerHeartbeat, age: float, *, offline: bool) -> list[WorkerRow]:
    rows = [
        row_of(slot, said.host, said.pid, round(age, 3), report)
        for slot, report in sorted(said.slots.items())
    ]
    return [structs.replace(row, status=OFFLINE, state=OFFLINE) for row in rows] if offline else rows


def condition_of(registry: Registry) -> str:
    """The condition of the installation. Without a batcher that stays nothing is served. If a model has no worker,
    that makes it only degraded, since the other models are served."""
    if not staying(registry, "batchers"):
        return UNHEALTHY
    models = health_of(registry).models.values()
    if not any(model.workers_healthy for model in models):
        return UNHEALTHY
    return worst(model.status if model.workers else DEGRADED for model in models)


def has_worker(registry: Registry, model: str) -> bool:
    """Whether a worker is known that can serve this model now."""
    return any(row.model == model and row.status == HEALTHY for row in worker_rows(registry))


def slack_of(registry: Registry, model: str) -> Slack:
    """How busy the workers of a model are, by what was last said of them."""
    rows = [row for row in worker_rows(registry) if row.model == model and row.status == HEALTHY]
    waiting = sum(
        said.models[model].queue_depth
        for said in registry.members["batchers"].values()
        if model in said.models
    )
    return Slack(waiting, sum(row.state == "idle" for row in rows), len(rows))


class TakesBytes:
    """Whether all workers of a model take bytes. While there is none, what was known last holds. Each request may
    ask, so it is worked out when the registry has changed (`look`)."""

    def __init__(self) -> None:
        self._known = False  # what was known last

    def look(self, rows: Iterable[WorkerRow]) -> None:
        """Take in the model's workers as they are now."""
        said = [row.takes_bytes for row in rows]
        if said:
            self._known = all(said)

    def __call__(self) -> bool:
        return self._known


def still_loading(registry: Registry) -> list[str]:
    """The models that load, while no model can be served yet. Empty otherwise: one model that is served is enough
    to send traffic here, and a client that asks for another is told that it loads."""
    rows = worker_rows(registry)
    if any(row.status == HEALTHY for row in rows):
        return []
    return sorted({row.model for row in rows if row.status == LOADING})


def process_rows(registry: Registry) -> list[ProcessRow]:
    """The processes that are there."""
    return [
        ProcessRow(
            name=name,
            role=kind.removesuffix("s"),
            host=said.host,
            pid=said.pid,
            admin=said.admin,
            last_seen=round(registry.age(name), 3),
            zone=said.zone or "",
        )
        for kind in KINDS
        for name, said in sorted(registry.members[kind].items())
    ]


def _add_load(model: ModelHealth, said: LoadReport, healthy: int) -> None:
    """Add what one batcher says of its part to a model: its queue, and the capacity. The capacity is what the
    batcher has learned of one worker, times the number of `healthy` workers that is known here, since the batcher's
    own count is one heartbeat old."""
    rates = model.requests_per_second, said.requests_per_second
    if sum(rates):  # each batcher counts by its part of the requests
        padded = model.padded_share * rates[0] + said.padded_share * rates[1]
        model.padded_share = round(padded / sum(rates), 4)
    model.queue_depth += said.queue_depth
    model.requests_per_second = round(model.requests_per_second + said.requests_per_second, 3)
    if not said.workers_healthy or said.warning_depth is None or said.critical_depth is None:
        return  # nothing is known yet
    model.max_batch = max(model.max_batch, said.max_batch)
    if len(said.service_curve) > len(model.service_curve):
        model.service_curve = said.service_curve
    change = healthy / said.workers_healthy
    model.capacity_rps = max(model.capacity_rps, round(said.capacity_rps * change, 3))
    model.warning_depth = round((model.warning_depth or 0.0) + said.warning_depth * change, 1)
    model.critical_depth = round((model.critical_depth or 0.0) + said.critical_depth * change, 1)


def health_of(registry: Registry) -> InstallationHealth:
    """How the installation stands, model by model."""
    rows = all_worker_rows(registry)
    healthy = Counter(row.model for row in rows if row.status == HEALTHY)
    models: dict[str, ModelHealth] = {}
    for batcher in registry.members["batchers"].values():
        for name, said in batcher.models.items():
            _add_load(models.setdefault(name, ModelHealth()), said, healthy[name])
    for name, model in models.items():
        model.workers = sum(row.model == name for row in rows)
        model.workers_healthy = healthy[name]
        model.status = condition(model.workers, healthy[name])
        model.largest_fitting = {
            row.worker: row.largest_fitting
            for row in rows
            if row.model == name and row.largest_fitting is not None
        }
        if model.capacity_rps:
            model.gpu_utilization = round(model.requests_per_second / model.capacity_rps, 4)
    return InstallationHealth(
        gpu_utilization=max((model.gpu_utilization for model in models.values()), default=0.0),
        queue_depth=sum(model.queue_depth for model in models.values()),
        requests_per_second=round(sum(model.requests_per_second for model in models.values()), 3),
        models=models,
        gateways=len(registry.members["gateways"]),
        batchers=len(registry.members["batchers"]),
        processes=process_rows(registry),
        redis=StoreHealth(registry.reachable, round(registry.memory_ratio, 4)),
    )
