"""Bytes for the client: answers are spliced around the output, which is never decoded here (SPEC A1, A6, A7)."""

from datetime import UTC, datetime
from math import ceil

import msgspec

from penstock.errors import STATUS_BY_CODE
from penstock.http.rsgi import Headers
from penstock.ports import Task
from penstock.types import Execution, Failure, Reply

JSON = ("content-type", "application/json")

_FULL = (
    b'{"request_id":"%b","task_id":"%b","output":%b,"model":"%b","latency_ms":%.3f,"metadata":'
    b'{"queue_ms":%.3f,"inference_ms":%.3f,"batch_size":%d,"model_version":%b,"cached":false}}'
)
_SHORT = b'{"output":%b,"request_id":"%b","latency_ms":%.3f}'


def full_answer(reply: Reply, execution: Execution, now: float) -> bytes:
    request = reply.request
    name = request.request_id.encode()
    return _FULL % (
        name,
        name,
        reply.output,
        request.model.encode(),
        (now - request.arrival) * 1e3,
        (execution.started - request.arrival) * 1e3,
        execution.seconds * 1e3,
        execution.batch_size,
        msgspec.json.encode(execution.version) if execution.version else b'""',
    )


def short_answer(reply: Reply, execution: Execution, now: float) -> bytes:
    request = reply.request
    return _SHORT % (reply.output, request.request_id.encode(), (now - request.arrival) * 1e3)


def answer_headers(reply: Reply, execution: Execution) -> Headers:
    request = reply.request
    timing = f"queue;dur={(execution.started - request.arrival) * 1e3:.3f}, infer;dur={execution.seconds * 1e3:.3f}"
    headers = [JSON, ("x-request-id", request.request_id), ("server-timing", timing)]
    if request.traceparent is not None:
        headers.append(("traceparent", request.traceparent))
    return headers


def in_full(failure: Failure) -> str:
    return f"{failure.message}: {failure.details}" if failure.details else failure.message


def error(failure: Failure, request_id: str) -> tuple[int, Headers, bytes]:
    """Status, headers and body of anything that is not an answer; the one place where codes become statuses."""
    said: dict[str, object] = {"error": failure.code, "message": in_full(failure), "request_id": request_id}
    headers = [JSON, ("x-request-id", request_id)]
    if failure.retry_after is not None:
        said["retry_after_ms"] = ceil(failure.retry_after * 1e3)
        headers.append(("retry-after", str(max(1, ceil(failure.retry_after)))))
    return STATUS_BY_CODE.get(failure.code, 500), headers, msgspec.json.encode(said)


def task(task: Task) -> bytes:
    """A3: where a task stands."""
    timestamp = (
        datetime.fromtimestamp(task.changed_at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    said: dict[str, object] = {"task_id": task.id, "status": task.status, "timestamp": timestamp}
    reply = task.reply
    if reply is not None and reply.failure is not None:
        said["error"] = {"error": reply.failure.code, "message": in_full(reply.failure)}
    elif reply is not None:
        said["output"] = msgspec.Raw(reply.output)
    return msgspec.json.encode(said)
