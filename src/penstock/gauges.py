"""How a server stands at one moment, in numbers: what its metrics page shows besides its counters."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModelGauges:
    """How one model stands at this moment."""

    queue_depth: Mapping[str, int]  # by tier
    workers: Mapping[str, int]  # by state
    busy_seconds: float
    utilization: float  # offered load over capacity
    capacity: float  # requests a second
    restarts: int = 0
    pressure: float | None = None  # of the fullest worker, where workers are here to say so
    largest_fitting: int | None = None  # batch, of the worker with the least memory; None while all fit


@dataclass(frozen=True, slots=True)
class LedgerGauges:
    """How the ledger of this process stands."""

    rows: Mapping[str, int]  # by what became of them, since the start
    waiting: int
    spool_bytes: int
    up: bool  # the database takes rows


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Of one deterministic model, since the start."""

    hits: int
    misses: int
    bypassed: int
    stored: int
    collapsed: int


@dataclass(frozen=True, slots=True)
class ServerGauges:
    models: Mapping[str, ModelGauges] = field(default_factory=dict)
    waiting_clients: int = 0
    tasks: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)  # by model, since the start
    tls: Mapping[str, int] = field(default_factory=dict)  # what has happened to certificates and handshakes
    ledger: LedgerGauges | None = None  # where one is kept
    caches: Mapping[str, CacheCounts] = field(default_factory=dict)
    evicted: int = 0  # answers, since the start
    letters_dropped: int = 0  # before their time, since the start
    aside: Mapping[str, int] = field(default_factory=dict)  # what could not be read, by kind, since the start
    restarts: Mapping[str, int] = field(default_factory=dict)  # of loops, by name, since the start
    unsent: tuple[int, int] | None = (
        None  # bytes of answers that wait for their clients; clients cut off for it
    )
