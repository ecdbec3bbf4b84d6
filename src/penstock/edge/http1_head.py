"""Writes the head of an answer for HTTP/1.1. A connection writes each of its answers with it (`http1.py`)."""

from http import HTTPStatus

from penstock.edge.answer import JSON_ALONE, Answer

GOES_ON, ENDS = "\r\n", "connection: close\r\n\r\n"  # the end of a head: more answers may follow, or none

_FIRST_LINE = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
# Whoever should speak another protocol is told which (RFC 9110, 15.5.22). HTTP/2 has no such field.
_FIRST_LINE[426] += "upgrade: websocket\r\n"
_FIRST_LINES_OF_JSON = {
    status: f"{line}content-type: application/json\r\n" for status, line in _FIRST_LINE.items()
}


def head_of_parts(answer: Answer, date: str) -> bytes:
    """The head of an answer whose length nobody knows yet: it ends with its connection."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in answer.all_fields)
    return f"{_FIRST_LINE[answer.status]}{fields}date: {date}\r\n{ENDS}".encode("latin-1")


def head_of_switch(answer: Answer, date: str) -> bytes:
    """The head of an answer after which the connection speaks WebSocket."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in answer.all_fields)
    switched = "upgrade: websocket\r\nconnection: Upgrade\r\n"
    return f"{_FIRST_LINE[answer.status]}{switched}{fields}date: {date}\r\n\r\n".encode("latin-1")


def head_of(answer: Answer, date: str, ending: str = GOES_ON) -> bytes:
    if answer.fields is JSON_ALONE:
        lines = _FIRST_LINES_OF_JSON[answer.status]
    else:
        lines = _FIRST_LINE[answer.status]
        for name, value in answer.fields:
            lines += f"{name}: {value}\r\n"
    size, usual = len(answer.before) + len(answer.body) + len(answer.after), answer.usual
    if usual is None:
        return f"{lines}content-length: {size}\r\ndate: {date}\r\n{ending}".encode("latin-1")
    # `Usual.fields`, spelt out: a line for each.
    timing = f"server-timing: {usual.timing}\r\n" if usual.timing else ""
    trace = "" if usual.traceparent is None else f"traceparent: {usual.traceparent}\r\n"
    if usual.quota is None:
        quota = ""
    else:
        limit, remaining, reset = usual.quota
        quota = (
            f"ratelimit-limit: {limit}\r\nratelimit-remaining: {remaining}\r\nratelimit-reset: {reset}\r\n"
        )
    return (
        f"{lines}x-request-id: {usual.request_id}\r\n{timing}{trace}{quota}"
        f"content-length: {size}\r\ndate: {date}\r\n{ending}"
    ).encode("latin-1")
