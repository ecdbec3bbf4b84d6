"""What the contract fuzzer checks besides its own list; loaded by it through SCHEMATHESIS_HOOKS."""

from typing import Any

import msgspec
import schemathesis


@schemathesis.serializer("application/msgpack")
def messagepack(ctx: Any, value: Any) -> Any:
    return msgspec.msgpack.encode(_sayable(value))


def _sayable(value: Any) -> Any:
    """The value with floats in the place of integers that are too long for MessagePack."""
    match value:
        case int() if not -(2**63) <= value < 2**64:
            return 1e30 if value > 0 else -1e30
        case list():
            return [_sayable(each) for each in value]
        case dict():
            return {name: _sayable(each) for name, each in value.items()}
    return value


@schemathesis.check
def no_fault_of_the_server(ctx: Any, response: Any, case: Any) -> None:
    """The backend never fails here: a 5xx can only be what cannot be done in the time it was given."""
    if response.status_code >= 500:
        hurried = isinstance(case.body, dict) and case.body.get("timeout_ms")
        assert hurried, f"{response.status_code} without a timeout_ms"
        assert response.status_code in (503, 504), response.status_code


# Doors with a shape of their own for what went wrong.
SHAPES = {
    "/embed": {"error", "error_type"},
    "/rerank": {"error", "error_type"},
    "/predict": {"error", "error_type"},
    "/v1/rerank": {"message", "detail", "error"},
    "/v2/rerank": {"message", "detail", "error"},
    "/v1/embeddings": {"error"},
    "/v1/completions": {"error"},
    "/v1/models/{model}": {"error"},
    "/v1/files": {"error"},
    "/v1/files/{file_id}": {"error"},
    "/v1/files/{file_id}/content": {"error"},
    "/v1/batches": {"error"},
    "/v1/batches/{batch_id}": {"error"},
    "/v1/batches/{batch_id}/cancel": {"error"},
    "/v2": {"error"},
    "/v2/models/{model}": {"error"},
    "/v2/models/{model}/versions/{version}": {"error"},
    "/v2/models/{model}/ready": {"error"},
    "/v2/models/{model}/versions/{version}/ready": {"error"},
    "/v2/health/live": {"error"},
    "/v2/health/ready": {"error"},
}
NATIVE = {"error", "message", "request_id"}


@schemathesis.check
def every_error_has_the_shape_of_its_door(ctx: Any, response: Any, case: Any) -> None:
    if response.status_code >= 400:
        said = response.json()
        assert SHAPES.get(case.path, NATIVE) <= set(said), said
        [asked] = response.headers["x-request-id"]
        assert asked == said.get("request_id", asked)
