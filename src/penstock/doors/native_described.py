"""Describes the native doors for the document at /openapi.json: plain data, and no code that answers anybody. The
native doors hand it out when they are asked to describe themselves (`native.py`)."""

from collections.abc import Sequence

from penstock.doors.idempotency import LONGEST, PATTERN
from penstock.doors.openapi_parts import (
    NUMBER,
    OUTPUT,
    OUTPUT_ENCODING,
    REPLAYED,
    STRING,
    TOKENS_USED,
    TRACEPARENT,
    TRACESTATE,
    WITH_ANSWERS,
    X_REQUEST_ID,
    Described,
    Offer,
    Part,
    answered,
    in_other_forms,
    input_schema,
    object_of,
    parameter,
    refused,
    sent,
)

_PREFER = parameter(
    "Prefer",
    "header",
    "`respond-async`: become a task; `wait`: be answered on this connection (RFC 7240).",
    {"type": "string", "examples": ["respond-async"]},
)

_IDEMPOTENCY_KEY = parameter(
    "Idempotency-Key",
    "header",
    f"1 to {LONGEST} visible ASCII characters, or such in double quotes. The same key with the same request gives "
    "the outcome of the first, also while that is still running; with another request it is 409.",
    {"type": "string", "pattern": f"^(?:{PATTERN})$"},
)


_WITH_OCTETS = [
    parameter(name, "query", f"{about} Read only with a body of application/octet-stream.", schema)
    for name, about, schema in (
        ("model", "Which model.", {"type": "string"}),
        ("parameters", "For the model: a JSON object.", {"type": "string", "examples": ['{"top_k": 3}']}),
        ("client_id", "As in a body of JSON.", {"type": "string", "minLength": 1, "maxLength": 128}),
        ("timeout_ms", "As in a body of JSON.", {"type": "integer", "minimum": 1, "maximum": 999_999_999}),
    )
]


def describe_full(path: str, offer: Offer) -> Described:
    models = offer.models
    # Models that are asked in the same way, by kind of input and parameters.
    alike: dict[tuple[str, Sequence[str] | None], list[str]] = {}
    for name, kind in sorted(models.items(), key=lambda item: item[1]):
        taken = offer.parameters.get(name)
        alike.setdefault((kind, None if taken is None else tuple(taken)), []).append(name)
    requests = [
        _request(names, kind, taken, offer, alone=len(models) == 1) for (kind, taken), names in alike.items()
    ]
    schemas = {
        "InferenceRequest": requests[0] if len(requests) == 1 else {"anyOf": requests},
        "InferenceAnswer": object_of(
            {
                "request_id": STRING,
                "task_id": {"type": "string", "description": "The same id."},
                "output": OUTPUT,
                "model": {"enum": list(models)},
                "latency_ms": {**NUMBER, "description": "From arrival to answer, in the server."},
                "metadata": object_of(
                    {
                        "queue_ms": NUMBER,
                        "inference_ms": NUMBER,
                        "batch_size": {
                            "type": "integer",
                            "minimum": 0,
                            "description": "0 where the answer came from the cache.",
                        },
                        "model_version": STRING,
                        "cached": {"type": "boolean", "description": "Nothing was executed for this answer."},
                        "tokens_used": TOKENS_USED,
                        "output_encoding": OUTPUT_ENCODING,
                    },
                    optional=("tokens_used", "output_encoding"),
                ),
            },
        ),
        "TaskAccepted": object_of({"task_id": STRING, "status": {"const": "PENDING"}}),
    }
    octets = bool(offer.taking_bytes)
    return Described(
        {path: {"post": _inference(sorted(offer.asynchronous), len(models), octets=octets)}}, schemas
    )


def describe_short(path: str, offer: Offer) -> Described:
    if offer.default is None:  # there is no saying which model the short form means
        return Described()
    short = offer.models.get(offer.default, "text")
    schemas = {
        "ShortRequest": object_of({"input": input_schema(short, offer.clean)}),
        "ShortAnswer": object_of({"output": OUTPUT, "request_id": STRING, "latency_ms": NUMBER}),
    }
    return Described({path: {"post": _short_inference()}}, schemas)


def _inference(asynchronous: Sequence[str], models: int, *, octets: bool) -> Part:
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
    if octets:
        about += (
            " A body of application/octet-stream is the input itself, as bytes, and all else stands in the query."
            " In MessagePack the bytes of an input are bytes for the function. `Accept` says which of these forms"
            " the answer has; as application/octet-stream an output comes only if it is bytes."
        )
    answer = answered("The answer", "InferenceAnswer", *WITH_ANSWERS)
    return {
        "operationId": "infer",
        "tags": ["Inference"],
        "summary": summary,
        "description": about,
        "parameters": [
            X_REQUEST_ID,
            TRACEPARENT,
            TRACESTATE,
            _PREFER,
            _IDEMPOTENCY_KEY,
            *(_WITH_OCTETS if octets else ()),
        ],
        "requestBody": {"required": True, "content": in_other_forms("InferenceRequest", octets=octets)},
        "responses": {
            "200": {**answer, "content": in_other_forms("InferenceAnswer", octets=True)},
            "202": answered(
                "Accepted as a task",
                "TaskAccepted",
                "X-Request-Id",
                "Location",
                "Preference-Applied",
                REPLAYED,
            ),
            **refused(400, 404, 408, 409, 413, 415, 422, 429, 500, 502, 503, 504),
        },
    }


def _short_inference() -> Part:
    return {
        "operationId": "inferShort",
        "tags": ["Inference"],
        "summary": "The short form",
        "description": "The same path inside, with nothing but an input to send.",
        "parameters": [X_REQUEST_ID, TRACEPARENT, TRACESTATE, _IDEMPOTENCY_KEY],
        "requestBody": sent("ShortRequest"),
        "responses": {
            "200": answered("The answer", "ShortAnswer", *WITH_ANSWERS),
            **refused(400, 408, 409, 413, 415, 422, 429, 500, 502, 503, 504),
        },
    }


def _request(models: list[str], kind: str, taken: Sequence[str] | None, offer: Offer, *, alone: bool) -> Part:
    default = offer.default
    required = default not in models
    model: Part = {"description": "Which model.", "enum": models if required else [*models, None]}
    if not required:
        model["description"] = f"Not needed: this server has {'one' if alone else f'a default, `{default}`'}."
    properties = {
        "input": input_schema(kind, offer.clean),
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
        **({"callback_url": _CALLBACK_URL} if offer.calls_back else {}),
    }
    always = {"input", "model"} if required else {"input"}
    example = {"input": "hello", **({"model": models[0]} if required else {})}
    optional = [name for name in properties if name not in always]
    return {**object_of(properties, optional=optional), "examples": [example]}


_CALLBACK_URL: Part = {
    "type": ["string", "null"],
    "description": "Of a task: where its result is sent when it is over, signed, and again until it is taken.",
}


def _parameters(taken: Sequence[str] | None) -> Part:
    """Returns the schema of a model's parameters: those named, or any."""
    named: Part = {}
    if taken is not None:
        named = {"properties": {name: {} for name in taken}, "additionalProperties": False}
    return {
        "type": ["object", "null"],
        **named,
        "description": "For the model; only requests with the same parameters share a batch.",
    }
