"""What the data plane says of itself at /openapi.json and /docs (SPEC A11); a contract fuzzer holds it to it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import penstock
from penstock.errors import STATUS_BY_CODE
from penstock.http.idempotency import LONGEST, PATTERN
from penstock.types import TaskStatus

Part = dict[str, Any]

DOCS_PAGE = Path(__file__).with_name("docs.html").read_bytes()

ABOUT = """Send one input, get one output; Penstock forms batches of what arrives together, keeps the workers
busy, and brings each answer back to the connection that asked.

Every error has one shape: a code in `error` that does not change, a `message` for people, the `request_id`, and
`retry_after_ms` where waiting helps."""

TEXT = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$"  # tab, newline and return are text

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
    413: ("TooLarge", "The body is larger than {max_body} bytes."),
    415: ("UnsupportedMedia", "Only uncompressed application/json in UTF-8 is read."),
    422: ("Unacceptable", "Understood, but not acceptable: the message names the field."),
    429: ("OverQuota", "Over your own quota: try again after Retry-After."),
    500: ("Internal", "The server's fault; its log says more."),
    502: ("BackendFailed", "The backend failed with this input, also when tried again."),
    503: ("Unavailable", "Overloaded, shutting down, or a store is away: try again after Retry-After."),
    504: ("DeadlineExceeded", "The deadline passed before there was an answer."),
}


def openapi_document(
    models: Mapping[str, str],
    max_body: int,
    control_characters: str = "refuse",
    *,
    secured: bool = False,
    parameters: Mapping[str, Sequence[str] | None] | None = None,
) -> Part:
    """`models` gives the kind of input, text or json, that each takes; `secured`: callers must say who they are.

    `parameters`: the names that each model takes, as `Gateway.parameters`; a model that is not there takes any."""
    paths: Part = {
        "/v1/inference": {"post": _inference()},
        "/v1/result/{task_id}": {
            "parameters": [_TASK_ID, _CLIENT_ID],
            "get": _result(),
            "delete": _cancel(),
        },
    }
    if len(models) == 1:  # with several, there is no saying which one the short form means
        paths["/api/inference"] = {"post": _short_inference()}
    clean = control_characters == "refuse"
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": penstock.__version__, "description": ABOUT},
        "tags": [
            {"name": "Inference", "description": "One input in, one output out."},
            {"name": "Tasks", "description": "Ask now, fetch the answer later."},
        ],
        "paths": dict(sorted(paths.items(), key=lambda item: not item[0].endswith("/inference"))),
        "components": {
            "schemas": _schemas(models, clean, parameters or {}),
            "responses": {
                name: _answer(
                    about.format(max_body=max_body), "Error", "X-Request-Id", *_TOLD.get(status, ())
                )
                for status, (name, about) in ERRORS.items()
            },
            "headers": _HEADERS,
        },
    }
    if secured:
        _secure(document)
    return document


def _secure(document: Part) -> None:
    document["security"] = [{"bearer": []}, {"apiKey": []}]
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a token."},
        "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    for path in document["paths"].values():
        for method in path.keys() & {"get", "post", "delete"}:
            path[method]["responses"] |= _errors(401, 403)


# ---- operations --------------------------------------------------------------------------------------------


def _inference() -> Part:
    return {
        "operationId": "infer",
        "tags": ["Inference"],
        "summary": "Ask and wait for the answer",
        "description": "The answer comes on the same connection. With `Prefer: respond-async` the request "
        "becomes a task: 202 at once, and its answer under `Location`.",
        "parameters": [_X_REQUEST_ID, _TRACEPARENT, _PREFER, _IDEMPOTENCY_KEY],
        "requestBody": _body("InferenceRequest"),
        "responses": {
            "200": _answer("The answer", "InferenceAnswer", *_WITH_ANSWERS),
            "202": _answer(
                "Accepted as a task",
                "TaskAccepted",
                "X-Request-Id",
                "Location",
                "Preference-Applied",
                REPLAYED,
            ),
            **_errors(400, 404, 408, 409, 413, 415, 422, 429, 500, 502, 503, 504),
        },
    }


def _short_inference() -> Part:
    return {
        "operationId": "inferShort",
        "tags": ["Inference"],
        "summary": "The short form",
        "description": "The same path inside, with nothing but an input to send.",
        "parameters": [_X_REQUEST_ID, _TRACEPARENT, _IDEMPOTENCY_KEY],
        "requestBody": _body("ShortRequest"),
        "responses": {
            "200": _answer("The answer", "ShortAnswer", *_WITH_ANSWERS),
            **_errors(400, 408, 409, 413, 415, 422, 429, 500, 502, 503, 504),
        },
    }


def _result() -> Part:
    wait = {
        "name": "wait_ms",
        "in": "query",
        "description": "Wait this long for the task to be over, within the server's own limit.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    }
    return {
        "operationId": "result",
        "tags": ["Tasks"],
        "summary": "Where a task stands, and its output",
        "description": "A result is kept for ten minutes, unless the server is set otherwise.",
        "parameters": [wait],
        "responses": {"200": _answer("The task", "Task", "X-Request-Id"), **_errors(400, 404, 422, 500, 503)},
    }


def _cancel() -> Part:
    return {
        "operationId": "cancel",
        "tags": ["Tasks"],
        "summary": "Cancel a task",
        "description": "What has not gone to a worker never goes. A task that is over stays as it is.",
        "responses": {"200": _answer("The task", "Task", "X-Request-Id"), **_errors(400, 404, 422, 500, 503)},
    }


_TOKENS_USED = {
    "type": "integer",
    "minimum": 0,
    "description": "As the model's function says; else it is not there.",
}


# ---- schemas -----------------------------------------------------------------------------------------------


def _schemas(models: Mapping[str, str], clean: bool, parameters: Mapping[str, Sequence[str] | None]) -> Part:
    number = {"type": "number", "minimum": 0}
    text = {"type": "string"}
    codes = sorted(code for code in STATUS_BY_CODE if code != "CLIENT_LEFT")  # never sent
    output = {"description": "What the model made of the input: a string, or any JSON where it gives JSON."}
    alike: dict[tuple[str, Sequence[str] | None], list[str]] = {}  # models that are asked in the same way
    for name, kind in sorted(models.items(), key=lambda item: item[1]):
        taken = parameters.get(name)
        alike.setdefault((kind, None if taken is None else tuple(taken)), []).append(name)
    requests = [
        _request(names, kind, taken, clean, required=len(models) > 1)
        for (kind, taken), names in alike.items()
    ]
    return {
        "InferenceRequest": requests[0] if len(requests) == 1 else {"anyOf": requests},
        "ShortRequest": _object({"input": _input(next(iter(models.values()), "text"), clean)}),
        "InferenceAnswer": _object(
            {
                "request_id": text,
                "task_id": {"type": "string", "description": "The same id."},
                "output": output,
                "model": {"enum": list(models)},
                "latency_ms": {**number, "description": "From arrival to answer, in the server."},
                "metadata": _object(
                    {
                        "queue_ms": number,
                        "inference_ms": number,
                        "batch_size": {
                            "type": "integer",
                            "minimum": 0,
                            "description": "0 where the answer came from the cache.",
                        },
                        "model_version": text,
                        "cached": {"type": "boolean", "description": "Nothing was executed for this answer."},
                        "tokens_used": _TOKENS_USED,
                    },
                    optional=("tokens_used",),
                ),
            },
        ),
        "ShortAnswer": _object({"output": output, "request_id": text, "latency_ms": number}),
        "TaskAccepted": _object({"task_id": text, "status": {"const": "PENDING"}}),
        "Task": _object(
            {
                "task_id": text,
                "status": {"enum": [str(status) for status in TaskStatus]},
                "timestamp": {
                    "type": "string",
                    "format": "date-time",
                    "description": "Of its last change, or its start.",
                },
                "output": {**output, "description": "When SUCCESS."},
                "metadata": _object({"tokens_used": _TOKENS_USED}),
                "error": {
                    **_object({"error": {"enum": codes}, "message": text}),
                    "description": "When FAILED, EXPIRED or CANCELLED.",
                },
            },
            optional=("output", "metadata", "error"),
        ),
        "Error": _object(
            {
                "error": {"enum": codes},
                "message": text,
                "request_id": text,
                "retry_after_ms": {"type": "integer", "minimum": 0},
            },
            optional=("retry_after_ms",),
        ),
    }


def _request(
    models: list[str], kind: str, taken: Sequence[str] | None, clean: bool, *, required: bool
) -> Part:
    model: Part = {"description": "Which model.", "enum": models if required else [*models, None]}
    if not required:
        model["description"] = "Not needed: this server has one."
    properties = {
        "input": _input(kind, clean),
        "model": model,
        **({} if taken == () else {"parameters": _parameters(taken)}),
        "client_id": {
            "type": ["string", "null"],
            "minLength": 1,
            "maxLength": 128,
            "description": "Who asks: decides on tier and fairness, and who may see a task.",
        },
        "timeout_ms": {
            "type": ["integer", "null"],
            "minimum": 1,
            "description": "Answered by then, or refused; what is above the server's limit counts as that.",
        },
    }
    always = {"input", "model"} if required else {"input"}
    example = {"input": "hello", **({"model": models[0]} if required else {})}
    optional = [name for name in properties if name not in always]
    return {**_object(properties, optional=optional), "examples": [example]}


def _parameters(taken: Sequence[str] | None) -> Part:
    """Of a model that takes some: these, or any."""
    named: Part = {}
    if taken is not None:
        named = {"properties": {name: {} for name in taken}, "additionalProperties": False}
    return {
        "type": ["object", "null"],
        **named,
        "description": "For the model; only requests with the same parameters share a batch.",
    }


def _input(kind: str, clean: bool) -> Part:
    if kind != "text":  # a schema cannot say it of all texts inside a value
        return {
            "description": "Any JSON value" + ("; its texts hold no control characters." if clean else ".")
        }
    refused = {"pattern": TEXT} if clean else {}
    return {"type": "string", **refused, "description": "The text, without control characters."}


def _object(properties: Part, *, optional: "tuple[str, ...] | list[str]" = ()) -> Part:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


# ---- the rest ----------------------------------------------------------------------------------------------


def _body(schema: str) -> Part:
    return {"required": True, "content": _json(schema)}


def _answer(about: str, schema: str, *headers: str) -> Part:
    said = {name: {"$ref": f"#/components/headers/{name}"} for name in headers}
    return {"description": about, "headers": said, "content": _json(schema)}


def _errors(*statuses: int) -> Part:
    return {str(status): {"$ref": f"#/components/responses/{ERRORS[status][0]}"} for status in statuses}


def _json(schema: str) -> Part:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _header(about: str, *, kind: str = "string", required: bool = True) -> Part:
    return {"description": about, "required": required, "schema": {"type": kind}}


REPLAYED = "Idempotency-Replayed"
_QUOTA = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
_WITH_ANSWERS = ("X-Request-Id", "Server-Timing", "traceparent", *_QUOTA, REPLAYED)
_HEADERS = {
    "X-Request-Id": _header("The client's own, or one made here."),
    "Server-Timing": _header("`queue;dur=…, infer;dur=…` in milliseconds."),
    "traceparent": _header("As it was sent, where one was.", required=False),
    "Retry-After": _header(
        "Whole seconds: until some of the quota is free again, or from how fast the queue drains.",
        kind="integer",
    ),
    "RateLimit-Limit": _header(
        "Requests in any sixty seconds, where there is a quota.", kind="integer", required=False
    ),
    "RateLimit-Remaining": _header("Of these, how many may come now.", kind="integer", required=False),
    "RateLimit-Reset": _header(
        "Seconds until some of what was used no longer counts.", kind="integer", required=False
    ),
    "WWW-Authenticate": _header("`Bearer`."),
    "Location": _header("Where the task's answer will be."),
    "Preference-Applied": _header("`respond-async`."),
    REPLAYED: _header(
        "`true`: this was the outcome of an earlier request with the same key.", required=False
    ),
}


_TOLD = {401: ("WWW-Authenticate",), 429: ("Retry-After", *_QUOTA), 503: ("Retry-After",)}


def _parameter(name: str, where: str, about: str, schema: Part) -> Part:
    return {"name": name, "in": where, "required": where == "path", "description": about, "schema": schema}


_X_REQUEST_ID = _parameter(
    "X-Request-Id",
    "header",
    "Letters, digits and `._:+=@-`, up to 128; anything else is replaced by an id of ours.",
    {"type": "string"},
)
_TRACEPARENT = _parameter(
    "traceparent", "header", "W3C trace context; passed on to the backend and echoed.", {"type": "string"}
)
_PREFER = _parameter(
    "Prefer",
    "header",
    "`respond-async`: become a task (RFC 7240).",
    {"type": "string", "examples": ["respond-async"]},
)
_IDEMPOTENCY_KEY = _parameter(
    "Idempotency-Key",
    "header",
    f"1 to {LONGEST} visible ASCII characters, or such in double quotes. The same key with the same request gives "
    "the outcome of the first, also while that is still running; with another request it is 409.",
    {"type": "string", "pattern": f"^(?:{PATTERN})$"},
)
_TASK_ID = _parameter("task_id", "path", "As the 202 gave it.", {"type": "string", "minLength": 1})
_CLIENT_ID = _parameter(
    "client_id", "query", "The client_id the task was made with; to others it is 404.", {"type": "string"}
)
