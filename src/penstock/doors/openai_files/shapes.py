"""How files and batches look to OpenAI's clients, and what their doors have in common: the shape of an error, whose
files these are, and pages of a list."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from penstock.doors import openai_shape
from penstock.doors.door import Inside, TellingDoor, Visit
from penstock.doors.openapi_parts import STRING, Part, object_of
from penstock.edge.answer import JSON, Answer
from penstock.errors import Conflict, NotFound, Unacceptable
from penstock.jobs import Job, JobStatus, StoredFile
from penstock.ports.jobs import Jobs
from penstock.types import Failure

Kept = TypeVar("Kept", StoredFile, Job)

FILES = "files"  # the name of these doors, and of the lines that are asked for them
ERRORS = (400, 404, 408, 409, 413, 415, 429, 500, 503)
# Other codes than those of the doors that ask models, where the same error means something else.
_CODES = {NotFound.code: "not_found", Conflict.code: "conflict"}


class KeepingDoor(TellingDoor):
    """A door at which something is kept for tenants."""

    name = FILES

    def __init__(self, inside: Inside, jobs: Jobs) -> None:
        super().__init__(inside)
        self.jobs = jobs

    def charge(self, visit: Visit) -> None:
        """Count the visit as a request of its tenant. Raises OverQuota."""
        if visit.identity is not None:
            self.inside.gateway.charge(visit.identity)

    def failure(self, failure: Failure, request_id: str) -> Answer:
        status, said = openai_shape.said_of(failure)
        if failure.code in _CODES:
            said |= {"code": _CODES[failure.code], "param": None}
        fields = openai_shape.fields_of(failure, status, request_id)
        return Answer(status, fields, msgspec.json.encode({"error": said}))

    def describe_errors(self, *statuses: int) -> Part:
        return openai_shape.refused(*statuses)


def told(said: Part) -> Answer:
    return Answer(200, [JSON], msgspec.json.encode(said))


def file_of(file: StoredFile) -> Part:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": file.created,
        "expires_at": file.expires,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
    }


# The times that a batch tells, by the state that began then.
_TIMES = {f"{status}_at": status.value for status in JobStatus if status not in (JobStatus.VALIDATING,)}


def batch_of(job: Job) -> Part:
    mistakes = [
        {"code": each.code, "message": each.message, "param": None, "line": each.line}
        for each in job.mistakes
    ]
    return {
        "id": job.id,
        "object": "batch",
        "endpoint": job.endpoint,
        "errors": {"object": "list", "data": mistakes} if mistakes else None,
        "input_file_id": job.input_file,
        "completion_window": "24h",
        "status": job.status.value,
        "output_file_id": job.output_file if job.is_over else None,
        "error_file_id": job.error_file if job.is_over else None,
        "created_at": job.created,
        "expires_at": job.expires,
        **{name: job.since.get(status) for name, status in _TIMES.items()},
        "request_counts": {"total": job.total, "completed": job.completed, "failed": job.failed},
        "metadata": job.metadata,
    }


def page_of(
    items: Sequence[Kept], query: dict[str, str], most: int, usual: int
) -> tuple[Sequence[Kept], bool]:
    """Returns the page of a list that a client asks for, and whether more follow it."""
    limit = query.get("limit", str(usual))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 6 and 1 <= int(limit) <= most):
        raise Unacceptable(f"'limit' must be a whole number from 1 to {most}")
    start = 0
    if "after" in query:
        place = next((at for at, item in enumerate(items) if item.id == query["after"]), None)
        if place is None:
            raise Unacceptable("'after' is not in this list")
        start = place + 1
    return items[start : start + int(limit)], len(items) > start + int(limit)


def list_of(items: Sequence[Part], *, more: bool) -> Part:
    return {
        "object": "list",
        "data": items,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": more,
    }


# ---- the document ------------------------------------------------------------------------------------------

COUNT: Part = {"type": "integer", "minimum": 0}
_TIME: Part = {"type": ["integer", "null"], "description": "Seconds since 1970."}
FILE: Part = object_of(
    {
        "id": STRING,
        "object": {"const": "file"},
        "bytes": COUNT,
        "created_at": COUNT,
        "expires_at": COUNT,
        "filename": STRING,
        "purpose": {"enum": ["batch", "batch_output"]},
        "status": {"const": "processed"},
    }
)
METADATA: Part = {
    "type": ["object", "null"],
    "maxProperties": 16,
    "propertyNames": {"maxLength": 64},
    "additionalProperties": {"type": "string", "maxLength": 512},
}
_MISTAKE = object_of(
    {
        "code": STRING,
        "message": STRING,
        "param": {"type": "null"},
        "line": {"type": ["integer", "null"]},
    }
)
BATCH: Part = object_of(
    {
        "id": STRING,
        "object": {"const": "batch"},
        "endpoint": STRING,
        "errors": {
            "anyOf": [
                {"type": "null"},
                object_of({"object": {"const": "list"}, "data": {"type": "array", "items": _MISTAKE}}),
            ]
        },
        "input_file_id": STRING,
        "completion_window": {"const": "24h"},
        "status": {"enum": [status.value for status in JobStatus]},
        "output_file_id": openai_shape.NULLABLE_STRING,
        "error_file_id": openai_shape.NULLABLE_STRING,
        "created_at": COUNT,
        "expires_at": COUNT,
        **dict.fromkeys(_TIMES, _TIME),
        "request_counts": object_of({"total": COUNT, "completed": COUNT, "failed": COUNT}),
        "metadata": METADATA,
    }
)


def list_schema(name: str) -> Part:
    return object_of(
        {
            "object": {"const": "list"},
            "data": {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}},
            "first_id": openai_shape.NULLABLE_STRING,
            "last_id": openai_shape.NULLABLE_STRING,
            "has_more": {"type": "boolean"},
        }
    )
