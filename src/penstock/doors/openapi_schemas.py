"""The shapes of what is sent and answered, for the document at /openapi.json."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import STATUS_BY_CODE
from penstock.types import TaskStatus

Part = dict[str, Any]

TEXT = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$"  # tab, newline and return are text


_TOKENS_USED = {
    "type": "integer",
    "minimum": 0,
    "description": "As the model's function says; else it is not there.",
}


def schemas(
    models: Mapping[str, str], clean: bool, default: object, parameters: Mapping[str, Sequence[str] | None]
) -> Part:
    number = {"type": "number", "minimum": 0}
    text = {"type": "string"}
    codes = sorted(code for code in STATUS_BY_CODE if code != "CLIENT_LEFT")  # never sent
    output = {"description": "What the model made of the input: a string, or any JSON where it gives JSON."}
    alike: dict[tuple[str, Sequence[str] | None], list[str]] = {}  # models that are asked in the same way
    for name, kind in sorted(models.items(), key=lambda item: item[1]):
        taken = parameters.get(name)
        alike.setdefault((kind, None if taken is None else tuple(taken)), []).append(name)
    requests = [
        _request(names, kind, taken, clean, default=default, alone=len(models) == 1)
        for (kind, taken), names in alike.items()
    ]
    short = models.get(str(default), "text")
    return {
        "InferenceRequest": requests[0] if len(requests) == 1 else {"anyOf": requests},
        "ShortRequest": object_of({"input": _input(short, clean)}),
        "InferenceAnswer": object_of(
            {
                "request_id": text,
                "task_id": {"type": "string", "description": "The same id."},
                "output": output,
                "model": {"enum": list(models)},
                "latency_ms": {**number, "description": "From arrival to answer, in the server."},
                "metadata": object_of(
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
        "ShortAnswer": object_of({"output": output, "request_id": text, "latency_ms": number}),
        "TaskAccepted": object_of({"task_id": text, "status": {"const": "PENDING"}}),
        "Task": object_of(
            {
                "task_id": text,
                "status": {"enum": [str(status) for status in TaskStatus]},
                "timestamp": {
                    "type": "string",
                    "format": "date-time",
                    "description": "Of its last change, or its start.",
                },
                "output": {**output, "description": "When SUCCESS."},
                "metadata": object_of({"tokens_used": _TOKENS_USED}),
                "error": {
                    **object_of({"error": {"enum": codes}, "message": text}),
                    "description": "When FAILED, EXPIRED or CANCELLED.",
                },
            },
            optional=("output", "metadata", "error"),
        ),
        "Models": object_of(
            {"object": {"const": "list"}, "data": {"type": "array", "items": _model(models)}}
        ),
        "Health": object_of(
            {"status": {"enum": ["ok", "unavailable"]}, "reason": text}, optional=("reason",)
        ),
        "Error": object_of(
            {
                "error": {"enum": codes},
                "message": text,
                "request_id": text,
                "retry_after_ms": {"type": "integer", "minimum": 0},
            },
            optional=("retry_after_ms",),
        ),
    }


def _model(models: Mapping[str, str]) -> Part:
    return object_of(
        {
            "id": {"enum": list(models)},
            "object": {"const": "model"},
            "owned_by": {"const": "penstock"},
            "input": {"enum": sorted(set(models.values())), "description": "What it takes."},
            "output": {"type": "string", "description": "What it gives."},
            "max_batch": {"type": "integer", "minimum": 1, "description": "Requests in one batch at most."},
            "default": {"type": "boolean", "description": "It is meant by requests that name no model."},
            "respond": {"enum": ["sync", "async"], "description": "`async`: a request becomes a task."},
            "parameters": {"type": "boolean", "description": "It takes `parameters`."},
            "ready": {"type": "boolean", "description": "A worker can serve it now."},
        }
    )


def _request(
    models: list[str], kind: str, taken: Sequence[str] | None, clean: bool, *, default: object, alone: bool
) -> Part:
    required = default not in models
    model: Part = {"description": "Which model.", "enum": models if required else [*models, None]}
    if not required:
        model["description"] = f"Not needed: this server has {'one' if alone else f'a default, `{default}`'}."
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
    return {**object_of(properties, optional=optional), "examples": [example]}


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


def object_of(properties: Part, *, optional: "tuple[str, ...] | list[str]" = ()) -> Part:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}
