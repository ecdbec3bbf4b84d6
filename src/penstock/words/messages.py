"""Messages between processes: to the mailbox of one, or into the record of a task. `cluster` writes and reads them;
the adapters to a bus write `Notice` and `Departed`.

Structs are written as lists and not as maps: that takes half the bytes, and no field names have to be written. A
field may be added at the end of a list, with a default: older readers skip it. No message holds a time of day.
"""

from collections.abc import Sequence

from msgspec import DecodeError, Struct, msgpack

from penstock.types import (
    Accepted,
    Attempt,
    Batch,
    Execution,
    Failure,
    Outcome,
    Request,
    TaskStatus,
    Traced,
    WorkerId,
)
from penstock.words.basics import VERSION, Amount, Count, Finite, Garbled, content

# ---- in several messages ---------------------------------------------------------------------------------


class Tried(Struct, array_like=True, gc=False):
    """An earlier batch of a request that failed. Its details are not told: they are in the dead letter."""

    ago: Amount  # seconds from its failure until the next batch was sealed; in an `Ending`, until that was made
    code: str
    message: str
    worker: str
    batch_size: Count

    def attempt(self, since: float) -> Attempt:
        """The attempt on another clock. `since`: the time on that clock from which `ago` counts."""
        return Attempt(
            since - self.ago, self.code, self.message, "", self.worker, self.batch_size, splittable=False
        )


def tried_of(history: Sequence[Attempt], now: float) -> list[Tried]:
    """A request's history as it is told: its times are counted back from `now`."""
    return [
        Tried(max(0.0, now - each.when), each.code, each.message, each.worker, each.batch_size)
        for each in history
    ]


# ---- to the mailbox of a worker --------------------------------------------------------------------------


class Member(Struct, array_like=True, gc=False):
    """One request of a batch: as much of it as a worker needs."""

    key: str
    gateway: str
    input: bytes
    task: str  # the task's name; empty if somebody holds a connection open for the request
    tenant: str = ""
    request_id: str = ""  # the asker's own id; empty where it has none but the key
    traceparent: str | None = None
    tracestate: str | None = None

    def request(self, model: str, now: float) -> Request:
        """The request as the worker's slot has it. It has no deadline there: the batcher watches that."""
        return Request(
            self.key, model, self.input, now, now, now, self.request_id or self.key, tenant=self.tenant,
            traceparent=self.traceparent, tracestate=self.tracestate,
        )  # fmt: skip


class Dispatch(Struct, array_like=True, tag="d"):
    """A batch for one slot."""

    batch_id: int
    batcher: str
    slot: str
    model: str
    parameters: bytes
    members: list[Member]
    limit: Amount = 0.0  # seconds that the batch may run; 0: as long as the worker allows
    ahead: bool = False  # whether the slot was handed it while it ran another, without standing in the line
    traceparent: str = ""  # the traceparent of the batch; empty where the batcher does not trace it
    tracestate: str = ""
    reason: str = ""  # why the batch was sent; empty where an older batcher does not say
    waited: Amount = 0.0  # seconds from when the batch was sealed until it was sent
    earlier: list[Tried] = []  # how earlier batches of its members failed, the last one last

    @property
    def traced(self) -> Traced | None:
        return Traced(self.traceparent, self.tracestate or None) if self.traceparent else None


# ---- to the mailbox of a gateway -------------------------------------------------------------------------


class Answers(Struct, array_like=True, tag="a"):
    """The outputs of one batch for the askers of one gateway; keys and outputs in the same order."""

    keys: list[str]
    outputs: list[bytes]
    worker: str
    batch_id: int
    batch_size: Count
    seconds: Amount
    version: str
    reason: str = ""  # why the batch was sent, as in `Dispatch`
    waited: Amount = 0.0  # seconds from when the batch was sealed until it began
    earlier: list[Tried] = []  # how earlier batches of its members failed, as in `Dispatch`


class Ending(Struct, array_like=True):
    """One failure, and the keys of all requests that share it."""

    keys: list[str]
    outcome: Outcome
    code: str
    message: str
    details: str
    retry_after: Amount | None
    earlier: list[Tried] = []  # how all batches of these requests failed, the last one last
    # If they were refused for want of time: how many seconds they needed, and how many they had.
    needed: Finite | None = None
    had: Finite | None = None

    @classmethod
    def of(cls, keys: list[str], outcome: Outcome, failure: Failure, earlier: list[Tried]) -> "Ending":
        return cls(
            keys, outcome, failure.code, failure.message, failure.details, failure.retry_after, earlier,
            failure.needed, failure.had,
        )  # fmt: skip

    @property
    def failure(self) -> Failure:
        return Failure(
            self.code,
            self.message,
            self.details,
            retry_after=self.retry_after,
            needed=self.needed,
            had=self.had,
        )


class Failed(Struct, array_like=True, tag="f"):
    """The endings of requests that a batcher refused, expired, gave up or cancelled."""

    endings: list[Ending]


class Notice(Struct, array_like=True, tag="t", gc=False):
    """A task is over, for which an asker at this gateway waits, or which this gateway counts as in flight."""

    task: str  # the task's name
    status: TaskStatus
    code: str = ""  # the error code of its failure; empty where it succeeded


class Question(Struct, array_like=True, tag="q", gc=False):
    """Another gateway asks what became of a request, or which were the slowest."""

    gateway: str  # the mailbox of the gateway that asks
    request_id: str
    slowest: Count = 0  # how many of the slowest are asked for; then `request_id` is only given back
    model: str = ""  # the model whose slowest requests are asked for; empty: all models


