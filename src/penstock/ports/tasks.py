"""The records of tasks (asynchronous requests) over a bus. Every method that is awaited may raise StoreDown.

`cluster` calls these; `adapters/redis/records` and `adapters/memory` implement them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from penstock.errors import Cancelled, NotFound
from penstock.types import Accepted, Failure, Outcome, Reply, TaskStatus
from penstock.words.messages import Notice


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as it stood when it was read."""

    id: str
    tenant: str
    key: str
    model: str
    status: TaskStatus
    changed_at: float  # seconds since the epoch
    answer: Reply | None
    asked: str = ""  # with an Idempotency-Key: the id that the first asker gave its request


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What a batcher must be told so that a cancelled task does not go to a worker."""

    shard: int
    key: str


WITHDRAWN = Failure(Cancelled.code, "cancelled by its asker")


def no_such_task(task_id: str, ttl: float) -> NotFound:
    """The error for a task that is not there. `ttl`: seconds that a result is kept."""
    return NotFound(
        f"no task {task_id[:128]!r}: there never was one, or its result is older than {ttl:g} s"
        " (limits.result_ttl), or was fetched and has made room for others"
    )


class TaskRecords(Protocol):
    """Tasks at a gateway: accepted here, read and cancelled anywhere."""

    async def create(
        self,
        request: Accepted,
        limit: float,
        *,
        watch: bool = ...,
        retry_after: float = ...,
        letter: str = ...,
    ) -> None:
        """Record a task, before its request is published. Raises Refused, with `retry_after`, if there is no room,
        and Conflict if there is a task with this id. `limit`: seconds after which the request is over in any case.
        `watch`: this gateway wants a notice of its end. `letter`: the dead letter that is retried by the task. Then
        a task with this id that is over is replaced, unless it was made for the same letter."""
        ...

    async def placed(self, request: Accepted) -> None:
        """Note that the request has been sent: from now on it can be withdrawn from anywhere."""
        ...

    async def forget(self, task_id: str, tenant: str) -> None:
        """Drop the record of a request that was never accepted."""
        ...

    async def find(self, task_id: str, tenant: str) -> TaskRecord:
        """The task, for its tenant. It counts as read from then on. Raises NotFound for a task of another
        tenant."""
        ...

    async def peek(self, task_id: str, tenant: str) -> TaskRecord:
        """The task, for the admin plane. It does not count as read."""
        ...

    async def wait(self, task_id: str, tenant: str, seconds: float) -> TaskRecord:
        """Wait until the task is over, but not longer than `seconds`. Returns its record then."""
        ...

    def notice(self, message: Notice) -> None:
        """Take in a notice from the mailbox: a task that is waited for here is over."""
        ...

    async def cancel(self, task_id: str, tenant: str) -> Withdrawal | None:
        """End the task if it is not over. None: there is nothing to withdraw."""
        ...


@dataclass(frozen=True, slots=True)
class Ended:
    """How a task ended, as the worker or batcher that ended it says."""

    task: str  # the task's name
    outcome: Outcome
    output: bytes = b""
    failure: Failure | None = None
    execution: bytes = b""  # the execution, as `words.messages.encode_execution` writes it


class TaskEndings(Protocol):
    """Writes down how tasks end, once for each, and tells the gateways where an asker waits."""

    async def processing(self, tasks: Sequence[str]) -> None:
        """Note that these tasks have gone to a worker."""
        ...

    async def settle(self, endings: Sequence[Ended]) -> Sequence[Ended]:
        """Store the endings of tasks. The first ending of a task counts, so a task may be settled twice. Returns
        those that could not be stored, because the records could not be reached for too long."""
        ...


class EndedTask(Struct, frozen=True, gc=False):
    """A task that has ended, as a row for the ledger."""

    key: str
    task_id: str
    tenant: str
    tier: int
    model: str
    status: str  # SUCCESS, or the error code
    created: float  # seconds since the epoch
    completed: float  # seconds since the epoch


class EndedTasks(Protocol):
    """Reads which tasks have ended, if this process is the one chosen for that. Each task is read again until it is
    recorded."""

    def look_again(self) -> None:
        """Look now: which process is chosen may have changed."""
        ...

    async def run(self) -> None:
        """Read until cancelled."""
        ...


# Records rows in the ledger. Returns False if they could not be recorded; then it is called with them again.
RecordTasks = Callable[[Sequence[EndedTask]], Awaitable[bool]]
