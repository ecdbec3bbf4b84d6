"""Numbers that say how a server stands at one moment: plain records, which measure nothing themselves. `runtime`,
`cluster` and `roles` fill them in. `adapters/observe/exposition.py` shows them on the metrics page, beside the
counters, and `adapters/observe/sampling.py` takes from them what the overview shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BatchingGauges:
    """How the queue of one model stands, and what its batcher has learned."""

    queue_limit: int  # requests that may wait
    # Seconds that a request would wait for a worker, in the worst tier; None if nobody can say.
    expected_wait: float | None
    # The depths at which tiers are refused, by the name of the level. Empty until a batch has been seen.
    refusal_depths: Mapping[str, float]
    retry_budget: float  # the part of the retry budget that is left, 0 to 1
    service: Mapping[str, float]  # seconds of a batch on a worker, for a batch of one and a full one
    best_batch: int
    max_batch: int
    policy: str
    policy_reason: str = ""  # what the policy does with these workers, in a sentence
    arrivals: float = 0.0  # requests let in, a second
    curve: Sequence[tuple[int, float]] = ()  # sizes of batches, and the seconds that each is believed to take
    refused: Mapping[str, int] = field(default_factory=dict)  # requests not let in since the start, by tier


@dataclass(frozen=True, slots=True)
class ModelGauges:
    """How one model stands at this moment."""

    queue_depth: Mapping[str, int]  # requests that wait, by tier
    workers: Mapping[str, int]  # how many workers there are, by state
    busy_seconds: float  # seconds that all its workers have worked since the start
    utilization: float  # offered load divided by capacity
    capacity: float  # requests a second that the healthy workers can do
    restarts: int = 0  # how often backends were started anew, since the start
    pressure: float | None = None  # how full the fullest worker is; None if this process has no workers
    # The largest batch that fits into the worker with the least memory; None while all batches fit.
    largest_fitting: int | None = None
    batching: BatchingGauges | None = None  # None if this process forms no batches


@dataclass(frozen=True, slots=True)
class DeskGauges:
    """What clients of one model can expect."""

    objective: float  # seconds: the latency that its requests are meant to keep
    queue_timeout: float  # seconds: the longest wait for a worker, of the strictest tier
    ready: bool  # whether a worker can serve now


@dataclass(frozen=True, slots=True)
class StoreGauges:
    """How an installation over Redis stands, as far as one process knows."""

    up: bool  # whether Redis answers
    memory: float  # the part of its memory that Redis uses
    memory_limit: float  # the part beyond which nothing is accepted
    processes: Mapping[str, int]  # how many processes there are, by role
    lost_workers: int  # worker processes that went without a word and are not forgotten yet


@dataclass(frozen=True, slots=True)
class LedgerGauges:
    """How the ledger of this process stands."""

    rows: Mapping[str, int]  # rows since the start, by what became of them
    waiting: int  # rows that are not in the database yet
    spool_bytes: int
    spool_limit: int  # bytes
    up: bool  # whether the database takes rows


@dataclass(frozen=True, slots=True)
class TracingGauges:
    """How the traces of this process stand."""

    sent: int  # spans that were sent since the start
    dropped: int  # spans that were dropped since the start
    waiting: int  # spans that are not sent yet


@dataclass(frozen=True, slots=True)
class RecordingGauges:
    """How the record of arrivals stands."""

    recorded: int  # requests that were recorded since the start
    dropped: int  # requests since the start that are missing in the record


@dataclass(frozen=True, slots=True)
class TlsGauges:
    """What has happened to certificates and handshakes since the start, and when the certificate in use ends."""

    loads: int
    failed_loads: int
    failed_handshakes: int
    # When the certificate ends, in seconds since the epoch. None if it does not say that in a form that we know.
    ends: float | None


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """What the cache did for one deterministic model since the process started."""

    hits: int  # requests whose answer was remembered
    misses: int  # requests whose answer was not
    bypassed: int  # requests for which the shared store was not asked
    stored: int  # answers that were kept
    collapsed: int  # requests that went along with an identical one's execution


@dataclass(frozen=True, slots=True)
class ModelScalingGauges:
    """How many workers one model should have, by the autoscaler that leads."""

    wanted: int  # how many workers there should be
    ready: int  # how many can take a batch
    start_seconds: float  # how long a start takes
    added: int  # workers that were added since the autoscaler began to lead
    removed: int  # workers that were removed since then


@dataclass(frozen=True, slots=True)
class ScalingGauges:
    """How an autoscaler stands."""

    leads: bool
    workers: int | None  # how many there should be, for all models together; None while another leads
    failures: int  # how often the number could not be set, since the start
    models: Mapping[str, ModelScalingGauges]


@dataclass(frozen=True, slots=True)
class ServerGauges:
    """Everything the metrics page shows of one process. A process leaves what it does not have at the default."""

    models: Mapping[str, ModelGauges] = field(default_factory=dict)
    waiting_clients: int = 0
    tasks: int = 0
    dead_letters: Mapping[str, int] = field(default_factory=dict)  # dead letters since the start, by model
    tls: TlsGauges | None = None  # None without TLS
    ledger: LedgerGauges | None = None  # None if the process keeps no ledger
    tracing: TracingGauges | None = None  # None if the process traces nothing
    caches: Mapping[str, CacheCounts] = field(default_factory=dict)  # by model, if its answers are shared
    evicted: int = 0  # remembered answers that were dropped before their time, since the start
    letters_dropped: int = 0  # dead letters that were dropped before their time, since the start
    aside: Mapping[str, int] = field(default_factory=dict)  # what could not be read, by kind, since the start
    # How often each loop was started again since the start, by the loop's name.
    restarts: Mapping[str, int] = field(default_factory=dict)
    # Bytes of answers that wait for slow clients, and how many clients were cut off because of that.
    unsent: tuple[int, int] | None = None
    desks: Mapping[str, DeskGauges] = field(default_factory=dict)  # by model; empty if no client asks here
    waiting_limit: int = 0  # accepted requests that a gateway takes at once
    store: StoreGauges | None = None  # None if there is no Redis
    recording: RecordingGauges | None = None  # None if the process records no arrivals
    scaling: ScalingGauges | None = None  # None if the process is no autoscaler
