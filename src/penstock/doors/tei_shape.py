"""What the doors for clients of Text Embeddings Inference have in common: the shape of an error, and options. Such
doors import it (`tei.py`, `tei_rerank.py`, `tei_predict.py`).

    {"error": "…", "error_type": "Validation"}

An overloaded server answers 429 at these doors and not 503, because these clients try again after a 429. To them
503 means that the server is unwell.
"""

import msgspec

from penstock.doors.door import AskingDoor
from penstock.doors.every_answer import failure_fields, in_full, status_of
from penstock.doors.openapi_parts import STRING, Part, answered, object_of
from penstock.doors.options import Option
from penstock.edge.answer import Answer
from penstock.errors import (
    BackendCrashed,
    BackendFailed,
    BackendOutOfMemory,
    BackendTimeout,
    BackendUnavailable,
    DeadlineExceeded,
    Draining,
    Internal,
    NoInput,
    Overloaded,
    OverQuota,
    StoreDown,
)
from penstock.types import Failure

# Status and error type, by our code. Every other code is the client's mistake, and keeps its status.
_KNOWN = {
    NoInput.code: (400, "Empty"),
    OverQuota.code: (429, "Overloaded"),
    Overloaded.code: (429, "Overloaded"),
    DeadlineExceeded.code: (504, "Overloaded"),
    Draining.code: (503, "Unhealthy"),
    StoreDown.code: (503, "Unhealthy"),
    BackendFailed.code: (424, "Backend"),
    BackendOutOfMemory.code: (424, "Backend"),
    BackendCrashed.code: (424, "Backend"),
    BackendTimeout.code: (424, "Backend"),
    BackendUnavailable.code: (424, "Backend"),
    Internal.code: (500, "Backend"),
}
ERRORS = (400, 408, 409, 413, 415, 422, 424, 429, 500, 503, 504)


class TeiDoor(AskingDoor):
    """A door whose errors have this shape."""

    name = "tei"

    def failure(self, failure: Failure, request_id: str) -> Answer:
        status, kind = _KNOWN.get(failure.code) or (status_of(failure), "Validation")
        said = {"error": in_full(failure), "error_type": kind}
        return Answer(status, failure_fields(failure, request_id), msgspec.json.encode(said))

    def describe_errors(self, *statuses: int) -> Part:
        about = "In the shape that these clients know."
        return {str(status): answered(about, "TeiError", "X-Request-Id") for status in statuses}


# ---- options, and the document -----------------------------------------------------------------------------

TRUNCATION = {
    "truncate": Option((False,), {"type": "boolean"}),
    "truncation_direction": Option(("Right", "right"), {"enum": ["Left", "left", "Right", "right"]}),
}
OF_SCORES = {**TRUNCATION, "raw_scores": Option((False,), {"type": "boolean"})}
ERROR_SCHEMA: Part = {
    "TeiError": object_of(
        {
            "error": STRING,
            "error_type": {"enum": ["Backend", "Empty", "Overloaded", "Unhealthy", "Validation"]},
        }
    )
}
