"""The vocabulary: what a request, a batch and a reply are, everywhere in Penstock. Every room imports this.

Times are seconds on one monotonic clock; callers hand them in, and nothing here reads a clock. Inputs are bytes as
the door made them (`penstock.payload`), and are decoded only where their value is needed. Objects that are made for
each request are Structs, which are made three times as fast as dataclasses.
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

    FULL = "full"  # the batch held as many requests as one batch may
    DUE = "due"  # its turn came: by the pace, or because its oldest request had waited as long as it may
    IDLE = "idle"  # workers were plentiful, and waiting would have bought nothing
    DEADLINE = "deadline"  # otherwise a member would have missed its deadline
    COST = "cost"  # the batch held as much cost as one batch may
    DRAIN = "drain"  # the server was about to end


REASONS = {each.value: each for each in Reason}


class Outcome(StrEnum):
    """How a request ended. Each accepted request gets exactly one."""

    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"


class Attempt(Struct, frozen=True):
    """One execution that failed, in the history of each member of its batch."""

    when: Seconds  # on the batcher's clock; in a dead letter, seconds since the epoch
    code: str
    message: str
    details: str  # empty unless the request was alone in its batch
    worker: str
    batch_size: int
    splittable: bool  # whether one member may have been to blame


class Request(Struct, eq=False):
    """A request on its way to a worker: what every stage needs to know of it.

    A stage that needs to know more has a subclass: `Accepted`, `core.queued.Queued`,
    `runtime.collapse.passenger.Passenger`. In one process all stages have the same object.
    """

    key: str  # Penstock's own name for the request, unique for ever; replies are matched by it
    model: str
    input: bytes  # the input as the door made it (`penstock.payload`): mostly JSON
    arrival: Seconds
    expires: Seconds  # by then it must have gone to a worker
    deadline: Seconds  # by then it must be answered
    request_id: str = ""  # the id that its asker gave it, or the key
    parameters: bytes = b""  # canonical JSON; requests share a batch only if these are equal
    tenant: str = ""
    tier: int = 0  # the rank of its tier; 0 is served first
    cost: float = 1.0
    length: int = 0  # bytes of its input
    traceparent: str | None = None
    tracestate: str | None = None
    task: bool = False  # whether its result is stored, to be fetched later
    background: bool = False  # whether it only fills workers that would idle; it tells nothing of the demand


class Accepted(Request, eq=False):
    """A request that a gateway has let in, and owes an answer."""

    # The tenant's account at that gateway, which is told when the request is over. None: nothing is limited.
    account: Account | None = None
    gateway: str = ""  # the mailbox for its answer, at a batcher in another process
    shard: int | None = None  # the shard that its gateway has sent it to, if batchers are other processes
    history: tuple[Attempt, ...] = ()  # how each batch that it was in failed, the last one last
    door: str = ""  # the name of the door that it came by; empty at a batcher in another process


def has_own_limit(request: Request) -> bool:
    """Whether the client set a time limit of its own. That replaces both limits, so these are equal then."""
    return request.expires == request.deadline


# Who asks, in the gateway's terms: the tenant, the rank of its tier, and its account if it has limits.
Standing = tuple[str, int, Account | None]


@dataclass(slots=True)
class Identity:
    """Who asks, as an API key or a token proved it."""

    tenant: str
    tier: str  # a name that this server knows
    key_id: str  # names the API key, or the key that signed the token: fit for logs, not a secret
    expires: float = inf  # seconds since the epoch
    # Who asks in the gateway's terms, once the gateway has found it out.
    standing: Standing | None = field(default=None, compare=False, repr=False)


class Ask(Struct, eq=False):
    """What one asker wants, read and checked, not yet accepted. Doors make it."""

    input: bytes  # the input as the door made it (`penstock.payload`): mostly JSON
    model: str | None = None  # None: the server's default model
    parameters: bytes = b""  # canonical JSON
    client_id: str | None = None  # names the tenant, if nobody is asked who they are
    timeout: Seconds | None = None  # None: the time limits of the model
    request_id: str | None = None  # None: Penstock's own key is used
    traceparent: str | None = None
    tracestate: str | None = None
    identity: Identity | None = None  # None: nobody is asked who they are
    callback: str | None = None  # where its asker wants to be told how it ended, if it becomes a task
    background: bool = False  # whether it goes in the last tier, whatever its sender's
    door: str = ""  # the name of the door that it came by


class Traced(Struct, eq=False):
    """To which trace a batch belongs. Whoever traces it has a subclass, with what only the tracer needs to know."""

    traceparent: str  # the traceparent that is handed on with the batch
    tracestate: str | None  # the tracestate of the member whose trace it is
    # The status with which the batch's endpoint answered, as its protocol has it; None: there was no answer yet.
    # The backend writes it here, since nobody but a tracer asks for it.
    status: int | None = None


@dataclass(slots=True, eq=False)
class Batch:
    """Requests that go to one worker together."""

    id: int
    model: str
    parameters: bytes
    requests: Sequence[Request]
    reason: Reason
    sealed: Seconds
    retry: bool = False  # whether its requests have been in a batch that failed, or was not begun
    sent: Seconds = 0.0  # when it began on its worker
    limit: Seconds = 0.0  # how long it may run until its worker counts as hung; 0: what the worker allows
    ahead: bool = False  # whether its worker was handed it while it ran another
    attempt: int = 1  # in how many batches the most often executed member has been, this one included
    traced: Traced | None = None  # None: nobody records its trace
    crossed: bool = False  # whether its worker is in another zone than its batcher

    @property
    def size(self) -> int:
        return len(self.requests)


@dataclass(slots=True, frozen=True)
class Failure:
    """Why a request or a batch failed, in words fit for the asker."""

    code: str  # an error code of `penstock.errors`
    message: str
    details: str = ""  # may quote an input: told to the asker only if it was alone in its batch
    splittable: bool = False  # whether one member may be to blame, so that parts of the batch are tried
    retry_after: Seconds | None = None  # after which time it may be tried again, if that is known
    # If it was refused for want of time: how many seconds it needed, and how many it had.
    needed: Seconds | None = None
    had: Seconds | None = None

    @classmethod
    def of(cls, error: PenstockError, *, details: str = "") -> "Failure":
        """The failure that an error means. `details`: those of the error, if the asker may see them."""
        return cls(
            error.code, error.message, details, error.splittable, error.retry_after, error.needed, error.had
        )


@dataclass(slots=True, eq=False)
class Execution:
    """What all members of an executed batch have in common."""

    worker: WorkerId
    batch_id: int
    batch_size: int
    started: Seconds
    seconds: Seconds  # how long the worker took
    version: str = ""  # the version of the model
    # The part of an answer that all members share, as a door wrote it for the first of them.
    rendered: tuple[str, str] | None = None
    cached: bool = False  # whether nothing was run for this answer
    counted: bool = True  # False: the metrics counted it before, for another request or at another time
    sealed: Seconds | None = None  # None: another process sealed the batch, and has not said when
    sent: Seconds | None = None  # None: another process sent the batch, and has not said when
    padding: int = 0  # inputs that were repeated to fill the batch, beyond the requests that it is made of
    reason: Reason | None = None  # why it was sent; None: another process sealed the batch, and has not said

    @property
    def ended(self) -> Seconds:
        return self.started + self.seconds


class Reply(Struct, eq=False):
    """The one outcome of one request, on its way back."""

    request: Accepted
    outcome: Outcome
    output: bytes = b""  # JSON, if the outcome is SUCCESS; a note may follow it (`penstock.output`)
    failure: Failure | None = None  # set if the outcome is another
    execution: Execution | None = None


class GivenUp(Reply, eq=False):
    """The reply to a request that was executed, and failed for good."""

    executions: int = 0  # how many batches it has been in that failed
    history: tuple[Attempt, ...] = ()  # how each of these batches failed, the last one last


class Refusal(NamedTuple):
    """A request that was never accepted. What is not known of it is empty."""

    model: str
    code: str
    request_id: str
    tenant: str
    when: Seconds
    failure: Failure | None = None  # what its asker was told
    door: str = ""  # the name of the door that it came to


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
    delivered: int = 0  # how many outputs the worker has sent to the askers itself; then `outputs` is empty
    # How many inputs the backend was given, if that is not one for each request (equal ones may be left out, and a
    # batch may be padded); otherwise 0.
    executed: int = 0
    padding: int = 0  # how many inputs were repeated to fill the batch; their outputs are thrown away
    held_up: float = 0.0  # seconds of its time that the worker did not cause, and that are not learned from
    pressure: float = 0.0  # 0 to 1: how full the backend says it is; 0 where it says nothing
    # Inputs that have no output, by position. They are not tried again.
    failures: Mapping[int, Failure] | None = None

    @property
    def size(self) -> int:
        return self.delivered or len(self.outputs)


@dataclass(slots=True, frozen=True)
class Rung:
    """One size of batch that a worker was warmed up with."""

    size: int
    first: Seconds  # the first run of this size on the worker, which may have taken much longer
    again: tuple[Seconds, ...]  # the runs after it


@dataclass(slots=True, frozen=True)
class WarmUp:
    """What came of warming a worker up."""

    rungs: tuple[Rung, ...] = ()
    too_large: int | None = None  # the size that did not fit into memory, if there was one
    length: int = 0  # bytes of the longest input
    real: bool = False  # whether the input came from a client


@dataclass(slots=True, eq=False)
class DeadLetter:
    """A request that spent all its attempts, kept with its error so that people can send it again."""

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
    id: str = ""  # the letter's own id
    when: float = 0.0  # when the letter was made, in seconds since the epoch