class Told(Struct, array_like=True, tag="o", gc=False):
    """What a gateway knows of what it was asked about."""

    gateway: str  # the gateway that says so
    request_id: str  # the `request_id` of the question
    # JSON: a request, or a list of the slowest, as the admin plane shows them. The process that asked passes it on
    # and goes by nothing in it, so its form has no version. Empty if the gateway knows nothing.
    found: bytes = b""


# ---- to the mailbox of a batcher -------------------------------------------------------------------------


class ItemFailure(Struct, array_like=True, gc=False):
    """The failure of one member of a batch, while others have outputs."""

    place: Count  # the member's position in the batch, from 0
    code: str
    message: str
    details: str


class Finished(Struct, array_like=True, tag="x"):
    """A slot is done with its batch; the outputs went straight to the gateways. The batcher tells the askers of
    `failed`."""

    slot: str
    batch_id: int
    count: Count  # how many outputs there are; 0 with a failure
    seconds: Amount
    version: str
    code: str = ""  # the error code of the failure; empty if the batch succeeded
    message: str = ""
    details: str = ""
    splittable: bool = False
    executed: Count = 0  # inputs that the backend was given, if that is not one for each member; otherwise 0
    failed: list[ItemFailure] = []
    padding: Count = 0  # inputs that were repeated to fill the batch; `executed` counts them
    retry_after: Amount | None = None  # how long a busy endpoint wants no batch, in seconds
    pressure: Amount = 0.0  # how full the backend says it is, as `Result.pressure`

    @property
    def failure(self) -> Failure | None:
        if not self.code:
            return None
        return Failure(self.code, self.message, self.details, self.splittable, self.retry_after)

    @property
    def failures(self) -> dict[int, Failure]:
        return {each.place: Failure(each.code, each.message, each.details) for each in self.failed}


# ---- to the mailbox of everybody ---------------------------------------------------------------------------


class Look(Struct, array_like=True, tag="l", gc=False):
    """Somebody looks at the installation by way of another process, which asks how this one stands."""

    asker: str  # the mailbox of the process that asks
    number: Count  # tells this look from others of the same process
    hour: bool = False  # whether the last hour is asked for too


class Seen(Struct, array_like=True, tag="s", gc=False):
    """How a process stands, for the one that asked."""

    name: str  # the process that says so
    number: Count  # the `number` of the `Look`
    report: bytes = b""  # MessagePack of an `overview.reports.Report`


class Departed(Struct, array_like=True, tag="g", gc=False):
    """A process has died, as its supervisor saw."""

    kind: str  # the kind of process, as in the registry
    name: str


# ---- in the record of a task -----------------------------------------------------------------------------


class Executed(Struct, array_like=True):
    """What the members of a batch have in common in the records of their tasks."""

    worker: str = ""
    batch_id: int = 0
    batch_size: int = 1
    seconds: float = 0.0
    version: str = ""


MemberRow = tuple[str | bytes, ...]  # a `Member`, as it is written
Message = Dispatch | Answers | Failed | Notice | Finished | Question | Told | Look | Seen | Departed

_encode = msgpack.Encoder().encode
_message = msgpack.Decoder(Message).decode
_executed = msgpack.Decoder(Executed).decode


def encode(message: Message) -> bytes:
    return VERSION + _encode(message)


def member_of(request: Accepted, task: str) -> MemberRow:
    """A member as a row in the order of `Member`. Empty fields at the end are left out. A tracestate without a
    traceparent is left out too."""
    row = (request.key, request.gateway, request.input, task, request.tenant)
    request_id = "" if request.request_id == request.key else request.request_id
    if request.traceparent is not None:
        trace = (request.traceparent, request.tracestate) if request.tracestate else (request.traceparent,)
        return (*row, request_id, *trace)
    return (*row, request_id) if request_id else row


def encode_dispatch(
    batch: Batch, batcher: str, slot: str, members: Sequence[MemberRow], history: Sequence[Attempt] = ()
) -> bytes:
    """The bytes of a `Dispatch`, whose members may have fewer fields than `Member`. `history`: how earlier batches
    of the members failed."""
    traced = batch.traced
    row: tuple[object, ...] = (
        "d", batch.id, batcher, slot, batch.model, batch.parameters, members, batch.limit, batch.ahead,
        traced.traceparent if traced else "", (traced and traced.tracestate) or "", batch.reason,
        max(0.0, batch.sent - batch.sealed),
    )  # fmt: skip
    if history:
        row = (*row, tried_of(history, batch.sealed))
    return VERSION + _encode(row)


def decode(body: bytes) -> Message:
    """Read a message. Raises Garbled."""
    try:
        message: Message = _message(content(body))
    except (DecodeError, UnicodeDecodeError) as error:
        raise Garbled(f"a message that cannot be read: {error}") from None
    if type(message) is Answers and len(message.keys) != len(message.outputs):
        raise Garbled("answers and keys differ in number")
    return message


def encode_execution(worker: str, batch_id: int, batch_size: int, seconds: float, version: str) -> bytes:
    return VERSION + _encode(Executed(worker, batch_id, batch_size, seconds, version))


def decode_execution(body: bytes) -> Execution:
    """The execution in a task's record. When it started is not known, since each process has a clock of its own. If
    the record cannot be read, the execution is empty."""
    try:
        said = _executed(content(body))
    except (DecodeError, UnicodeDecodeError, Garbled):
        said = Executed()
    return Execution(WorkerId(said.worker), said.batch_id, said.batch_size, 0.0, said.seconds, said.version)


def task_name(tenant: str, task_id: str) -> str:
    """The name of a task among processes. It has the tenant in it, because two tenants may choose the same id. An
    id has no slash in it."""
    return f"{tenant}/{task_id}"
