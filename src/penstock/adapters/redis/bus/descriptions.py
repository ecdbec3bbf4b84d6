"""What is said in the registry, as far as others rely on it: read strictly, so that nobody stumbles over it later.

A newer process may say more than we know. What we do know must be of the type that we know it as.
"""

from typing import Annotated, Any

from msgspec import DecodeError, Meta, Struct, json

Number = Annotated[float, Meta(ge=-1e12, le=1e12)]


class _Slot(Struct):
    """One slot of a worker."""

    model: str = ""
    status: str = ""
    first_batch_seconds: Number | None = None
    version: str = ""


class _Load(Struct):
    """How one model stands, by the word of a batcher."""

    queue_depth: Number
    requests_per_second: Number
    capacity_rps: Number = 0.0
    warning_depth: Number | None = None
    critical_depth: Number | None = None
    workers_healthy: Number = 0
    backlog_seconds: Number = 0.0


class _Member(Struct):
    host: str = ""
    pid: int | None = None
    admin: str = ""
    slots: dict[str, _Slot] = {}
    models: dict[str, _Load] = {}


_member = json.Decoder(_Member)
_model = json.Decoder(dict[str, Any])


def read_member(text: bytes) -> dict[str, Any] | None:
    """None for what no member of ours says."""
    try:
        _member.decode(text)
        said: dict[str, Any] = json.decode(text)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return said


def read_model(text: bytes) -> dict[str, Any] | None:
    """None for what is not even a description. Whether its values are of use is for those to say who use them."""
    try:
        return _model.decode(text)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
