"""The header fields of every answer and every error, and the native shape of an error, which doors without their
own shape use. The doors make their answers with it, and the data plane all errors that no door has shaped."""

from math import ceil

import msgspec

from penstock.doors.ratelimit import quota_of
from penstock.edge.answer import JSON, Answer, Usual
from penstock.errors import STATUS_BY_CODE
from penstock.types import Accepted, Failure


def usual_of(request: Accepted, now: float, timing: str = "") -> Usual:
    """What the head of every answer to this request says. `timing`: as Server-Timing has it."""
    account = request.account
    quota = None if account is None else quota_of(account, now)
    return Usual(request.request_id, timing, request.traceparent, quota)


def failure_fields(failure: Failure, request_id: str) -> list[tuple[str, str]]:
    fields = [JSON, ("x-request-id", request_id)]
    if failure.retry_after is not None:
        fields.append(("retry-after", str(max(1, ceil(failure.retry_after)))))
    return fields


def status_of(failure: Failure) -> int:
    return STATUS_BY_CODE.get(failure.code, 500)


def in_full(failure: Failure) -> str:
    """Returns the message of a failure with its details."""
    return f"{failure.message}: {failure.details}" if failure.details else failure.message


def failed(failure: Failure, request_id: str) -> Answer:
    """Returns the answer to a failure in the native shape."""
    said: dict[str, object] = {"error": failure.code, "message": in_full(failure), "request_id": request_id}
    if failure.retry_after is not None:
        said["retry_after_ms"] = ceil(failure.retry_after * 1e3)
    return Answer(status_of(failure), failure_fields(failure, request_id), msgspec.json.encode(said))
