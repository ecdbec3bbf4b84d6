"""The vocabulary of jobs. A job is what OpenAI's clients call a batch: a file whose lines are requests, run when
workers would idle, with a file of answers at its end. `core` decides about jobs, `runtime/jobs` runs them, doors
show them, and `adapters/job_store` keeps them; all of them speak of them with these."""

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, field

from penstock.types import Identity, Seconds

UPLOADED, MADE = "batch", "batch_output"  # purposes of files: sent by a client, or written by a job


class JobStatus(StrEnum):
    """Where a job stands, in OpenAI's words."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


OVER = (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.EXPIRED, JobStatus.CANCELLED)


class StoredFile(Struct, kw_only=True):
    """A file that a client has sent, or that a job has written. Times are seconds since the epoch."""

    id: str
    tenant: str
    name: str
    purpose: str
    size: int
    created: int
    expires: int


class Mistake(Struct):
    """Why a file of lines cannot be run."""

    code: str
    message: str
    line: int | None = None  # counted from 1


class Job(Struct, kw_only=True):
    """One job. Times are seconds since the epoch."""

    id: str
    tenant: str
    endpoint: str
    input_file: str
    created: int
    expires: int
    tier: str | None = None  # of whoever made it; None: nobody had to prove who they are
    key_id: str = ""
    metadata: dict[str, str] | None = None
    status: JobStatus = JobStatus.VALIDATING
    late: bool = False  # whether its time was over before each line had its answer
    since: dict[str, int] = field(default_factory=dict)  # when each status began
    total: int = 0
    completed: int = 0
    failed: int = 0
    # Set once all is written, and the files are about to be there; None in a job that is over: nothing was written.
    output_file: str | None = None
    error_file: str | None = None
    mistakes: list[Mistake] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    @property
    def identity(self) -> Identity | None:
        """Who asks for its lines."""
        return None if self.tier is None else Identity(self.tenant, self.tier, self.key_id)


class Answered(NamedTuple):
    """What is written of one line that has its answer."""

    number: int  # of the line, counted from 0
    line: bytes  # with its newline
    good: bool  # whether it goes to the output, and not to the errors


class Progress(NamedTuple):
    """What was found of a job after a restart."""

    answered: set[int]  # indices of lines
    completed: int
    failed: int
    written: int  # bytes


class Slack(NamedTuple):
    """How busy the workers of one model are now."""

    waiting: int  # requests that are not on a worker
    idle: int  # workers that have nothing to do
    workers: int  # workers that are well


class Said(NamedTuple):
    """The answer to one line."""

    status: int
    body: bytes  # JSON
    code: str = ""  # the error code, where it is an error
    retry_after: Seconds | None = None


_BEGINS = "batch_req_"


def line_name(job_id: str, index: int) -> str:
    """The name of the answer to a line, and of the request that asks it. What is found again of a job goes by
    it."""
    return f"{_BEGINS}{job_id.removeprefix('batch_')}_{index}"


def job_of_line(name: str) -> str | None:
    """The job whose line may have this name; None if no line has."""
    if not name.startswith(_BEGINS):
        return None
    return f"batch_{name[len(_BEGINS) :].partition('_')[0]}"
