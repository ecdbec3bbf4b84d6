"""What the doors for OpenAI's clients have in common: the shape of an error, when their client is to try again, and
the count of tokens. Such doors import it (`embeddings.py`, `completions.py`, `one_model.py`).

    {"error": {"message": "…", "type": "invalid_request_error", "param": "input", "code": "unacceptable"}}

That client tries again, twice, after 408, 409, 429 and every 5xx. After a deadline or a conflict that would only do
the work once more, so those two say `x-should-retry: false`.
"""

import re
from collections.abc import Sequence
from math import ceil

import msgspec

from penstock.doors.door import AskingDoor
from penstock.doors.every_answer import failure_fields, in_full, status_of
from penstock.doors.openapi_parts import STRING, Part, answered, object_of
from penstock.edge.answer import Answer
from penstock.errors import Forbidden, NotFound, Overloaded, OverQuota, Unacceptable, Unauthorized
from penstock.output import without_note
from penstock.types import Failure, Reply

INVALID, SERVER = "invalid_request_error", "server_error"
NOT_AGAIN = (409, 504)

# Status, type and code, by our code. Every other code keeps its status, and is the client's mistake below 500.
_KNOWN = {
    Unacceptable.code: (400, INVALID, "invalid_value"),
    Unauthorized.code: (401, "authentication_error", "invalid_api_key"),
    Forbidden.code: (403, "permission_error", "forbidden"),
    NotFound.code: (404, INVALID, "model_not_found"),
    OverQuota.code: (429, "requests", "rate_limit_exceeded"),
    Overloaded.code: (503, SERVER, "server_overloaded"),
}
_NAMED = re.compile(r"(?:the field |unknown field )?'(\w+)'")


def said_of(failure: Failure) -> tuple[int, Part]:
    """Returns the status of a failure, and what its answer holds under `error`."""
    status = status_of(failure)
    usual = (status, INVALID if status < 500 else SERVER, failure.code.lower())
    status, kind, code = _KNOWN.get(failure.code, usual)
    named = _NAMED.match(failure.message)
    parameter = "model" if failure.code == NotFound.code else named[1] if named else None
    return status, {"message": in_full(failure), "type": kind, "param": parameter, "code": code}


def fields_of(failure: Failure, status: int, request_id: str) -> list[tuple[str, str]]:
    fields = failure_fields(failure, request_id)
    if failure.retry_after is not None:
        fields.append(("retry-after-ms", str(max(1, ceil(failure.retry_after * 1e3)))))
    if status in NOT_AGAIN:
        fields.append(("x-should-retry", "false"))
    return fields


def failed(failure: Failure, request_id: str) -> Answer:
    """Returns the answer to a failure."""
    status, said = said_of(failure)
    return Answer(status, fields_of(failure, status, request_id), msgspec.json.encode({"error": said}))


class OpenAIDoor(AskingDoor):
    """A door whose errors have this shape."""

    name = "openai"

    def failure(self, failure: Failure, request_id: str) -> Answer:
        return failed(failure, request_id)

    def describe_errors(self, *statuses: int) -> Part:
        return refused(*statuses)


# ---- tokens ------------------------------------------------------------------------------------------------


def tokens_of(replies: Sequence[Reply]) -> int:
    """Returns the tokens that the model's function says it has used; 0 if it says nothing."""
    return sum(_tokens(reply.output) for reply in replies)


def _tokens(output: bytes) -> int:
    _, note = without_note(output)
    if not note:
        return 0
    return msgspec.json.decode(f"{{{note}}}", type=_Note).tokens_used


class _Note(msgspec.Struct):
    tokens_used: int = 0


# ---- the document ------------------------------------------------------------------------------------------

NULLABLE_STRING: Part = {"type": ["string", "null"]}
USER: Part = {
    "type": ["string", "null"],
    "minLength": 1,
    "maxLength": 128,
    "description": "Who asks, where nobody has to prove it: as `client_id` at `/v1/inference`.",
}
# They change nothing: the tier is the one of the key.
PASSED_OVER: Part = {
    "service_tier": {**NULLABLE_STRING, "description": "Passed over: the tier is the one of the key."},
    "priority": {"type": ["number", "null"], "description": "Passed over, likewise."},
}
ERROR: Part = object_of({"message": STRING, "type": STRING, "param": NULLABLE_STRING, "code": STRING})
ERROR_SCHEMA: Part = {"OpenAIError": object_of({"error": ERROR})}
ERRORS = (400, 404, 408, 409, 413, 415, 429, 500, 502, 503, 504)


def refused(*statuses: int) -> Part:
    about = "In the shape that OpenAI's clients know."
    return {str(status): answered(about, "OpenAIError", "X-Request-Id") for status in statuses}
