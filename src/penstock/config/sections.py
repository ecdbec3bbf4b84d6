"""The sections of penstock.toml: every key, its default and what it may be, stated here and nowhere else.

`Config` consists of these; `schema` reads their annotations for `load`. Times are seconds and sizes are bytes.
docs/configuration.md describes the same keys for readers, and a test keeps the two together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from penstock.config.batch_sizes import ANY, LARGEST_BATCH, BatchSizes
from penstock.config.kinds import (
    Choice,
    Command,
    Duration,
    Flag,
    Headers,
    Ids,
    InputsOrNone,
    Labels,
    Number,
    OneOf,
    Origins,
    Secret,
    Size,
    Text,
    Url,
    Whole,
)
from penstock.core.policy import POLICIES

Name = Annotated[str, Text()]
FreeText = Annotated[str, Text(empty=True)]
Port = Annotated[int, Whole(0, 65535)]  # 0: any free port
Positive = Annotated[int, Whole(1)]
Span = Annotated[float, Duration()]
Follows = Annotated[float | None, Duration()]  # None: another setting decides it (see `time_limits`)
SpanOrNone = Annotated[float, Duration(zero=True)]  # 0 is allowed
Bytes = Annotated[int, Size()]
Switch = Annotated[bool, Flag()]

MIB = 2**20
POLICY_NAMES = tuple(POLICIES)
SUM, PADDED = "sum", "padded"  # kinds of `batch_cost`


@dataclass(frozen=True, slots=True)
class Server:
    """Where the server listens, how it ends, and what it logs."""

    host: Name = "127.0.0.1"
    port: Port = 8000
    grpc_port: Annotated[int | None, Whole(0, 65535)] = None  # None: no gRPC
    admin_host: Name = "127.0.0.1"
    admin_port: Port = 9000
    # Empty: the admin plane asks for no token.
    admin_token: Annotated[str, Secret()] = field(default="", repr=False)
    # Names that lead to the admin plane, if it has no token.
    admin_hosts: Annotated[tuple[str, ...], Ids()] = ()
    drain: SpanOrNone = 30.0  # on SIGTERM, the longest wait for accepted requests
    drain_grace: SpanOrNone = 0.0  # before draining: not ready but serving, until load balancers have noticed
    max_connections: Positive = 65536
    cors_origins: Annotated[tuple[str, ...], Origins()] = ()  # of web pages that may use the API
    log_level: Annotated[str, Choice(("debug", "info", "warning", "error"))] = "info"
    log_format: Annotated[str, Choice(("auto", "json", "text"))] = "auto"  # auto: text on a terminal
    log_requests: Annotated[float, Number(0, 1)] = 0.0  # the share of requests that get a line in the log
    # Where a process over Redis stands: its batches stay there while that zone can do them.
    zone: FreeText = ""


@dataclass(frozen=True, slots=True)
class Api:
    """How requests are answered."""

    # With async, every request is answered 202 with a task_id, as if it had said `Prefer: respond-async`.
    respond: Annotated[str, Choice(("sync", "async"))] = "sync"
    # The status of SERVICE_OVERLOADED. 429 is for load balancers that take out a server which answers 5xx.
    overload_status: Annotated[int, OneOf((503, 429))] = 503


@dataclass(frozen=True, slots=True)
class Doors:
    """Which doors are open beside the native ones, which always are."""

    openai: Switch = True  # /v1/embeddings, /v1/completions, /v1/models/{model}
    open_inference: Switch = True  # /v2, as Triton and KServe have it
    tei: Switch = True  # /embed, /rerank, /predict
    rerank: Switch = True  # /v1/rerank, /v2/rerank
    websocket: Switch = True  # /v1/stream


@dataclass(frozen=True, slots=True)
class Tls:
    """Encryption towards clients."""

    certificate: FreeText = ""  # a PEM file, the server's own first; empty: no TLS
    key: FreeText = ""  # empty: it is in the same file
    # The authority that signs for clients; empty: they are not asked for a certificate.
    client_ca: FreeText = ""
    client_certificates: Annotated[str, Choice(("none", "optional", "required"))] = "required"
    minimum: Annotated[str, Choice(("1.2", "1.3"))] = "1.2"
    http2: Switch = True  # offered to clients, beside HTTP/1.1
    admin: Switch = False  # the admin plane as well, with the same certificate


@dataclass(frozen=True, slots=True)
class Redis:
    """What gateways, batchers and workers have in common when they are processes of their own."""

    # Also rediss:// for TLS, and redis+cluster://host:port,host:port for a cluster.
    url: Annotated[str, Url()] = field(default="redis://127.0.0.1:6379", repr=False)
    namespace: Name = "penstock"  # begins all keys, so that several installations can share a Redis
    name: FreeText = ""  # begins the name of this process in logs and lists; empty: its role does
    shards: Annotated[int, Whole(1, 256)] = 16  # streams for requests; must be the same in every process
    # What Redis must have done with a request before it counts as accepted.
    durability: Annotated[str, Choice(("memory", "fsync", "replica"))] = "memory"
    replicas: Positive = 1  # how many replicas must have a request, if durability is replica
    lease: Span = 1.0  # silence after which a process counts as dead
    heartbeat: Span = 0.25  # from one sign of life to the next
    # The share of Redis's maxmemory beyond which nothing is accepted.
    memory_limit: Annotated[float, Number(0, 1, above=True)] = 0.8
    max_dead_letters: Positive = 10_000
    # The memory of the store that `penstock up` starts. None: a quarter of the machine's.
    store_memory: Annotated[int | None, Size()] = None


@dataclass(frozen=True, slots=True)
class Jwt:
    """Tokens of an identity provider."""

    issuer: FreeText = ""
    audience: Annotated[tuple[str, ...], Ids()] = ()  # a token must name one of them
    jwks_url: Annotated[str, Url(empty=True)] = field(default="", repr=False)  # where its public keys are
    algorithms: Annotated[tuple[str, ...], Ids()] = ("RS256", "ES256", "EdDSA")
    key_file: FreeText = ""  # instead of a URL: a public key in PEM, or a secret for HS256
    tenant_claim: Name = "tenant"
    tier_claim: Name = "tier"
    default_tier: FreeText = ""  # for a token that names no tier; empty: such a token is refused
    leeway: SpanOrNone = 30.0  # how far the provider's clock and ours may differ
    refresh: Span = 600.0  # how often the keys are fetched anew
    allow_http: Switch = False  # fetch them without TLS


@dataclass(frozen=True, slots=True)
class Auth:
    """Who may ask."""

    # With auto nobody is asked who they are; a server that others than this machine can reach does not start.
    mode: Annotated[str, Choice(("auto", "none", "keys", "jwt", "keys+jwt"))] = "auto"
    allow_anonymous: Switch = False  # with mode none: whoever can connect may ask, from wherever
    keys_file: Name = "penstock-keys.json"  # for `penstock serve`; gateways have their keys in Redis
    keys_url: Annotated[str, Url(empty=True)] = field(default="", repr=False)  # a postgresql:// URL instead
    jwt: Jwt = Jwt()


@dataclass(frozen=True, slots=True)
class Ledger:
    """A row for each request that was accepted."""

    url: Annotated[str, Url(empty=True)] = field(default="", repr=False)  # sqlite:///file, postgresql://…
    spool: Name = "penstock-ledger"  # folder where rows wait while the database is away
    spool_size: Bytes = 1024 * MIB
    retention: SpanOrNone = 0.0  # older rows are deleted; 0: kept for ever


SAMPLERS = (
    "always_on", "always_off", "traceidratio",
    "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tracing:
    """Traces for OpenTelemetry, whose own variables set these too (`otel`)."""

    # Where OTLP over HTTP is taken. Without a path it gets /v1/traces; empty: nothing is traced.
    endpoint: Annotated[str, Url(empty=True)] = field(default="", repr=False)
    headers: Annotated[Mapping[str, str], Headers()] = field(default_factory=dict, repr=False)
    sampler: Annotated[str, Choice(SAMPLERS)] = "parentbased_traceidratio"
    ratio: Annotated[float, Number(0, 1)] = 1.0  # the share of traces that begin here
    service: FreeText = ""  # the service's name; empty: penstock, and the role where there are several
    attributes: Annotated[Mapping[str, str], Labels()] = field(default_factory=dict)  # of the resource
    timeout: Span = 10.0  # of one request to the receiver
    compression: Annotated[str, Choice(("none", "gzip"))] = "none"
    delay: Span = 1.0  # a span waits so long for others
    together: Positive = 512  # spans in one request
    max_queue: Positive = 16_384  # spans that wait; beyond it they are dropped and counted
    max_links: Positive = 128  # of one span; a batch of more has several spans
    # The authority that signs for an https:// endpoint; empty: those that the system trusts.
    ca_file: FreeText = ""
    client_certificate: FreeText = ""
    client_key: FreeText = ""  # empty: it is in the same file


@dataclass(frozen=True, slots=True)
class Trace:
    """The record of arrivals, which `penstock sim`, `bench`, `plan` and `tune` replay."""

    record: FreeText = ""  # a file; empty: nothing is recorded
    limit: Bytes = 64 * MIB  # a full file loses its older half


RULES = ("predicted", "classic")  # names in `core.scaling.scaler.RULES`


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """How many workers there should be, and who sees to it: `penstock autoscaler` and `penstock up --autoscale`."""

    minimum: Annotated[int, Whole(0)] = 1  # workers; 0: all of them go while nobody asks
    maximum: Positive = 8
    rules: Annotated[str, Choice(RULES)] = "predicted"
    target: Annotated[float, Number(0, 1, above=True)] = 0.8  # the part of what a worker does that is used
    drain: Span = 10.0  # workers added for a backlog should work it off in this time
    fast: Span = 15.0  # the window in which a rise is noticed
    slow: Span = 60.0  # the window over which chance is averaged out
    cool_down: Span = 300.0  # after any change, before a worker is removed
    at_once: Annotated[float, Number(0, 1, above=True)] = 0.2  # the part of the workers removed in one step
    idle: Span = 600.0  # with `minimum` 0: without a request for this long, the last worker goes
    start: Span = 30.0  # how long a start is believed to take, until one was measured
    interval: Span = 1.0  # from one look to the next
    models: Annotated[tuple[str, ...], Ids()] = ()  # whose workers are counted; empty: those of all models
    act: Annotated[str, Choice(("tell", "kubernetes", "command"))] = "tell"
    deployment: FreeText = ""  # for Kubernetes: the Deployment of the workers
    namespace: FreeText = ""  # of the Deployment; empty: that of the autoscaler's own pod
    # The folder with the token of the pod's service account, and with the authority of the API.
    account: Name = "/var/run/secrets/kubernetes.io/serviceaccount"
    command: Annotated[str, Command()] = ""  # run at each change; {workers} stands for the number
    timeout: Span = 10.0  # of one call to Kubernetes, or of one run of the command


@dataclass(frozen=True, slots=True)
class Limits:
    """The bound of everything that could grow."""

    max_body: Bytes = 1 * MIB
    max_unfinished_bytes: Bytes = 256 * MIB  # of all requests that are still being received
    max_unsent_bytes: Bytes = 256 * MIB  # of all answers that clients have not read yet
    body_timeout: Span = 5.0
    header_timeout: Span = 5.0
    idle_timeout: Span = 75.0  # of a connection between two requests
    max_depth: Annotated[int, Whole(1, 512)] = 64  # of JSON; beyond 512 the decoder's own stack is at stake
    control_characters: Annotated[str, Choice(("refuse", "strip", "allow"))] = "refuse"
    count_refused: Switch = True  # a request that was read and refused counts against its sender's quota
    max_queue: Positive = 20_000  # requests of one model that wait
    max_queue_bytes: Bytes = 512 * MIB
    max_tasks: Positive = 100_000  # asynchronous results, pending and kept
    max_task_bytes: Bytes = 512 * MIB
    max_dead_letter_bytes: Bytes = 64 * MIB
    dead_letter_ttl: Span = 7 * 24 * 3600.0
    # The share of tasks, dead letters and idempotency keys that one tenant may hold.
    tenant_share: Annotated[float, Number(0, 1, above=True)] = 0.4
    result_ttl: Span = 600.0
    max_long_poll: SpanOrNone = 30.0
    max_asks: Positive = 1024  # of one call: as many inputs as a list of them may have
    max_stream_asks: Positive = 1024  # in flight on one WebSocket
    stream_idle_timeout: Span = 600.0  # of a WebSocket or a stream of gRPC on which nothing is asked
    max_lanes: Positive = 256
    max_cache_entries: Positive = 50_000  # answers of deterministic models that a gateway remembers
    max_cache_bytes: Bytes = 64 * MIB


@dataclass(frozen=True, slots=True)
class Idempotency:
    """What is remembered of requests with an Idempotency-Key."""

    ttl: Span = 24 * 3600.0
    max_keys: Positive = 100_000  # for `penstock serve`, pending and kept; gateways have theirs in Redis
    max_bytes: Bytes = 512 * MIB


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Who may be told how a task has ended."""

    allow: Annotated[tuple[str, ...], Origins()] = ()  # what may be called; empty: nobody is
    private: Annotated[tuple[str, ...], Ids()] = ()  # networks that may be called although they are private
    secret: Annotated[str, Secret()] = field(default="", repr=False)  # signs each message
    attempts: Annotated[int, Whole(1, 20)] = 8  # in all, the first included
    base: Span = 5.0
    max: Span = 600.0
    timeout: Span = 10.0  # of one attempt
    max_pending: Positive = 10_000  # promised, and neither delivered nor given up


