"""The vocabulary: what a request, a batch and a reply are, everywhere in Penstock.

Times are seconds on one monotonic clock, always handed in, never read here.
Payloads are the JSON bytes as they came from the socket: whoever needs the value decodes it, once.
What is made for each request is a Struct: it is made three times as fast as a dataclass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import NamedTuple, NewType

from msgspec import Struct

from penstock.errors import PenstockError
from penstock.quota import Account

Seconds = float
WorkerId = NewType("WorkerId", str)


class Reason(StrEnum):
    """Why a batch was sent."""

    FULL = "full"  # it held as many requests as one batch may
    DUE = "due"  # its turn came: the pace, or the longest wait
    IDLE = "idle"  # workers are plentiful, waiting would buy nothing
    DEADLINE = "deadline"  # a member would have missed its deadline
    COST = "cost"  # it held as much cost as one batch may
    DRAIN = "drain"  # the server is going away


class Outcome(StrEnum):
    """How a request ended. Each accepted request gets exactly one."""

    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


class Attempt(Struct, frozen=True):
    """One execution that failed; its members share it."""

    when: Seconds  # on the clock of who notes it; seconds since the epoch once it is in a dead letter
    code: str
    message: str
    details: str  # only of a request that was alone
    worker: str
    batch_size: int
    splittable: bool  # a member may have been to blame


class Request(Struct, eq=False):
    """One asker's question on its way to a worker: what every stage needs to know of it.

    A stage that needs more has a kind of its own: `Accepted`, `core.queued.Queued`, `runtime.collapse.passenger`.
    In one process all of them are one and the same object.
    """

    key: str  # ours, unique for ever; replies are matched by it
    model: str
    input: bytes  # JSON
    arrival: Seconds
    expires: Seconds  # must have started by then
    deadline: Seconds  # must be answered by then
    request_id: str = ""  # the asker's own, or the key
    parameters: bytes = b""  # canonical JSON; requests share a batch only if these are equal
    tenant: str = ""
    tier: int = 0  # 0 is served first
    cost: float = 1.0
    length: int = 0
    traceparent: str | None = None
    tracestate: str | None = None
    task: bool = False  # its result is stored for whoever fetches it


class Accepted(Request, eq=False):
    """A request that a gateway has let in, and owes an answer."""

    account: Account | None = None  # of its tenant at that gateway: it is released when it is answered
    gateway: str = ""  # the mailbox for its answer, at a batcher in another process
    shard: int | None = None  # where its gateway has sent it, if batchers are other processes


def has_own_limit(request: Request) -> bool:
    """Whether its client set its time limit: that replaces both, so they are alike."""
    return request.expires == request.deadline


# Who asks, in the terms of the gateway: the tenant, the rank of its tier, and its account if anything limits it.
Standing = tuple[str, int, Account | None]


@dataclass(slots=True)
class Identity:
    """Who asks, once that is proved."""

    tenant: str
    tier: str  # a name that this server knows
    key_id: str  # of the API key, or of the key that signed the token: fit for logs, not a secret
    expires: float = inf  # seconds since the epoch
    # Set once its gateway has found it out.
    standing: Standing | None = field(default=None, compare=False, repr=False)


class Ask(Struct, eq=False):
    """What one asker wants, clean and understood, not yet accepted."""

    input: bytes  # JSON
    model: str | None = None
    parameters: bytes = b""  # canonical JSON
    client_id: str | None = None
    timeout: Seconds | None = None
    request_id: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    identity: Identity | None = None  # None: nobody is asked who they are


@dataclass(slots=True, eq=False)
class Batch:
    """Requests that go to one worker together."""

    id: int
    model: str
    parameters: bytes
    requests: Sequence[Request]
    reason: Reason
    sealed: Seconds
    retry: bool = False
    sent: Seconds = 0.0  # when it began on its worker, the last time
    limit: Seconds = 0.0  # how long it may run until its worker counts as hung; 0: what the worker allows
    ahead: bool = False  # whether its worker was handed it while it ran another

    @property
    def size(self) -> int:
        return len(self.requests)


@dataclass(slots=True, frozen=True)
class Failure:
    """Why a request or a batch failed, in words fit for the asker."""

    code: str  # an error code of `penstock.errors`
    message: str
    details: str = ""  # may quote an input: told to the asker only if it was alone in its batch
    splittable: bool = False  # one member may be to blame: try the halves
    retry_after: Seconds | None = None

    @classmethod
    def of(cls, error: PenstockError, *, details: str = "") -> "Failure":
        """`details`: those of the error, where its asker may see them."""
        return cls(error.code, error.message, details, error.splittable, error.retry_after)


@dataclass(slots=True, eq=False)
class Execution:
    """What all members of an executed batch have in common."""

    worker: WorkerId
    batch_id: int
    batch_size: int
    started: Seconds
    seconds: Seconds  # on the worker
    version: str = ""
    rendered: tuple[str, str] | None = (
        None  # the part of an answer that all members share, as a door wrote it once
    )
    cached: bool = False  # nothing ran for this answer
    counted: bool = True  # False: it is in the figures already, under another's request or from another day
    sealed: Seconds | None = None  # None: another process sealed the batch, and has not said when
    sent: Seconds | None = None  # None: another process sent the batch, and has not said when
    padding: int = 0  # inputs that were repeated to fill the batch, beyond the requests that it is made of

    @property
    def ended(self) -> Seconds:
        return self.started + self.seconds


class Reply(Struct, eq=False):
    """The one outcome of one request, on its way back."""

    request: Accepted
    outcome: Outcome
    output: bytes = b""  # JSON, when SUCCESS; a note may follow it (`penstock.output`)
    failure: Failure | None = None  # when not
    execution: Execution | None = None


class GivenUp(Reply, eq=False):
    """Of a request that was executed, and failed for good."""

    executions: int = 0  # how many batches it has been in that failed
    history: tuple[Attempt, ...] = ()  # how each of these batches failed, the last one last


class Refusal(NamedTuple):
    """A request that was never accepted. What is not known of it is empty."""

    model: str
    code: str
    request_id: str
    tenant: str
    when: Seconds


class TaskStatus(StrEnum):
    """Where an asynchronous request stands."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


