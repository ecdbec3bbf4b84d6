"""The parts of which doors make their descriptions for the document at /openapi.json. Each door describes itself
with these, and `openapi.py` makes the document of them."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from penstock.errors import STATUS_BY_CODE

Part = dict[str, Any]

ERRORS = {
    400: ("Malformed", "The body, the framing or the query is not well formed."),
    401: ("Unauthorized", "Nobody knows who asks: send an API key or a token."),
    403: ("Forbidden", "It is known who asks, and this is not for them."),
    404: ("NotFound", "No such model, task or path, or it belongs to somebody else."),
    408: ("BodyTooSlow", "The body did not arrive in time."),
    409: (
        "Conflict",
        "The Idempotency-Key or X-Request-Id is taken by another request, or the task was cancelled.",
    ),
    413: ("TooLarge", "The body is larger than `limits.max_body`, {max_body} bytes."),
    415: ("UnsupportedMedia", "Only what is listed here is read: JSON in UTF-8, and none of it compressed."),
    422: ("Unacceptable", "Understood, but not acceptable: the message names the field."),
    426: ("UpgradeRequired", "This path speaks WebSocket."),
    429: ("OverQuota", "Over your own quota: try again after Retry-After."),
    500: ("Internal", "The server's fault; its log says more."),
    501: ("NotInstalled", "This server lacks a library that is needed for it."),
    502: ("BackendFailed", "The backend failed with this input, also when tried again."),
    503: ("Unavailable", "Overloaded, shutting down, or a store is away: try again after Retry-After."),
    504: ("DeadlineExceeded", "The deadline passed before there was an answer."),
}
NUMBER = {"type": "number", "minimum": 0}
STRING = {"type": "string"}
CODES = sorted(code for code in STATUS_BY_CODE if code != "CLIENT_LEFT")  # `CLIENT_LEFT` is never sent
TOKENS_USED = {
    "type": "integer",
    "minimum": 0,
    "description": "As the model's function says; else it is not there.",
}
OUTPUT_ENCODING = {"const": "base64", "description": "The output is bytes; else it is not there."}
OUTPUT = {"description": "What the model made of the input: a string, or any JSON where it gives JSON."}
TEXT = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$"  # tab, newline and return are text


@dataclass(frozen=True)
class Offer:
    """What this server offers now. Doors describe it."""

    models: Mapping[str, str]  # the kind of input, text or json, that each takes
    default: str | None  # the model for requests that name none
    taking_bytes: Set[str]  # models whose inputs may be bytes
    asynchronous: Set[str]  # models whose requests become tasks
    parameters: Mapping[str, Sequence[str] | None]  # the names each model takes, as `Gateway.parameters`
    secured: bool  # callers must say who they are
    clean: bool  # control characters are refused
    max_body: int
    max_asks: int
    calls_back: bool = False  # addresses may be called when tasks are over


class Described(NamedTuple):
    """One door's part of the document."""

    paths: Part = {}  # noqa: RUF012 - nobody adds to it
    schemas: Part = {}  # noqa: RUF012


def of_structs(*kinds: type[msgspec.Struct]) -> Part:
    """Returns the schemas of these structs, and of those that they are made of, by their names."""
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return schemas


def sent(schema: str) -> Part:
    return {"required": True, "content": in_json(schema)}


BYTES: Part = {"schema": {}}  # any bytes, as OpenAPI 3.1 writes it


def in_other_forms(schema: str, *, octets: bool) -> Part:
    """Returns the content of a body that may be JSON, MessagePack or, with `octets`, bytes alone."""
    packed = {"application/msgpack": in_json(schema)["application/json"]}
    return {**in_json(schema), **packed, **({"application/octet-stream": BYTES} if octets else {})}


def answered(about: str, schema: str, *headers: str) -> Part:
    said = {name: {"$ref": f"#/components/headers/{name}"} for name in headers}
    return {"description": about, "headers": said, "content": in_json(schema)}


def refused(*statuses: int) -> Part:
    """Returns the responses with these statuses, in the native shape."""
    return {str(status): {"$ref": f"#/components/responses/{ERRORS[status][0]}"} for status in statuses}


def in_json(schema: str) -> Part:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def header(about: str, *, kind: str = "string", required: bool = True) -> Part:
    return {"description": about, "required": required, "schema": {"type": kind}}


REPLAYED = "Idempotency-Replayed"
QUOTA_FIELDS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
WITH_ANSWERS = ("X-Request-Id", "Server-Timing", "traceparent", *QUOTA_FIELDS, REPLAYED)
HEADERS = {
    "X-Request-Id": header("The client's own, or one made here."),
    "Server-Timing": header("`queue;dur=…, infer;dur=…` in milliseconds."),
    "traceparent": header(
        "Of the span of the request if it is traced; otherwise as it was sent.", required=False
    ),
    "Retry-After": header(
        "Whole seconds: until some of the quota is free again, or from how fast the queue drains.",
        kind="integer",
    ),
    "RateLimit-Limit": header(
        "Requests in any sixty seconds, where there is a quota.", kind="integer", required=False
    ),
    "RateLimit-Remaining": header("Of these, how many may come now.", kind="integer", required=False),
    "RateLimit-Reset": header(
        "Seconds until some of what was used no longer counts.", kind="integer", required=False
    ),
    "WWW-Authenticate": header("`Bearer`."),
    "Location": header("Where the task's answer will be."),
    "Preference-Applied": header("`respond-async`, where the client asked for it.", required=False),
    REPLAYED: header("`true`: this was the outcome of an earlier request with the same key.", required=False),
}


TOLD_WITH = {401: ("WWW-Authenticate",), 429: ("Retry-After", *QUOTA_FIELDS), 503: ("Retry-After",)}


def parameter(name: str, where: str, about: str, schema: Part) -> Part:
    return {"name": name, "in": where, "required": where == "path", "description": about, "schema": schema}


X_REQUEST_ID = parameter(
    "X-Request-Id",
    "header",
    "Letters, digits and `._:+=@-`, up to 128; anything else is replaced by an id of ours.",
    {"type": "string"},
)
TRACEPARENT = parameter(
    "traceparent", "header", "W3C trace context; passed on to the backend and echoed.", {"type": "string"}
)
TRACESTATE = parameter(
    "tracestate",
    "header",
    "W3C trace context; passed on to the backend with its traceparent. One longer than 512 characters is left out.",
    {"type": "string"},
)


def input_schema(kind: str, clean: bool) -> Part:
    if kind != "text":  # a schema cannot say what the texts inside a value may contain
        return {
            "description": "Any JSON value" + ("; its texts hold no control characters." if clean else ".")
        }
    refused = {"pattern": TEXT} if clean else {}
    return {"type": "string", **refused, "description": "The text, without control characters."}


def object_of(properties: Part, *, optional: "tuple[str, ...] | list[str]" = ()) -> Part:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}
