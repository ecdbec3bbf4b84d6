"""What the data plane says of itself at /openapi.json and /docs; a contract fuzzer holds it to it."""

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import penstock
from penstock.doors.idempotency import LONGEST, PATTERN
from penstock.doors.openapi_schemas import Part, schemas

DOCS_PAGE = Path(__file__).with_name("docs.html").read_bytes()

ABOUT = """Send one input, get one output; Penstock forms batches of what arrives together, keeps the workers
busy, and brings each answer back to the connection that asked.

Every error has one shape: a code in `error` that does not change, a `message` for people, the `request_id`, and
`retry_after_ms` where waiting helps."""

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
    default: object = None,
    asynchronous: Set[str | None] = frozenset(),
    parameters: Mapping[str, Sequence[str] | None] | None = None,
) -> Part:
    """`models` gives the kind of input, text or json, that each takes; `default`: the one meant by who names none;
    `asynchronous`: those whose requests become tasks; `secured`: callers must say who they are; `parameters`: the
    names that each model takes, as `Gateway.parameters`, and a model that is not there takes any."""
    if len(models) == 1:
        default = next(iter(models))
    paths: Part = {
        "/v1/inference": {"post": _inference(sorted(filter(None, asynchronous)), len(models))},
        "/v1/models": {"get": _models()},
        "/health": {"get": _health()},
        "/v1/result/{task_id}": {
            "parameters": [_TASK_ID, _CLIENT_ID],
            "get": _result(),
            "delete": _cancel(),
        },
    }
    if default is not None:  # else there is no saying which one the short form means
        paths["/api/inference"] = {"post": _short_inference()}
    clean = control_characters == "refuse"
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": penstock.__version__, "description": ABOUT},
        "tags": [
            {"name": "Inference", "description": "One input in, one output out."},
            {"name": "Tasks", "description": "Ask now, fetch the answer later."},
            {"name": "Server", "description": "What is served here, and whether it is."},
        ],
        "paths": dict(sorted(paths.items(), key=lambda item: not item[0].endswith("/inference"))),
        "components": {
            "schemas": schemas(models, clean, default, parameters or {}),
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
            if "security" not in path[method]:
                path[method]["responses"] |= _errors(401, 403)


# ---- operations --------------------------------------------------------------------------------------------


def _inference(asynchronous: Sequence[str], models: int) -> Part:
    about = (
        "The answer comes on the same connection. With `Prefer: respond-async` the request becomes a task: 202 at "
        "once, and its answer under `Location`."
    )
    summary = "Ask and wait for the answer"
    if asynchronous:
        summary = "Ask, and fetch the answer later" if len(asynchronous) == models else "Ask a model"
        which = (
            "" if len(asynchronous) == models else f" to {', '.join(f'`{name}`' for name in asynchronous)}"
        )
        about = (
            f"A request{which} becomes a task: 202 at once, and its answer under `Location`. With `Prefer: wait`"
            " the answer comes on the same connection."
        )
    return {
        "operationId": "infer",
        "tags": ["Inference"],
        "summary": summary,
        "description": about,
        "parameters": [_X_REQUEST_ID, _TRACEPARENT, _TRACESTATE, _PREFER, _IDEMPOTENCY_KEY],
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
        "parameters": [_X_REQUEST_ID, _TRACEPARENT, _TRACESTATE, _IDEMPOTENCY_KEY],
        "requestBody": _body("ShortRequest"),
        "responses": {
            "200": _answer("The answer", "ShortAnswer", *_WITH_ANSWERS),
            **_errors(400, 408, 409, 413, 415, 422, 429, 500, 502, 503, 504),
        },
    }


def _models() -> Part:
    return {
        "operationId": "models",
        "tags": ["Server"],
        "summary": "The models that are served",
        "description": "Each with what a client may want to know of it.",
        "responses": {"200": _answer("The models", "Models"), **_errors(500, 503)},
    }


def _health() -> Part:
    return {
        "operationId": "health",
        "tags": ["Server"],
        "summary": "Whether it serves",
        "description": "For load balancers. Nobody is asked who they are.",
        "security": [],
        "responses": {
            "200": _answer("Traffic may come", "Health"),
            "503": _answer("No traffic should come now, and why", "Health"),
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
    "Preference-Applied": _header("`respond-async`, where the client asked for it.", required=False),
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
_TRACESTATE = _parameter(
    "tracestate",
    "header",
    "W3C trace context; passed on to the backend with its traceparent.",
    {"type": "string", "maxLength": 512},
)
_PREFER = _parameter(
    "Prefer",
    "header",
    "`respond-async`: become a task; `wait`: be answered on this connection (RFC 7240).",
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
