"""The words as the processes of `before-0.1.0.txt` knew them: their structs, as they were. Not to be changed."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, json, msgpack

from penstock.types import Outcome, TaskStatus

VERSION = b"\x01"
Finite = Annotated[float, Meta(ge=-1e12, le=1e12)]
Amount = Annotated[float, Meta(ge=0.0, le=1e12)]
Count = Annotated[int, Meta(ge=0)]


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
    gateway: str
    sent: Finite
    requests: list[WireRequest]
    withdrawn: list[str]


class Member(Struct, array_like=True, gc=False):
    key: str
    gateway: str
    input: bytes
    task: str
    tenant: str = ""


class Dispatch(Struct, array_like=True, tag="d"):
    batch_id: int
    batcher: str
    slot: str
    model: str
    parameters: bytes
    members: list[Member]
    limit: Amount = 0.0


class Answers(Struct, array_like=True, tag="a"):
    keys: list[str]
    outputs: list[bytes]
    worker: str
    batch_id: int
    batch_size: Count
    seconds: Amount
    version: str


class Ending(Struct, array_like=True):
    keys: list[str]
    outcome: Outcome
    code: str
    message: str
    details: str
    retry_after: Amount | None


class Failed(Struct, array_like=True, tag="f"):
    endings: list[Ending]


class Notice(Struct, array_like=True, tag="t", gc=False):
    task: str
    status: TaskStatus
    code: str = ""


class Question(Struct, array_like=True, tag="q", gc=False):
    gateway: str
    request_id: str


class Told(Struct, array_like=True, tag="o", gc=False):
    gateway: str
    request_id: str
    found: bytes = b""


class ItemFailure(Struct, array_like=True, gc=False):
    place: Count
    code: str
    message: str
    details: str


class Finished(Struct, array_like=True, tag="x"):
    slot: str
    batch_id: int
    count: Count
    seconds: Amount
    version: str
    code: str = ""
    message: str = ""
    details: str = ""
    splittable: bool = False
    executed: Count = 0
    failed: list[ItemFailure] = msgspec.field(default_factory=list)


class Departed(Struct, array_like=True, tag="g", gc=False):
    kind: str
    name: str


class Executed(Struct, array_like=True):
    worker: str = ""
    batch_id: int = 0
    batch_size: int = 1
    seconds: float = 0.0
    version: str = ""


Message = Dispatch | Answers | Failed | Notice | Finished | Question | Told | Departed

_envelope = msgpack.Decoder(Envelope).decode
_message = msgpack.Decoder(Message).decode
_executed = msgpack.Decoder(Executed).decode


def read_envelope(body: bytes) -> Envelope:
    return _envelope(_content(body))


def read_message(body: bytes) -> Message:
    message: Message = _message(_content(body))
    return message


def read_execution(body: bytes) -> Executed:
    return _executed(_content(body))


def _content(body: bytes) -> bytes:
    assert body[:1] == VERSION
    return body[1:]


# ---- in the registry -------------------------------------------------------------------------------------


class Slot(Struct):
    model: str = ""
    status: str = ""
    first_batch_seconds: Finite | None = None
    version: str = ""


class Load(Struct):
    queue_depth: Finite
    requests_per_second: Finite
    capacity_rps: Finite = 0.0
    warning_depth: Finite | None = None
    critical_depth: Finite | None = None
    workers_healthy: Finite = 0
    backlog_seconds: Finite = 0.0


class Heartbeat(Struct):
    host: str = ""
    pid: int | None = None
    admin: str = ""
    slots: dict[str, Slot] = msgspec.field(default_factory=dict)
    models: dict[str, Load] = msgspec.field(default_factory=dict)


_heartbeat = json.Decoder(Heartbeat)
_announcement = json.Decoder(dict[str, Any])


def read_heartbeat(text: bytes) -> Mapping[str, Any]:
    """It was checked as far as this, and then used as it was."""
    _heartbeat.decode(text)
    said: dict[str, Any] = json.decode(text)
    return said


def read_announcement(text: bytes) -> Mapping[str, Any]:
    return _announcement.decode(text)
