"""Numbers that say how a server stands at one moment. `runtime`, `cluster` and `roles` fill them in;
`adapters/observe/exposition.py` shows them on the metrics page, beside the counters."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModelGauges:
    """How one model stands at this moment."""

    queue_depth: Mapping[str, int]  # by tier
    workers: Mapping[str, int]  # by state
    busy_seconds: float
    utilization: float  # offered load divided by capacity
    capacity: float  # requests a second
    restarts: int = 0  # of backends, since the start
    pressure: float | None = None  # of the fullest worker; None if this process has no workers
    # The largest batch that fits into the worker with the least memory; None while all batches fit.
    largest_fitting: int | None = None


@dataclass(frozen=True, slots=True)
class LedgerGauges:
    """How the ledger of this process stands."""

    rows: Mapping[str, int]  # since the start, by what became of them
    waiting: int  # rows that are not in the database yet
    spool_bytes: int
    up: bool  # whether the database takes rows


@dataclass(frozen=True, slots=True)
class TracingGauges:
    """How the traces of this process stand."""

    sent: int  # spans, since the start
    dropped: int
    waiting: int


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """What the cache did for one deterministic model since the process started."""

    hits: int
    misses: int
    bypassed: int
    stored: int
    collapsed: int


@dataclass(frozen=True, slots=True)
class ServerGauges:
    """Everything the metrics page shows of one process. A process leaves what it does not have at the default."""

    models: Mapping[str, ModelGauges] = field(default_factory=dict)
    waiting_clients: int = 0
    tasks: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)  # by model, since the start
    tls: Mapping[str, int] = field(default_factory=dict)  # what has happened to certificates and handshakes
    ledger: LedgerGauges | None = None  # None if the process keeps no ledger
    tracing: TracingGauges | None = None  # None if the process traces nothing
    caches: Mapping[str, CacheCounts] = field(default_factory=dict)
    evicted: int = 0  # remembered answers that were dropped before their time, since the start
    letters_dropped: int = 0  # dead letters that were dropped before their time, since the start
    aside: Mapping[str, int] = field(default_factory=dict)  # what could not be read, by kind, since the start
    restarts: Mapping[str, int] = field(default_factory=dict)  # of loops, by name, since the start
    # Bytes of answers that wait for slow clients, and how many clients were cut off because of that.
    unsent: tuple[int, int] | None = None
