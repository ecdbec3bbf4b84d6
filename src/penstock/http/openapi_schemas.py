"""The shapes of what is sent and answered, for the document at /openapi.json (SPEC A11)."""

from collections.abc import Mapping
from typing import Any

from penstock.errors import STATUS_BY_CODE
from penstock.types import TaskStatus

Part = dict[str, Any]

TEXT = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]*$"  # tab, newline and return are text


def schemas(models: Mapping[str, str], clean: bool, default: object) -> Part:
    number = {"type": "number", "minimum": 0}
    text = {"type": "string"}
    codes = sorted(code for code in STATUS_BY_CODE if code != "CLIENT_LEFT")  # never sent
    output = {"description": "What the model made of the input: a string, or any JSON where it gives JSON."}
    kinds = {kind: [name for name, k in models.items() if k == kind] for kind in sorted(set(models.values()))}
    requests = [
        _request(names, kind, clean, default=default, alone=len(models) == 1) for kind, names in kinds.items()
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
                    },
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
                "error": {
                    **object_of({"error": {"enum": codes}, "message": text}),
                    "description": "When FAILED, EXPIRED or CANCELLED.",
                },
            },
            optional=("output", "error"),
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


def _request(models: list[str], kind: str, clean: bool, *, default: object, alone: bool) -> Part:
    required = default not in models
    model: Part = {"description": "Which model.", "enum": models if required else [*models, None]}
    if not required:
        model["description"] = f"Not needed: this server has {'one' if alone else f'a default, `{default}`'}."
    properties = {
        "input": _input(kind, clean),
        "model": model,
        "parameters": {
            "type": ["object", "null"],
            "description": "For the model; only requests with the same parameters share a batch.",
        },
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


def _input(kind: str, clean: bool) -> Part:
    if kind != "text":
        return {"description": "Any JSON value."}
    refused = {"pattern": TEXT} if clean else {}
    return {"type": "string", **refused, "description": "The text, without control characters."}


def object_of(properties: Part, *, optional: "tuple[str, ...] | list[str]" = ()) -> Part:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}