@dataclass(slots=True, eq=False)
class Result:
    """What a backend made of one batch."""

    outputs: list[bytes] = field(default_factory=list)  # one for each input, in order, as `Reply.output`
    version: str = ""
    delivered: int = 0  # outputs the worker has sent to the askers itself; then none are here
    # Inputs that the backend was given, where they were not one for each request: repeated ones are left out, and
    # a batch may be padded. Else 0.
    executed: int = 0
    padding: int = 0  # how many of these were repeated to fill the batch: their outputs are nobody's
    held_up: float = 0.0  # seconds it was under way for no fault of the worker's, which tell nothing of it
    pressure: float = 0.0  # 0 to 1: how full the backend says it is; 0 where it says nothing
    failures: Mapping[int, Failure] | None = (
        None  # inputs that have no output, by position; never tried again
    )

    @property
    def size(self) -> int:
        return self.delivered or len(self.outputs)


@dataclass(slots=True, frozen=True)
class Rung:
    """One size of batch that a worker was warmed up with."""

    size: int
    first: Seconds  # the first run of this size on the worker, which may have been dear
    again: tuple[Seconds, ...]  # the runs after it


@dataclass(slots=True, frozen=True)
class WarmUp:
    """What came of warming a worker up."""

    rungs: tuple[Rung, ...] = ()
    too_large: int | None = None  # the size that did not fit into memory, if one did not
    length: int = 0  # of the input
    real: bool = False  # the input came from a client


@dataclass(slots=True, eq=False)
class DeadLetter:
    """A request that spent all its attempts, kept for people to look at."""

    key: str
    request_id: str
    model: str
    tenant: str
    tier: int
    attempts: int
    code: str
    message: str
    details: str
    input: bytes
    parameters: bytes
    cost: float
    task: bool
    history: list[Attempt] = field(default_factory=list)  # every attempt, the last one last
    id: str = ""  # of the letter
    when: float = 0.0  # seconds since the epoch
