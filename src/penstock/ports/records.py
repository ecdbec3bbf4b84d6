"""What is kept for the whole installation, whichever process wrote it. All that waits raises StoreDown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.errors import NotFound
from penstock.idempotency import Keyed
from penstock.ports import Clock
from penstock.ports.tasks import EndedTasks, RecordTasks, TaskEndings, TaskRecords
from penstock.quota import Limiter
from penstock.types import Accepted, DeadLetter

# Seconds after the deadline of a request in which the successor of a dead batcher still ends it.
SETTLED_WITHIN = 5.0
# Whoever has claimed a key must say within this time that its request is published; after that it counts as dead.
# Publishing takes milliseconds. Half of the request's time, and ten seconds at most, is left for that word to
# arrive.
PLACED_WITHIN, PLACED_AT_MOST = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What became of the attempt to claim an Idempotency-Key."""

    ours: bool = False
    other: bool = False  # the key stands for another request
    over: bool = False
    placed: bool = False  # its request has been published
    seconds: float = 0.0  # seconds for which whoever has the key is believed to execute its request


class AnswerStore(Protocol):
    """Where the gateways of an installation keep answers for each other. Raises StoreDown."""

    async def fetch(self, fingerprints: Sequence[bytes]) -> Sequence[bytes | None]:
        """The answer that is kept under each fingerprint; None where there is none."""
        ...

    async def keep(self, answers: Sequence[tuple[bytes, bytes, float]]) -> None:
        """Keep answers: each a fingerprint, a value, and for how many seconds."""
        ...


class Claims(Protocol):
    """Claims on Idempotency-Keys: of all gateways that are asked with one key, one executes the request."""

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
        """Claim the key. `request`: what is published if the key is ours. `asked`: the asker's own id. `limit`:
        seconds the request may take. `row`: nobody waits for it, so that its end is a row for the ledger. Raises
        Refused."""
        ...

    async def placed(self, keyed: Keyed, request: Accepted) -> None:
        """Note that the request of this key has been published."""
        ...

    async def forget(self, keyed: Keyed, request: Accepted) -> None:
        """Note that the request was not accepted: whoever waits for it elsewhere may try."""
        ...


def no_such_letter(letter_id: str) -> NotFound:
    return NotFound(f"no dead letter {letter_id!r}: it was removed or retried, or made room for newer ones")


class Letters(Protocol):
    """Dead letters of the whole installation. Raises NotFound for an id nobody knows."""

    async def add(self, letters: Sequence[DeadLetter]) -> int:
        """Add these letters, and give each its id. Gives how many older letters made room for them."""
        ...

    async def list(self, limit: int = ..., before: str | None = ...) -> Sequence[DeadLetter]:
        """The newest letters first. `before`: the id of the last letter on the page before."""
        ...

    async def show(self, letter_id: str) -> DeadLetter: ...

    async def remove(self, letter_id: str) -> None: ...

    async def purge(self) -> int: ...


class Quotas(Limiter, Protocol):
    """Holds tenants to limits that all gateways share."""

    async def run(self) -> None: ...


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
        """The rows of ended tasks. `chosen`: whether this process is the one that reads. `lost` is told how many
        rows nobody took in time."""
        ...

    def quotas(self, me: str, clock: Clock, gateways: Callable[[], int]) -> Quotas: ...
