"""What the contract fuzzer checks besides its own list; loaded by it through SCHEMATHESIS_HOOKS."""

from typing import Any

import schemathesis


@schemathesis.check
def no_fault_of_the_server(ctx: Any, response: Any, case: Any) -> None:
    """The backend never fails here: a 5xx can only be what cannot be done in the time it was given."""
    if response.status_code >= 500:
        hurried = isinstance(case.body, dict) and case.body.get("timeout_ms")
        assert hurried, f"{response.status_code} without a timeout_ms"
        assert response.status_code in (503, 504), response.status_code


@schemathesis.check
def every_error_has_the_one_shape(ctx: Any, response: Any, case: Any) -> None:
    if response.status_code >= 400:
        said = response.json()
        assert {"error", "message", "request_id"} <= set(said), said
        assert response.headers["x-request-id"] == [said["request_id"]]