@dataclass(frozen=True, slots=True)
class Files:
    """Files that clients send, and batches of their lines."""

    directory: FreeText = ""  # where they are kept; empty: none are taken
    max_file: Bytes = 64 * MIB  # of one that a client sends
    max_bytes: Bytes = 4096 * MIB  # of all, and of what batches have written
    max_files: Positive = 10_000
    max_lines: Positive = 50_000  # of one file
    max_batches: Positive = 1_000  # that are not over
    keep: Span = 30 * 24 * 3600.0  # after that a file is deleted
    window: Span = 24 * 3600.0  # in which a batch must be done
    in_flight: Annotated[int, Whole(1, 1024)] = 8  # requests of lines, for one model
    # The share of others' requests that lines may delay on a model's only worker.
    in_the_way: Annotated[float, Number(0, 1)] = 0.001


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a request may take: in all, in the queue, and on the worker."""

    timeout: Span = 4.0  # the next three follow from it, unless they are set
    queue: Follows = None  # until a request is first sent to a worker; None: half of the time-out
    processing: Follows = None  # of one batch; None: three quarters of the time-out
    request: Follows = None  # from arrival to answer; None: the time-out
    max_client: Span = 60.0  # the longest a client may ask for, and never less than `request`
    first_batch: Span = 120.0  # the first batch of a worker, which may load or compile; at least `processing`


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a failed batch is tried again, and when that stops."""

    attempts: Annotated[int, Whole(1, 100)] = 3  # in all, the first included
    base: SpanOrNone = 0.05
    max: SpanOrNone = 1.0
    budget_ratio: Annotated[float, Number(0, 1)] = 0.2  # retries for each request that is no retry
    # Retries beside those of the ratio, so that a quiet server may retry too.
    budget_per_second: Annotated[float, Number()] = 10.0
    breaker_failures: Positive = 5
    breaker_cooldown: Span = 2.0


