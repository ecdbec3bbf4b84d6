"""Reads spans from OTLP written as JSON: what OpenTelemetry's collector and others write to files. One text is one
ExportTraceServiceRequest. `cli/trace_file.py` reads each text of a file with it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

FAILED = (
    2,
    "STATUS_CODE_ERROR",
)  # the status of a span that failed: as OTLP has it, and by its name in protobuf

Value = str | int | float | bool


class Span(NamedTuple):
    """One span. Ids are in hex, in lower case; times are nanoseconds since the epoch."""

    trace: str
    id: str
    parent: str  # empty if there is none
    name: str
    start: int
    end: int
    failed: bool
    attributes: Mapping[str, Value]
    links: Sequence[str]  # ids of spans
    instance: str  # the process that wrote it


class _Value(Struct, rename="camel"):
    string_value: str | None = None
    int_value: int | str | None = None  # OTLP writes whole numbers as texts
    double_value: float | str | None = None  # "NaN" and "Infinity" are texts
    bool_value: bool | None = None


class _Attribute(Struct):
    key: str
    value: _Value = field(default_factory=_Value)


class _Link(Struct, rename="camel"):
    span_id: str


class _Status(Struct):
    code: int | str = 0


class _Span(Struct, rename="camel"):
    trace_id: str
    span_id: str
    name: str = ""
    parent_span_id: str = ""
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    status: _Status = field(default_factory=_Status)
    attributes: list[_Attribute] = []
    links: list[_Link] = []


class _Scope(Struct):
    spans: list[_Span] = []


class _Resource(Struct):
    attributes: list[_Attribute] = []


class _Part(Struct, rename="camel"):
    resource: _Resource = field(default_factory=_Resource)
    scope_spans: list[_Scope] = []


class _Request(Struct, rename="camel"):
    resource_spans: list[_Part] = []  # none: it tells of logs or metrics


_decode = msgspec.json.Decoder(_Request).decode


def spans_in(text: bytes) -> Iterator[Span]:
    """Yields the spans of one text. Raises ValueError if it is not OTLP in JSON; msgspec's errors are such."""
    for part in _decode(text).resource_spans:
        instance = str(_values(part.resource.attributes).get("service.instance.id", ""))
        for scope in part.scope_spans:
            for each in scope.spans:
                yield Span(
                    each.trace_id.lower(), each.span_id.lower(), each.parent_span_id.lower(), each.name,
                    int(each.start_time_unix_nano), int(each.end_time_unix_nano), each.status.code in FAILED,
                    _values(each.attributes), [link.span_id.lower() for link in each.links], instance,
                )  # fmt: skip


def _values(attributes: Sequence[_Attribute]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for each in attributes:
        value = _plain(each.value)
        if value is not None:
            found[each.key] = value
    return found


def _plain(value: _Value) -> Any:
    """Returns a value; None if it is of a kind that no span of ours has, as a list."""
    if value.int_value is not None:
        return int(value.int_value)
    if value.double_value is not None:
        return float(value.double_value)
    return value.string_value if value.bool_value is None else value.bool_value
