"""Bytes for the client: answers are spliced around the output, which is never decoded here."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from math import ceil

import msgspec

from penstock.doors.ratelimit import quota_lines
from penstock.errors import STATUS_BY_CODE
from penstock.output import NOTED, without_note
from penstock.ports import Task
from penstock.types import Accepted, Execution, Failure, Reply
from penstock.units import write_time

JSON = ("content-type", "application/json")
OK = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"

# A reply, its execution, the time, and how every head ends just now; gives the whole response.
Render = Callable[[Reply, Execution, float, str], bytes]

_FIRST_LINE = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in HTTPStatus}


def head(status: int, headers: Sequence[tuple[str, str]], length: int, ending: str) -> bytes:
    lines = [
        _FIRST_LINE[status],
        *(f"{name}: {value}" for name, value in headers),
        f"content-length: {length}",
        f"{ending}\r\n",
    ]
    return "\r\n".join(lines).encode("latin-1")


def full_answer(reply: Reply, execution: Execution, now: float, ending: str) -> bytes:
    """The output goes last, as it is; what the members of a batch share is rendered once."""
    request, output = reply.request, reply.output
    request_id, arrival = request.request_id, request.arrival
    timing, metadata = execution.rendered or _render(execution, request.model)
    queue = f"{(execution.started - arrival) * 1e3:.3f}"
    if output[-1] == NOTED:
        output, note = without_note(output)
        metadata = f",{note}{metadata}"
    start = (
        f'{{"request_id":"{request_id}","task_id":"{request_id}",'
        f'"latency_ms":{(now - arrival) * 1e3:.3f},"metadata":{{"queue_ms":{queue}{metadata}'
    )
    if not start.isascii():
        return _whole(request, f"queue;dur={queue}{timing}", start, output, now, ending)
    quota = "" if request.account is None else quota_lines(request.account, now)
    trace = "" if request.traceparent is None else f"traceparent: {request.traceparent}\r\n"
    return b"%b%b}" % (  # the same, spelt out for the usual case
        (
            f"{OK}x-request-id: {request_id}\r\nserver-timing: queue;dur={queue}{timing}\r\n{trace}{quota}"
            f"content-length: {len(start) + len(output) + 1}\r\n{ending}\r\n{start}"
        ).encode(),
        output,
    )


def short_answer(reply: Reply, execution: Execution, now: float, ending: str) -> bytes:
    request = reply.request
    timing, _ = execution.rendered or _render(execution, request.model)
    queue = f"{(execution.started - request.arrival) * 1e3:.3f}"
    start = (
        f'{{"request_id":"{request.request_id}","latency_ms":{(now - request.arrival) * 1e3:.3f},"output":'
    )
    output, _ = without_note(reply.output)
    return _whole(request, f"queue;dur={queue}{timing}", start, output, now, ending)


def _render(execution: Execution, model: str) -> tuple[str, str]:
    infer = f"{execution.seconds * 1e3:.3f}"
    version = msgspec.json.encode(execution.version).decode()
    execution.rendered = (
        f", infer;dur={infer}",
        f',"inference_ms":{infer},"batch_size":{execution.batch_size},"model_version":{version},'
        f'"cached":{"true" if execution.cached else "false"}}},"model":"{model}","output":',
    )
    return execution.rendered


def _whole(request: Accepted, timing: str, start: str, output: bytes, now: float, ending: str) -> bytes:
    more = "" if request.traceparent is None else f"traceparent: {request.traceparent}\r\n"
    if request.account is not None:
        more += quota_lines(request.account, now)
    size = len(start) if start.isascii() else len(start.encode())
    return b"%b%b}" % (
        (
            f"{OK}x-request-id: {request.request_id}\r\nserver-timing: {timing}\r\n{more}"
            f"content-length: {size + len(output) + 1}\r\n{ending}\r\n{start}"
        ).encode(),
        output,
    )


def in_full(failure: Failure) -> str:
    return f"{failure.message}: {failure.details}" if failure.details else failure.message


def error(failure: Failure, request_id: str) -> tuple[int, list[tuple[str, str]], bytes]:
    """Status, headers and body of anything that is not an answer; the one place where codes become statuses."""
    said: dict[str, object] = {"error": failure.code, "message": in_full(failure), "request_id": request_id}
    headers = [JSON, ("x-request-id", request_id)]
    if failure.retry_after is not None:
        said["retry_after_ms"] = ceil(failure.retry_after * 1e3)
        headers.append(("retry-after", str(max(1, ceil(failure.retry_after)))))
    return STATUS_BY_CODE.get(failure.code, 500), headers, msgspec.json.encode(said)


def task(task: Task) -> bytes:
    """Where a task stands."""
    timestamp = write_time(task.changed_at)
    said: dict[str, object] = {"task_id": task.id, "status": task.status, "timestamp": timestamp}
    reply = task.answer
    if reply is not None and reply.failure is not None:
        said["error"] = {"error": reply.failure.code, "message": in_full(reply.failure)}
    elif reply is not None:
        output, note = without_note(reply.output)
        said["output"] = msgspec.Raw(output)
        if note:
            said["metadata"] = msgspec.Raw(f"{{{note}}}".encode())
    return msgspec.json.encode(said)
