"""The states of a job, and what is to be done with it next. `runtime/jobs` asks it after each event; the time is an
argument, in seconds since the epoch.

    VALIDATING ──its lines are right──► IN_PROGRESS ──each has an answer──► FINALIZING ──► COMPLETED
       │  │                                │   │                               │
       │  └ wrong ──► FAILED               │   └ its time is over: the rest is ├──────────► EXPIRED
       │                                   │     written as not executed ──────┘
       └───────────── cancelled ───────────┴──► CANCELLING ── what ran is written ──► CANCELLED

Each event gives a new job and never changes one. An event that means nothing in a state leaves the job as it is: a
job that is over cannot be cancelled, and an expiry that comes twice is one."""

from collections.abc import Sequence
from enum import Enum

from msgspec.structs import replace

from penstock.jobs import Job, JobStatus, Mistake

# The states from which each state can be reached.
_FROM = {
    JobStatus.IN_PROGRESS: (JobStatus.VALIDATING,),
    JobStatus.FAILED: (JobStatus.VALIDATING,),
    JobStatus.CANCELLING: (JobStatus.VALIDATING, JobStatus.IN_PROGRESS),
    JobStatus.FINALIZING: (JobStatus.IN_PROGRESS,),
    JobStatus.COMPLETED: (JobStatus.FINALIZING,),
    JobStatus.EXPIRED: (JobStatus.VALIDATING, JobStatus.FINALIZING),
    JobStatus.CANCELLED: (JobStatus.CANCELLING,),
}


class Next(Enum):
    """What is to be done with a job."""

    CHECK = "check its lines"
    RUN = "start lines"
    WAIT = "wait for the lines in flight"
    WRITE_REST = "write that the other lines were not executed"
    CLOSE = "make files of what was written, and end"
    NOTHING = "it is over"


def moved(job: Job, status: JobStatus, now: float) -> Job:
    """The job in another state, if it can go there."""
    if job.status not in _FROM[status]:
        return job
    return replace(job, status=status, since={**job.since, status.value: int(now)})


def checked(job: Job, total: int, mistakes: Sequence[Mistake], now: float) -> Job:
    """The job once its lines were checked: there are `total` of them."""
    if mistakes:
        return replace(moved(job, JobStatus.FAILED, now), mistakes=list(mistakes), total=total)
    return replace(moved(job, JobStatus.IN_PROGRESS, now), total=total)


def cancelled(job: Job, now: float) -> Job:
    """The job once somebody has cancelled it."""
    return moved(job, JobStatus.CANCELLING, now)


def ticked(job: Job, answered: int, in_flight: int, now: float) -> Job:
    """The job as time and answers have made it. `answered`: lines whose answers are written."""
    if job.status is JobStatus.VALIDATING and now >= job.expires:
        return moved(job, JobStatus.EXPIRED, now)
    if job.status is JobStatus.IN_PROGRESS and not in_flight:
        if answered >= job.total:
            return moved(job, JobStatus.FINALIZING, now)
        if now >= job.expires:
            return replace(moved(job, JobStatus.FINALIZING, now), late=True)
    return job


def next_for(job: Job, answered: int, in_flight: int, now: float) -> Next:
    """What is to be done now with a job that `ticked` has looked at."""
    if job.is_over:
        return Next.NOTHING
    if job.status is JobStatus.VALIDATING:
        return Next.CHECK
    if in_flight and (job.status is JobStatus.CANCELLING or now >= job.expires):
        return Next.WAIT
    if job.status is JobStatus.FINALIZING and job.output_file is None and answered < job.total:
        return Next.WRITE_REST
    if job.status in (JobStatus.FINALIZING, JobStatus.CANCELLING):
        return Next.CLOSE
    return Next.RUN


def closed(job: Job, now: float) -> Job:
    """The job once its files are there."""
    if job.status is JobStatus.CANCELLING:
        return moved(job, JobStatus.CANCELLED, now)
    return moved(job, JobStatus.EXPIRED if job.late else JobStatus.COMPLETED, now)
