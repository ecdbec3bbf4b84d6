"""Bytes for the client: answers are spliced around the output, which is never decoded here (SPEC A1, A6, A7)."""

from datetime import UTC, datetime
from math import ceil

import msgspec

from penstock.errors import STATUS_BY_CODE
from penstock.http.rsgi import Headers
from penstock.ports import Task
from penstock.types import Execution, Failure, Reply, Request

JSON = ("content-type", "application/json")


def full_answer(reply: Reply, execution: Execution, now: float) -> tuple[Headers, bytes]:
    """The output goes last, as it is; what the members of a batch share is rendered once."""
    request = reply.request
    request_id = request.request_id
    timing, metadata = execution.rendered or _render(execution, request.model)
    queue = f"{(execution.started - request.arrival) * 1e3:.3f}"
    start = (
        f'{{"request_id":"{request_id}","task_id":"{request_id}",'
        f'"latency_ms":{(now - request.arrival) * 1e3:.3f},"metadata":{{"queue_ms":{queue}{metadata}'
    )
    return _headers(request, f"queue;dur={queue}{timing}"), b"%b%b}" % (start.encode(), reply.output)


def short_answer(reply: Reply, execution: Execution, now: float) -> tuple[Headers, bytes]:
    request = reply.request
    timing, _ = execution.rendered or _render(execution, request.model)
    queue = f"{(execution.started - request.arrival) * 1e3:.3f}"
    start = (
        f'{{"request_id":"{request.request_id}","latency_ms":{(now - request.arrival) * 1e3:.3f},"output":'
    )
    return _headers(request, f"queue;dur={queue}{timing}"), b"%b%b}" % (start.encode(), reply.output)


def _render(execution: Execution, model: str) -> tuple[str, str]:
    infer = f"{execution.seconds * 1e3:.3f}"
    version = msgspec.json.encode(execution.version).decode()
    execution.rendered = (
        f", infer;dur={infer}",
        f',"inference_ms":{infer},"batch_size":{execution.batch_size},"model_version":{version},"cached":false}},'
        f'"model":"{model}","output":',
    )
    return execution.rendered


def _headers(request: Request, timing: str) -> Headers:
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
    reply = task.answer
    if reply is not None and reply.failure is not None:
        said["error"] = {"error": reply.failure.code, "message": in_full(reply.failure)}
    elif reply is not None:
        said["output"] = msgspec.Raw(reply.output)
    return msgspec.json.encode(said)
