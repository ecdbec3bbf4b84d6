"""What a process says of itself with each heartbeat, and so whatever the others know of it.

Read strictly: what is known must be of the type that it is known as, so that nobody stumbles over it later.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypedDict, TypeVar

from msgspec import Struct, field

from penstock.types import WorkerId
from penstock.words.basics import Count, Finite, Garbled, RegistryWord, reader

Kind = Literal["gateways", "batchers", "workers"]
KINDS: tuple[Kind, ...] = ("gateways", "batchers", "workers")


class Heartbeat(RegistryWord, kw_only=True):
    """Of any process: where it runs."""

    host: str = ""
    pid: int | None = None
    parent: int | None = None  # the process that started it, and will see it die
    admin: str = ""  # the URL of its admin plane
    draining: bool = False


class GatewayHeartbeat(Heartbeat, kw_only=True):
    waiting: Count = 0  # clients
    ledger: bool = False  # it keeps one


class LoadReport(Struct, kw_only=True):
    """How one model stands, by the word of a batcher: of its part of the queue."""

    queue_depth: Count
    requests_per_second: Finite
    # What the workers can do, and the depths at which tiers are refused; these are None while that is unknown.
    capacity_rps: Finite = 0.0
    warning_depth: Finite | None = None
    critical_depth: Finite | None = None
    workers_healthy: Count = 0
    backlog_seconds: Finite = 0.0  # until what waits now has been done


class BatcherHeartbeat(Heartbeat, kw_only=True):
    shards: Count = 0  # that it reads
    models: dict[str, LoadReport] = field(default_factory=dict)


class SlotReport(Struct, kw_only=True):
    """How one slot stands."""

    model: str = ""
    status: str = ""  # healthy, degraded, loading or offline: whether it can be given a batch
    state: str = ""  # idle, busy, resting, full, loading or offline
    first_batch_seconds: Finite | None = None  # that the first batch took
    utilization: Finite = 0.0
    pressure: Finite = 0.0
    in_flight: Count = 0  # requests
    batches: Count = 0
    busy_seconds: Finite = 0.0
    relative_service_time: Finite | None = None  # None where only a batcher could know it
    restarts: Count = 0
    version: str = ""
    last_error: str = ""


class WorkerHeartbeat(Heartbeat, kw_only=True):
    slots: dict[WorkerId, SlotReport] = field(default_factory=dict)


H = TypeVar("H", bound=Heartbeat)


class Members(TypedDict):
    """By kind and name."""

    gateways: Mapping[str, GatewayHeartbeat]
    batchers: Mapping[str, BatcherHeartbeat]
    workers: Mapping[str, WorkerHeartbeat]


def _reader(of: type[H]) -> Callable[[bytes], H]:
    """Whatever a process runs and has learned, it says where it is. What does not is no process's word."""
    read = reader(of)

    def read_process(text: bytes) -> H:
        said = read(text)
        if not said.host:
            raise Garbled("it does not say where it runs")
        return said

    return read_process


read_heartbeat = _reader(Heartbeat)  # of any kind
read_gateway = _reader(GatewayHeartbeat)
read_batcher = _reader(BatcherHeartbeat)
read_worker = _reader(WorkerHeartbeat)
