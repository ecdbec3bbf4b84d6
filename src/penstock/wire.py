"""What the processes say to each other, as bytes: a byte for the version, then MessagePack.

Lists and not maps: half the bytes, and no field names to spell a thousand times a second. A field may be
added at the end of a list without a new version: older readers skip it, newer ones have its default.
No message holds a time of the day. What is left of a limit travels as seconds left, and `sent` is the
sender's own monotonic clock, which means something only beside its other messages (`offsets.Offsets`).
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from msgspec import DecodeError, Meta, Raw, Struct, msgpack

from penstock.types import Execution, Failure, Outcome, Request, TaskStatus, WorkerId

VERSION = b"\x01"

# Numbers that a queue can be ordered by: what is not a number, or endless, is as unreadable as a broken list.
Finite = Annotated[float, Meta(ge=-1e12, le=1e12)]
Amount = Annotated[float, Meta(ge=0.0, le=1e12)]
Count = Annotated[int, Meta(ge=0)]


class Garbled(Exception):
    """Bytes that are not a message of ours, or of a version that we do not speak: log and skip."""


# ---- from a gateway to the batcher of a shard ------------------------------------------------------------


class WireRequest(Struct, array_like=True, gc=False):
    key: str
    model: str
    input: bytes
    parameters: bytes
    tenant: str
    tier: int
    cost: Amount
    length: Count
    request_id: str
    traceparent: str | None
    expires_in: Finite
    deadline_in: Finite
    task: bool


class Envelope(Struct, array_like=True):
    """What one gateway had to say at one moment."""

    gateway: str  # its mailbox
    sent: Finite
    requests: list[WireRequest]
    withdrawn: list[str]  # keys


class Salvaged(Struct):
    """What can be read of an envelope that cannot be read as a whole."""

    envelope: Envelope
    unreadable: list[str]  # keys of requests that cannot be, and whose askers wait all the same


class _RawEnvelope(Struct, array_like=True):
    gateway: str
    sent: Finite
    requests: list[Raw]
    withdrawn: list[Any] = []


# ---- to the mailbox of a worker --------------------------------------------------------------------------


class Member(Struct, array_like=True, gc=False):
    """One request of a batch: as much of it as a worker needs."""

    key: str
    gateway: str
    input: bytes
    task: str  # its name; "" if somebody holds a connection open for it
    tenant: str = ""


class Dispatch(Struct, array_like=True, tag="d"):
    batch_id: int
    batcher: str
    slot: str
    model: str
    parameters: bytes
    members: list[Member]
    limit: Amount = 0.0  # seconds it may run; 0: as long as the worker allows


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


class Ending(Struct, array_like=True):
    """One failure, and all who share it."""

    keys: list[str]
    outcome: Outcome
    code: str
    message: str
    details: str
    retry_after: Amount | None

    @property
    def failure(self) -> Failure:
        return Failure(self.code, self.message, self.details, retry_after=self.retry_after)


class Failed(Struct, array_like=True, tag="f"):
    """Refused, expired, given up or cancelled by a batcher."""

    endings: list[Ending]


class Notice(Struct, array_like=True, tag="t", gc=False):
    """A task that somebody at this gateway waits for, or that counts here, is over."""

    task: str  # its name
    status: TaskStatus
    code: str = ""  # of its failure


class Question(Struct, array_like=True, tag="q", gc=False):
    """Somebody at another gateway wants to know what became of a request."""

    gateway: str  # its mailbox
    request_id: str


class Told(Struct, array_like=True, tag="o", gc=False):
    """What a gateway knows of it."""

    gateway: str  # that says so
    request_id: str
    found: bytes = b""  # JSON; empty: nothing


# ---- to the mailbox of a batcher -------------------------------------------------------------------------


class ItemFailure(Struct, array_like=True, gc=False):
    """One member of a batch that was executed, and has no output."""

    place: Count  # in the batch
    code: str
    message: str
    details: str


class Finished(Struct, array_like=True, tag="x"):
    """A slot has done its batch; its outputs went straight to the gateways. `failed` are left to the batcher."""

    slot: str
    batch_id: int
    count: Count  # of outputs; 0 with a failure
    seconds: Amount
    version: str
    code: str = ""  # of the failure; "": it succeeded
    message: str = ""
    details: str = ""
    splittable: bool = False
    executed: Count = 0  # inputs that the backend was given, where it was spared the repeated ones
    failed: list[ItemFailure] = []

    @property
    def failure(self) -> Failure | None:
        return Failure(self.code, self.message, self.details, self.splittable) if self.code else None

    @property
    def failures(self) -> dict[int, Failure]:
        return {each.place: Failure(each.code, each.message, each.details) for each in self.failed}


# ---- to the mailbox of everybody ---------------------------------------------------------------------------


class Departed(Struct, array_like=True, tag="g", gc=False):
    """A process has died: whoever started it has seen it."""

    kind: str  # as in the registry
    name: str


# ---- in the record of a task -----------------------------------------------------------------------------


class Executed(Struct, array_like=True):
    """What the members of its batch had in common."""

    worker: str = ""
    batch_id: int = 0
    batch_size: int = 1
    seconds: float = 0.0
    version: str = ""


Message = Dispatch | Answers | Failed | Notice | Finished | Question | Told | Departed

_encode = msgpack.Encoder().encode
_envelope = msgpack.Decoder(Envelope).decode
_raw_envelope = msgpack.Decoder(_RawEnvelope).decode
_wire_request = msgpack.Decoder(WireRequest).decode
_anything = msgpack.Decoder().decode
_message = msgpack.Decoder(Message).decode
_executed = msgpack.Decoder(Executed).decode


def encode_envelope(gateway: str, requests: Iterable[Request], withdrawn: Sequence[str], now: float) -> bytes:
    """Plain tuples in the order of `WireRequest`: this runs for every request there is."""
    rows = [
        (
            r.key, r.model, r.input, r.parameters, r.tenant, r.tier, r.cost, r.length, r.request_id,
            r.traceparent, r.expires - now, r.deadline - now, r.task,
        )
        for r in requests
    ]  # fmt: skip
    return VERSION + _encode((gateway, now, rows, withdrawn))


def decode_envelope(body: bytes) -> Envelope:
    try:
        return _envelope(_content(body))
    except (DecodeError, UnicodeDecodeError) as error:  # what it says may quote a value, but never an input
        raise Garbled(f"an envelope that cannot be read: {error}") from None


def salvage_envelope(body: bytes) -> Salvaged:
    """Of one that `decode_envelope` refused. One request of another version must not cost its neighbours their
    answers, and its asker is to be told. Raises Garbled where not even the gateway can be read."""
    try:
        raw = _raw_envelope(memoryview(body)[1:])
    except (DecodeError, UnicodeDecodeError) as error:
        raise Garbled(f"an envelope that cannot be read: {error}") from None
    known = body[:1] == VERSION
    good: list[WireRequest] = []
    unreadable: list[str] = []
    for row in raw.requests:
        try:
            if known:  # in another version the same fields may mean something else
                good.append(_wire_request(row))
                continue
        except (DecodeError, UnicodeDecodeError):
            pass
        if key := _key_of(row):
            unreadable.append(key)
    withdrawn = [key for key in raw.withdrawn if isinstance(key, str)]
    return Salvaged(Envelope(raw.gateway, raw.sent, good, withdrawn if known else []), unreadable)


def _key_of(row: Raw) -> str:
    """The first field has been the key in every version so far."""
    try:
        fields = _anything(row)
    except (DecodeError, UnicodeDecodeError):
        return ""
    return fields[0] if isinstance(fields, list) and fields and isinstance(fields[0], str) else ""


def encode(message: Message) -> bytes:
    return VERSION + _encode(message)


def decode(body: bytes) -> Message:
    try:
        message: Message = _message(_content(body))
    except (DecodeError, UnicodeDecodeError) as error:
        raise Garbled(f"a message that cannot be read: {error}") from None
    if type(message) is Answers and len(message.keys) != len(message.outputs):
        raise Garbled("answers and keys differ in number")
    return message


def encode_execution(worker: str, batch_id: int, batch_size: int, seconds: float, version: str) -> bytes:
    return VERSION + _encode(Executed(worker, batch_id, batch_size, seconds, version))


def decode_execution(body: bytes) -> Execution:
    """When it started is not known: clocks are each process's own. One that cannot be read is of no consequence."""
    try:
        said = _executed(_content(body))
    except (DecodeError, UnicodeDecodeError, Garbled):
        said = Executed()
    return Execution(WorkerId(said.worker), said.batch_id, said.batch_size, 0.0, said.seconds, said.version)


def _content(body: bytes) -> memoryview:
    if body[:1] != VERSION:
        raise Garbled(f"a message of version {body[0] if body else 'nothing'}, and we speak {VERSION[0]}")
    return memoryview(body)[1:]


def task_name(tenant: str, task_id: str) -> str:
    """What a task is called between our processes. Tenants choose their ids, and two may choose the same; an id has
    no slash in it."""
    return f"{tenant}/{task_id}"
