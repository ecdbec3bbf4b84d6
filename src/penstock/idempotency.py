"""The words of `Idempotency-Key`: what a key names, what counts as the same request, what is kept of it.

A key is its tenant's own. The first request with it is executed as a task, whose id is made of tenant and key; who
asks again with the same key and the same meaning is given the outcome of that task.
"""

from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple, Protocol

import msgspec

from penstock.errors import BackendCrashed, BackendFailed, BackendTimeout, Cancelled, KeyReused
from penstock.ports import Asker, Leaving, Reservation, Task
from penstock.types import Accepted, Outcome, Reply, Request

LARGE = 64 * 1024  # bytes of an input that is compared byte for byte, unless it is a string
MARK = "~"  # begins the id of such a task: no client can choose an id like that (`http.schema.REQUEST_ID`)

# Failures that tell of the input, or that the asker wished for. All others tell how the server was doing,
# or that time ran out: they are not kept, and the next attempt is tried anew.
KEPT_FAILURES = frozenset({BackendFailed.code, BackendCrashed.code, BackendTimeout.code, Cancelled.code})


class Keyed(NamedTuple):
    """What a request with a key is known by."""

    id: str  # of its task
    tenant: str
    fingerprint: str  # of what is asked; never the payload itself


def keyed(key: str, request: Request) -> Keyed:
    """How long a client is willing to wait, and by which route it came, make no difference to what it asks."""
    asked = _digest(request.model.encode(), request.parameters, _plain(request.input))
    return Keyed(MARK + _digest(request.tenant.encode(), key.encode())[:40], request.tenant, asked)


def _digest(*parts: bytes) -> str:
    """Each part with its length, so that no two lists of parts look alike."""
    digest = sha256()
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def _plain(payload: bytes) -> bytes:
    """The same JSON in the same bytes, however it was spaced, escaped or ordered. But large values of many parts
    stay as they came: to take them apart and put them together would hold up everybody else."""
    if len(payload) > LARGE and payload[:1] != b'"':
        return payload
    try:
        return msgspec.json.encode(msgspec.json.decode(payload), order="sorted")
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):  # as it came, then
        return payload


def key_reused() -> KeyReused:
    return KeyReused("this Idempotency-Key was used for another request: send a new key with a new request")


def is_kept(answer: Reply) -> bool:
    if answer.outcome is Outcome.SUCCESS:
        return True
    return answer.failure is not None and answer.failure.code in KEPT_FAILURES


class Replay(Reply, eq=False):
    """An outcome that is given again, to one who asked with the same key."""

    first_id: str = ""  # the request id of who was first


def given_again(answer: Reply, request: Accepted, first_id: str) -> Reply:
    """The outcome as `request` is told it. It has not waited for what was done before it came."""
    execution = answer.execution
    if execution is not None and execution.started < request.arrival:
        execution = replace(execution, started=request.arrival)
    if not is_kept(answer):
        return Reply(request, answer.outcome, answer.output, answer.failure, execution)
    return Replay(request, answer.outcome, answer.output, answer.failure, execution, first_id)


class KeyedRequests(Protocol):
    """Sees to it that one execution answers all who ask with one key. Raises `errors.Refused`."""

    def ask(self, keyed: Keyed, reserved: Reservation, asker: Asker) -> Leaving: ...

    async def ask_task(self, keyed: Keyed, reserved: Reservation) -> tuple[Task, bool]:
        """The task, and whether somebody else had asked for it before."""
        ...

    async def find(self, task_id: str, tenant: str) -> Task: ...
