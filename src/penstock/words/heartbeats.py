"""What a process says of itself with each heartbeat. By this the others know how it stands. Each member in
`cluster` makes its own heartbeat; registries write and read them.

Known fields are read strictly: a value must have the type of its field. Unknown fields are skipped.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypedDict, TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from penstock.types import WorkerId
from penstock.words.basics import Count, Finite, Garbled, RegistryWord, reader

Kind = Literal["gateways", "batchers", "workers", "autoscalers"]
KINDS: tuple[Kind, ...] = ("gateways", "batchers", "workers", "autoscalers")


class Heartbeat(RegistryWord, kw_only=True):
    """The part of a heartbeat that every process has: where it runs."""

    host: str = ""
    pid: int | None = None
    parent: int | None = None  # the process that started this one, and will see it die
    admin: str = ""  # the URL of the process's admin plane
    draining: bool = False  # whether the process is about to end
    tells: bool = False  # whether it understands a `Look`; an older process does not
    # The zone of the process. Absent if it is in the zone without a name, where older processes are too.
    zone: str | UnsetType = UNSET


class GatewayHeartbeat(Heartbeat, kw_only=True):
    waiting: Count = 0  # clients that wait for answers
    ledger: bool = False  # whether it keeps a ledger
    # Requests that it refused although a worker more might have helped, by model, since its start.
    turned_away: dict[str, Count] = field(default_factory=dict)


class LoadReport(Struct, kw_only=True):
    """How one model's queue stands at one batcher."""

    queue_depth: Count
    requests_per_second: Finite
    # How much the workers can do, and the depths at which tiers are refused; None while no batch has been seen.
    capacity_rps: Finite = 0.0
    warning_depth: Finite | None = None
    critical_depth: Finite | None = None
    workers_healthy: Count = 0
    backlog_seconds: Finite = 0.0  # seconds until what waits now has been done
    late: bool = False  # whether the workers of its zone cannot do in time what waits now
    padded_share: Finite = 0.0  # the part of the inputs that the workers ran lately that was padding
    max_batch: Count = 0
    arrived: Count = 0  # requests that came to this batcher since its start, refused ones included
    # Sizes of batches that were run, and the seconds that one is believed to take.
    service_curve: list[tuple[Finite, Finite]] = []
    policy: str = ""  # when its batches go; an older batcher does not say
    best_batch: Count = 0  # the size with the best throughput


class BatcherHeartbeat(Heartbeat, kw_only=True):
    shards: Count = 0  # how many shards it reads
    models: dict[str, LoadReport] = field(default_factory=dict)


class RungReport(Struct, kw_only=True):
    """One size of batch that a slot was warmed up with."""

    size: Count
    first: Finite  # seconds of the first run of this size
    again: list[Finite] = []  # seconds of the runs after it


class SlotReport(Struct, kw_only=True):
    """How one slot stands."""

    model: str = ""
    status: str = ""  # healthy, degraded, loading or offline: whether it can be given a batch
    state: str = ""  # idle, busy, resting, full, loading or offline
    first_batch_seconds: Finite | None = None  # seconds that the first batch took, or the warm-up
    utilization: Finite = 0.0
    pressure: Finite = 0.0
    in_flight: Count = 0  # requests on the slot
    batches: Count = 0
    busy_seconds: Finite = 0.0
    relative_service_time: Finite | None = None  # a multiple of the model's; None: only a batcher knows it
    restarts: Count = 0
    version: str = ""
    last_error: str = ""
    warm_up: list[RungReport] = []  # what was run before the first batch, or in idle moments
    warm_up_too_large: Count | None = None  # the size that did not fit into memory then
    warm_up_length: Count = 0  # bytes of its input
    takes_bytes: bool = False  # whether an input may be bytes; an older worker takes none
    largest_fitting: Count | None = None  # the largest batch that fits into memory; None while all do
    # Whether the slot may be handed a batch while it runs one. An older worker does not say.
    runs_ahead: bool = False


class WorkerHeartbeat(Heartbeat, kw_only=True):
    slots: dict[WorkerId, SlotReport] = field(default_factory=dict)


class ScalingReport(Struct, kw_only=True):
    """How many workers one model should have. A worker here is a process, which may have several slots."""

    wanted: Count
    ready: Count = 0  # how many workers can take a batch
    start_seconds: Finite = 0.0  # how long a start takes
    measured: bool = False  # whether that was measured, or is only believed
    ready_in: Finite | None = None  # seconds until the next worker should be ready; None: none is on its way
    added: Count = 0  # how many workers were added since this autoscaler began to lead
    removed: Count = 0  # how many workers were removed since then
    why: str = ""  # why so many are wanted, in plain words


class AutoscalerHeartbeat(Heartbeat, kw_only=True):
    pool: str = ""  # the models whose workers it looks after, with commas between; empty: all
    leads: bool = False  # whether it decides; the others of its pool stand by
    workers: Count = 0  # how many there should be, for all of its models together
    minimum: Count = 0
    maximum: Count = 0
    models: dict[str, ScalingReport] = field(default_factory=dict)


H = TypeVar("H", bound=Heartbeat)


class Members(TypedDict):
    """The members that are there, by kind and name."""

    gateways: Mapping[str, GatewayHeartbeat]
    batchers: Mapping[str, BatcherHeartbeat]
    workers: Mapping[str, WorkerHeartbeat]
    autoscalers: Mapping[str, AutoscalerHeartbeat]


def _reader(of: type[H]) -> Callable[[bytes], H]:
    """Returns a function that reads heartbeats. It raises Garbled, also if the heartbeat does not say where the
    process runs."""
    read = reader(of)

    def read_process(text: bytes) -> H:
        said = read(text)
        if not said.host:
            raise Garbled("it does not say where it runs")
        return said

    return read_process


read_heartbeat = _reader(Heartbeat)  # reads the heartbeat of any kind of process
read_gateway = _reader(GatewayHeartbeat)
read_batcher = _reader(BatcherHeartbeat)
read_worker = _reader(WorkerHeartbeat)
read_autoscaler = _reader(AutoscalerHeartbeat)