@dataclass(frozen=True, slots=True)
class Level:
    """One tier: the lowest rank is served first, shares go by weight."""

    rank: Annotated[int, Whole(0)]
    weight: Annotated[float, Number(above=True)] = 1.0
    requests_per_minute: Annotated[int | None, Whole(1)] = None  # of each tenant; None: no limit
    burst: Annotated[int | None, Whole(1)] = None  # of the requests per minute, at once; None: all of them
    # Requests of each tenant, accepted and not yet answered.
    in_flight: Annotated[int | None, Whole(1)] = None
    queue_share: Annotated[float, Number(0, 1, above=True)] = 1.0  # of limits.max_queue, for all of the tier
    queue_timeout: Follows = None  # None: as the model or [timeouts] says
    request_timeout: Follows = None


def _usual_levels() -> dict[str, Level]:
    return {
        "enterprise": Level(0, 8.0),
        "paid": Level(1, 4.0),
        "free": Level(2, 1.0, requests_per_minute=1000),
    }


@dataclass(frozen=True, slots=True)
class Tiers:
    """Who is served before whom."""

    order: Annotated[str, Choice(("weighted", "strict"))] = "weighted"
    default: Name = "paid"  # of a tenant without a section of its own
    ageing: Span = 1.0
    # The next four hold only while several tiers are in use. `warning` and `critical` are meant for a capacity of
    # `reference_rps`, and grow and shrink with the real one.
    lowest_share: Annotated[float, Number(0, 1, above=True)] = 0.7  # of the capacity, for the lowest tier
    # How many may wait before the lowest tier is refused.
    warning: Annotated[float, Number(above=True)] = 100.0
    # How many may wait before all but the best tier are refused.
    critical: Annotated[float, Number(above=True)] = 500.0
    reference_rps: Annotated[float, Number(above=True)] = 320.0
    levels: Mapping[str, Level] = field(default_factory=_usual_levels)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant with a section of its own."""

    tier: Annotated[str | None, Text()] = None  # None: the default tier


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """The JSON a fixed HTTP endpoint takes and gives."""

    method: Annotated[str, Choice(("POST", "PUT", "PATCH"))] = "POST"
    request: Name = '{"inputs": $inputs, "parameters": $parameters?}'
    outputs: FreeText = "outputs"  # dotted path to the list; empty: the answer is the list
    item: FreeText = ""  # dotted path inside each output; empty: the output itself
    version: FreeText = ""  # of the model: a path in the answer, or header:NAME
    pressure: FreeText = ""  # how full it is: a path or header, in the answers to batches and to `health`
    health: FreeText = ""  # a path to GET when probing; empty: a connection that opens is proof enough
    headers: Annotated[Mapping[str, str], Headers()] = field(default_factory=dict, repr=False)
    max_response: Bytes = 64 * MIB
    # The authority that signs for an https:// endpoint; empty: those that the system trusts.
    ca_file: FreeText = ""
    client_certificate: FreeText = ""  # shown to an endpoint that asks for one
    client_key: FreeText = ""  # empty: it is in the same file
    server_name: FreeText = ""  # in its certificate; empty: the host of the URL
    verify: Switch = True  # if false, anybody could pose as the endpoint


@dataclass(frozen=True, slots=True)
class GrpcEndpoint:
    """The tensors a fixed gRPC endpoint takes and gives, and its certificates."""

    input_name: FreeText = ""  # empty: the model's only input
    output_name: FreeText = ""  # empty: the only output of the answer
    shape: Annotated[str, Choice(("auto", "[n]", "[n,1]"))] = "auto"  # auto: as the model describes itself
    version: FreeText = ""  # of the model to ask for; empty: the server's choice
    headers: Annotated[Mapping[str, str], Headers()] = field(default_factory=dict, repr=False)
    # The authority that signs for a grpcs:// endpoint; empty: those that gRPC trusts by itself.
    ca_file: FreeText = ""
    client_certificate: FreeText = ""
    client_key: FreeText = ""  # empty: it is in the certificate's file
    server_name: FreeText = ""  # the name in its certificate; empty: the host
    max_response: Bytes = 64 * MIB


@dataclass(frozen=True, slots=True)
class Model:
    """One model: what runs it, and how its batches are formed."""

    target: Annotated[str, Url()] = field(repr=False)
    workers: Annotated[int, Whole(1, 1024)] = 1
    max_batch: Annotated[int, Whole(1, LARGEST_BATCH)] = 64
    batch_sizes: Annotated[str | tuple[int, ...], BatchSizes()] = ANY  # a batch of another size is padded
    max_wait: SpanOrNone = 0.05
    policy: Annotated[str, Choice(POLICY_NAMES)] = "paced"
    input: Annotated[str, Choice(("auto", "text", "json"))] = "auto"
    output: Annotated[str, Choice(("auto", "text", "json"))] = "auto"
    cost: Annotated[str, Choice(("requests", "characters", "bytes", "tokens"), or_function=True)] = "requests"
    max_cost: Annotated[float | None, Number(above=True)] = None
    # What a batch costs: all its requests together, or as many times the dearest as it has rows.
    batch_cost: Annotated[str, Choice((SUM, PADDED))] = SUM
    group_lengths: Switch = False
    reserve: Annotated[int, Whole(0)] = 0  # workers kept for full batches
    version: FreeText = ""
    parameters: Annotated[str, Choice(("shared", "per_item"))] = "shared"
    deterministic: Switch = False  # equal inputs have equal outputs: identical requests are executed once
    # Who shares the kept answers of a deterministic model.
    cache: Annotated[str, Choice(("tenant", "shared", "off"))] = "tenant"
    cache_ttl: Span = 300.0
    # What a worker runs before it is ready. Empty: what the function's own `warmup` makes. None: nothing.
    warmup: Annotated[tuple[object, ...] | None, InputsOrNone()] = ()
    warm_when_idle: Switch = False  # sizes that no batch has had yet are run in idle moments
    memory_limit: Annotated[int | None, Size()] = None
    start_timeout: Span = 120.0
    health_interval: Span = 5.0
    gpus: Annotated[tuple[str, ...], Ids()] = ()  # given to the workers in turn
    default: Switch = False  # requests that name no model mean this one
    respond: Annotated[str | None, Choice(("sync", "async"))] = None  # None: as [api] says
    timeout: Follows = None  # the next three follow from it, unless they are set; None: as [timeouts] says
    queue_timeout: Follows = None
    processing_timeout: Follows = None
    request_timeout: Follows = None
    first_batch_timeout: Follows = None
    # The latency that 99 % of its requests are meant to keep. None: its request limit. Alerts go by it.
    objective: Follows = None
    http: HttpEndpoint = HttpEndpoint()
    grpc: GrpcEndpoint = GrpcEndpoint()

    @property
    def protocol(self) -> str:
        """How the target is reached: `http` or `grpc`, with or without TLS; empty if it is no URL."""
        scheme, found, _ = self.target.partition("://")
        return ("grpc" if scheme in ("grpc", "grpcs") else "http") if found else ""

    @property
    def is_described(self) -> bool:
        """Whether its target is an HTTP endpoint whose JSON the configuration describes."""
        return self.target.startswith(("http://", "https://"))

    @property
    def input_kind(self) -> str:
        """What a client may send: `text` alone, or any `json`. An endpoint of a kind that is known takes texts
        unless json is said."""
        if self.input == "auto":
            return "text" if self.protocol and not self.is_described else "json"
        return self.input

    @property
    def is_function(self) -> bool:
        return not self.protocol and not self.target.startswith("sim:")
