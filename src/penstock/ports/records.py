"""What is kept for the whole installation, whichever process wrote it. Every method that is awaited may raise
StoreDown. The ledger, which some of these methods mention, is a database with one row for each accepted request
that has ended.

`cluster` calls these; answers are asked for by `runtime/collapse/shared_answers.py`. `adapters/redis/records` and
`adapters/memory` implement them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.errors import NotFound
from penstock.idempotency import Keyed
from penstock.ports import Clock
from penstock.ports.tasks import EndedTasks, RecordTasks, TaskEndings, TaskRecords
from penstock.quota import Limiter
from penstock.types import Accepted, DeadLetter

# Seconds after the deadline of a request: until then, the batcher that took over from a dead one has ended it.
SETTLED_WITHIN = 5.0
# The gateway that has claimed a key must say within this time that its request is published. Otherwise it counts as
# dead. The time is this part of the request's time, and so many seconds at most. Publishing takes milliseconds.
PLACED_WITHIN, PLACED_AT_MOST = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What became of the attempt to claim an Idempotency-Key."""

    ours: bool = False  # the caller has the key, and must publish the request
    other: bool = False  # the key was used for another request
    over: bool = False  # the task of this key is over
    placed: bool = False  # the request of this key has been published
    seconds: float = 0.0  # how long the claim of the gateway that has the key still holds


class AnswerStore(Protocol):
    """Where the gateways of an installation keep answers of deterministic models for each other. Raises
    StoreDown."""

    async def fetch(self, fingerprints: Sequence[bytes]) -> Sequence[bytes | None]:
        """The answer that is kept under each fingerprint; None where there is none."""
        ...

    async def keep(self, answers: Sequence[tuple[bytes, bytes, float]]) -> None:
        """Keep answers: each a fingerprint, a value, and for how many seconds."""
        ...


class Claims(Protocol):
    """Claims on Idempotency-Keys: if several gateways are asked with one key, one of them publishes the request."""

    async def claim(
        self,
        keyed: Keyed,
        request: Accepted,
        asked: str,
        limit: float,
        *,
        row: bool = ...,
        retry_after: float = ...,
    ) -> Claim:
        """Claim the key. `request`: what will be published if the key is ours. `asked`: the asker's own id for it.
        `limit`: seconds that the request may take. `row`: nobody waits for it, so its end is to be a row in the
        ledger. Raises Refused."""
        ...

    async def placed(self, keyed: Keyed, request: Accepted) -> None:
        """Note that the request of this key has been published."""
        ...

    async def forget(self, keyed: Keyed, request: Accepted) -> None:
        """Note that the request was not accepted. Another gateway where an asker waits may then claim the key."""
        ...


def no_such_letter(letter_id: str) -> NotFound:
    return NotFound(f"no dead letter {letter_id!r}: it was removed or retried, or made room for newer ones")


class Letters(Protocol):
    """Dead letters of the whole installation. Raises NotFound for an id nobody knows."""

    async def add(self, letters: Sequence[DeadLetter]) -> int:
        """Add these letters, and give each its id. Returns how many older letters were dropped to make room."""
        ...

    async def list(self, limit: int = ..., before: str | None = ...) -> Sequence[DeadLetter]:
        """The newest letters first. `before`: the id of the last letter on the page before."""
        ...

    async def show(self, letter_id: str) -> DeadLetter: ...

    async def remove(self, letter_id: str) -> None: ...

    async def purge(self) -> int:
        """Remove all letters. Returns how many there were."""
        ...


class Quotas(Limiter, Protocol):
    """A `Limiter` whose limits all gateways share."""

    async def run(self) -> None:
        """Settle with the other gateways, until cancelled, what each may let in."""
        ...


class Records(Protocol):
    """Hands out the records of each kind."""

    @property
    def answers(self) -> AnswerStore: ...

    @property
    def claims(self) -> Claims: ...

    @property
    def endings(self) -> TaskEndings: ...

    @property
    def letters(self) -> Letters: ...

    def tasks(self, box: str) -> TaskRecords:
        """The records of tasks. `box`: the mailbox of this gateway; its notices must be handed to `notice`."""
        ...

    def ended_tasks(
        self, chosen: Callable[[], bool], record: RecordTasks, lost: Callable[[int], None]
    ) -> EndedTasks:
        """Reads the ended tasks, for the ledger. `chosen`: says whether this process is the one that reads.
        `record` is given the rows. `lost` is told how many rows were lost, because nobody took them in time."""
        ...

    def quotas(self, me: str, clock: Clock, gateways: Callable[[], int]) -> Quotas:
        """The quotas at one gateway. `me`: its name. `gateways`: says how many gateways share the limits."""
        ...
