"""How files and batches look to OpenAI's clients, and what their doors have in common: the shape of an error, whose
files these are, and pages of a list. The document at /openapi.json has the structs' own schemas."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypeVar

import msgspec
from msgspec import Meta, Struct

from penstock.doors import openai_shape
from penstock.doors.door import Inside, TellingDoor, Visit
from penstock.doors.openapi_parts import Part
from penstock.edge.answer import JSON, Answer
from penstock.errors import Conflict, NotFound, Unacceptable
from penstock.jobs import MADE, UPLOADED, Job, JobStatus, StoredFile
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


def told(said: Struct) -> Answer:
    return Answer(200, [JSON], msgspec.json.encode(said))


Count = Annotated[int, Meta(ge=0)]
Time = Annotated[int | None, Meta(description="Seconds since 1970.")]
Pairs = dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]]
Metadata = Annotated[Pairs, Meta(max_length=16)] | None


class OpenAIFile(Struct, tag_field="object", tag="file", forbid_unknown_fields=True):
    """A file."""

    id: str
    bytes: Count
    created_at: Count
    expires_at: Count
    filename: str
    purpose: Annotated[str, Meta(extra_json_schema={"enum": [UPLOADED, MADE]})]
    status: Literal["processed"]

    @classmethod
    def of(cls, file: StoredFile) -> Self:
        return cls(file.id, file.size, file.created, file.expires, file.name, file.purpose, "processed")


class FileDeleted(Struct, tag_field="object", tag="file", forbid_unknown_fields=True):
    id: str
    deleted: Literal[True]


class FileMistake(Struct, forbid_unknown_fields=True):
    """Why the lines of a file cannot be run."""

    code: str
    message: str
    param: None
    line: int | None


class FileMistakes(Struct, tag_field="object", tag="list", forbid_unknown_fields=True):
    data: list[FileMistake]


class LineCounts(Struct, forbid_unknown_fields=True):
    """How many lines a batch has."""

    total: Count
    completed: Count
    failed: Count


class OpenAIBatch(Struct, tag_field="object", tag="batch", forbid_unknown_fields=True, kw_only=True):
    """A batch of the lines of a file."""

    id: str
    endpoint: str
    errors: FileMistakes | None
    input_file_id: str
    completion_window: Literal["24h"]
    status: JobStatus
    output_file_id: str | None
    error_file_id: str | None
    created_at: Count
    expires_at: Count
    in_progress_at: Time
    finalizing_at: Time
    completed_at: Time
    failed_at: Time
    expired_at: Time
    cancelling_at: Time
    cancelled_at: Time
    request_counts: LineCounts
    metadata: Metadata

    @classmethod
    def of(cls, job: Job) -> Self:
        mistakes = [FileMistake(each.code, each.message, None, each.line) for each in job.mistakes]
        began = job.since.get
        return cls(
            id=job.id,
            endpoint=job.endpoint,
            errors=FileMistakes(mistakes) if mistakes else None,
            input_file_id=job.input_file,
            completion_window="24h",
            status=job.status,
            output_file_id=job.output_file if job.is_over else None,
            error_file_id=job.error_file if job.is_over else None,
            created_at=job.created,
            expires_at=job.expires,
            in_progress_at=began(JobStatus.IN_PROGRESS),
            finalizing_at=began(JobStatus.FINALIZING),
            completed_at=began(JobStatus.COMPLETED),
            failed_at=began(JobStatus.FAILED),
            expired_at=began(JobStatus.EXPIRED),
            cancelling_at=began(JobStatus.CANCELLING),
            cancelled_at=began(JobStatus.CANCELLED),
            request_counts=LineCounts(job.total, job.completed, job.failed),
            metadata=job.metadata,
        )


class _Page(Struct, tag_field="object", tag="list", forbid_unknown_fields=True):
    """A part of a list."""

    first_id: str | None
    last_id: str | None
    has_more: bool


class FileList(_Page):
    data: list[OpenAIFile]

    @classmethod
    def of(cls, files: Sequence[StoredFile], *, more: bool) -> Self:
        return cls(*_ends(files), more, [OpenAIFile.of(file) for file in files])


class BatchList(_Page):
    data: list[OpenAIBatch]

    @classmethod
    def of(cls, jobs: Sequence[Job], *, more: bool) -> Self:
        return cls(*_ends(jobs), more, [OpenAIBatch.of(job) for job in jobs])


def _ends(items: Sequence[Kept]) -> tuple[str | None, str | None]:
    return (items[0].id, items[-1].id) if items else (None, None)


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
