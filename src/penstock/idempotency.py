"""The rules of `Idempotency-Key`: what a key names, which requests count as the same, and what is kept of them.

Each tenant has keys of its own. The first request with a key is executed as a task, whose id is made of tenant and
key. An asker that sends the same request with the same key again is given the outcome of that task. The doors read
the key. The gateway hands the request to a store that follows these rules: `runtime/idempotency.py` in one process,
`cluster/idempotency.py` over a bus. Nothing is stored here.
"""

from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple, Protocol

import msgspec

from penstock.errors import BackendCrashed, BackendFailed, BackendTimeout, Cancelled, KeyReused
from penstock.ports import Asker, Leaving, Reservation, Task
from penstock.types import Accepted, Outcome, Reply, Request

LARGE = 64 * 1024  # bytes of an input that is compared byte for byte, unless it is a string
MARK = "~"  # begins the id of such a task; `edge/fields.py` allows no client to choose an id like that

# Failures that the input caused, or that the asker wished for. All others say how the server was doing, or that
# time ran out: they are not kept, and the next request with the key is executed again.
KEPT_FAILURES = frozenset({BackendFailed.code, BackendCrashed.code, BackendTimeout.code, Cancelled.code})


class Keyed(NamedTuple):
    """By what a request with a key is recognised."""

    id: str  # the id of its task
    tenant: str
    fingerprint: str  # a digest of what is asked


def keyed(key: str, request: Request) -> Keyed:
    """Returns how a request with this key is recognised. Model, parameters and input count; its time limit and its
    door do not."""
    asked = _digest(request.model.encode(), request.parameters, _plain(request.input))
    return Keyed(MARK + _digest(request.tenant.encode(), key.encode())[:40], request.tenant, asked)


def _digest(*parts: bytes) -> str:
    """The SHA-256 of the parts, each with its length, so that no two lists of parts give the same bytes."""
    digest = sha256()
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def _plain(payload: bytes) -> bytes:
    """Returns the same bytes for the same JSON, however it was spaced, escaped or ordered. But large values of many
    parts stay as they came: to take them apart and put them together would hold up everybody else."""
    if len(payload) > LARGE and payload[:1] != b'"':
        return payload
    try:
        return msgspec.json.encode(msgspec.json.decode(payload), order="sorted")
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return payload  # what cannot be read and written again is compared as it came


def key_reused() -> KeyReused:
    """The refusal of a key that was used for another request."""
    return KeyReused("this Idempotency-Key was used for another request: send a new key with a new request")


def is_kept(answer: Reply) -> bool:
    """Whether this outcome answers later requests with the key."""
    if answer.outcome is Outcome.SUCCESS:
        return True
    return answer.failure is not None and answer.failure.code in KEPT_FAILURES


class Replay(Reply, eq=False):
    """An outcome that is given again, to an asker with the same key."""

    first_id: str = ""  # the id of the first request with the key


def given_again(answer: Reply, request: Accepted, first_id: str) -> Reply:
    """The outcome as a reply to `request`. If the execution began before that request came, it is told to have
    begun then."""
    execution = answer.execution
    if execution is not None and execution.started < request.arrival:
        execution = replace(execution, started=request.arrival)
    if not is_kept(answer):
        return Reply(request, answer.outcome, answer.output, answer.failure, execution)
    return Replay(request, answer.outcome, answer.output, answer.failure, execution, first_id)


class KeyedRequests(Protocol):
    """Makes sure that one execution answers all askers with one key. Raises `errors.Refused`."""

    def ask(self, keyed: Keyed, reserved: Reservation, asker: Asker) -> Leaving:
        """Give the asker the outcome, once there is one."""
        ...

    async def ask_task(self, keyed: Keyed, reserved: Reservation) -> tuple[Task, bool]:
        """The task, and whether somebody else had asked for it before."""
        ...

    async def find(self, task_id: str, tenant: str) -> Task:
        """The task with this id, of this tenant. Raises NotFound."""
        ...
