"""Describes the doors for inference of the Open Inference Protocol, for the document at /openapi.json: plain
data, and no code that answers anybody. The doors hand it out when they are asked to describe themselves
(`infer.py`)."""

from penstock.doors.door import Door
from penstock.doors.open_inference.rows import CONTENT_TYPES
from penstock.doors.open_inference.shape import ERROR_SCHEMA, VERSION, path_parameters
from penstock.doors.open_inference.tensor import BYTES
from penstock.doors.openapi_parts import (
    QUOTA_FIELDS,
    STRING,
    TRACEPARENT,
    TRACESTATE,
    X_REQUEST_ID,
    Described,
    Offer,
    Part,
    answered,
    object_of,
    parameter,
)
from penstock.tensors import DATATYPES

_COUNT: Part = {"type": "integer", "minimum": 0}
_LENGTH = parameter(
    "Inference-Header-Content-Length",
    "header",
    "With binary tensors: how many bytes of the body are JSON. The values follow, tensor by tensor.",
    {"type": "integer", "minimum": 0},
)
_DATATYPE: Part = {"enum": [BYTES, *DATATYPES]}
_SHAPE: Part = {
    "type": "array",
    "items": _COUNT,
    "minItems": 1,
    "description": "The first size is the number of rows, each of which is a request of its own.",
}
_PARAMETER: Part = {"type": ["boolean", "number", "string", "null"]}


def describe(door: Door, offer: Offer) -> Described:
    versioned = "{version}" in door.path
    operation = {
        "operationId": "modelVersionInfer" if versioned else "modelInfer",
        "tags": ["Other clients"],
        "summary": "Infer, as the Open Inference Protocol v2 has it",
        "description": "A row of the tensors is a request. Numbers reach a function as arrays. An answer has all"
        " rows, or is an error.",
        "parameters": [*path_parameters(door.path, offer), _LENGTH, X_REQUEST_ID, TRACEPARENT, TRACESTATE],
        "requestBody": {"required": True, "content": _content("OpenInferenceRequest")},
        "responses": {
            "200": {
                **answered(
                    "The tensors", "OpenInferenceAnswer", "X-Request-Id", "traceparent", *QUOTA_FIELDS
                ),
                "content": _content("OpenInferenceAnswer"),
            },
            **door.describe_errors(400, 404, 408, 409, 413, 415, 429, 500, 502, 503, 504),
        },
    }
    return Described(
        {door.path: {"post": operation}},
        {"OpenInferenceRequest": _request(), "OpenInferenceAnswer": _answer(offer), **ERROR_SCHEMA},
    )


def _content(schema: str) -> Part:
    return {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}},
        "application/octet-stream": {"schema": {}},
    }


def _request() -> Part:
    given = {
        "type": ["object", "null"],
        "additionalProperties": _PARAMETER,
        "properties": {
            "timeout": {**_COUNT, "description": "Microseconds: answered by then, or refused."},
            "binary_data_output": {"type": "boolean", "description": "The answer's tensors come in binary."},
            "content_type": {"enum": list(CONTENT_TYPES), "description": f"What elements of {BYTES} are."},
            "priority": {**_COUNT, "description": "Passed over: the tier is the one of the key."},
        },
        "description": "What is not named here is a parameter for the model.",
    }
    own: Part = {"type": ["object", "null"], "additionalProperties": _PARAMETER}
    tensor = object_of(
        {
            "name": STRING,
            "shape": _SHAPE,
            "datatype": _DATATYPE,
            "parameters": own,
            "data": {"type": "array", "description": "The values, flat or in rows; not with binary data."},
        },
        optional=("parameters", "data"),
    )
    output = object_of({"name": STRING, "parameters": own}, optional=("parameters",))
    example = {"inputs": [{"name": "input", "shape": [1], "datatype": BYTES, "data": ["hello"]}]}
    return {
        **object_of(
            {
                "id": {"type": ["string", "null"], "description": "Stands in the answer."},
                "parameters": given,
                "inputs": {"type": "array", "items": tensor, "minItems": 1},
                "outputs": {"type": ["array", "null"], "items": output, "description": "If not all."},
                "model_name": {"type": ["string", "null"], "description": "As in the path."},
                "model_version": {"type": ["string", "null"], "description": "As in the path."},
            },
            optional=("id", "parameters", "outputs", "model_name", "model_version"),
        ),
        "examples": [example],
    }


def _answer(offer: Offer) -> Part:
    tensor = object_of(
        {
            "name": STRING,
            "shape": _SHAPE,
            "datatype": _DATATYPE,
            "parameters": object_of({"binary_data_size": _COUNT}),
            "data": {"type": "array"},
        },
        optional=("parameters", "data"),
    )
    return object_of(
        {
            "model_name": {"enum": list(offer.models)},
            "model_version": {"const": VERSION},
            "id": STRING,
            "parameters": {"type": "object", "description": "How long it took: `queue_ms`, `inference_ms` …"},
            "outputs": {"type": "array", "items": tensor},
        },
        optional=("id",),
    )
