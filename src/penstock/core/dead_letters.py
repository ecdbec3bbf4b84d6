"""Which request becomes a dead letter, what the letter says, and how much room it takes.

Those who keep dead letters ask about each request that failed: `runtime/dead_letters.py` in one process, a
batcher's `cluster/letter_writer.py` over a bus.
"""

from collections.abc import Sequence
from itertools import accumulate

from msgspec import structs

from penstock.errors import BatchRejected
from penstock.share import OVERHEAD
from penstock.types import DeadLetter, GivenUp, Seconds


def is_dead(reply: GivenUp, attempts: int) -> bool:
    """Whether a request failed for good by its own doing, or spent all its attempts.

    If a request merely shared a batch with the bad one, or its worker was lost, and it then ran out of time, it is
    no dead letter: sent again, it would be served.
    """
    if not reply.history:
        return False  # the request was never on a worker: a backend wanted it later than its deadline
    last = reply.history[-1]
    if last.code == BatchRejected.code and (last.batch_size == 1 or not last.splittable):
        return True  # the backend lives, and refused this very request
    return reply.executions >= attempts and (last.batch_size == 1 or not last.splittable)


def letter_of(reply: GivenUp, ahead: Seconds) -> DeadLetter:
    """The dead letter of a request. `ahead` is added to the times of its attempts: it is by how much the time of
    day is ahead of our clock."""
    request, failure = reply.request, reply.failure
    assert failure is not None
    return DeadLetter(
        request.key, request.request_id, request.model, request.tenant, request.tier, reply.executions,
        failure.code, failure.message, failure.details, request.input, request.parameters, request.cost,
        request.task, [structs.replace(attempt, when=attempt.when + ahead) for attempt in reply.history],
    )  # fmt: skip


def size_of(letter: DeadLetter) -> int:
    """The bytes that a letter counts for."""
    told = sum(len(attempt.message) + len(attempt.details) for attempt in letter.history)
    words = len(letter.message) + len(letter.details)
    return OVERHEAD + len(letter.input) + len(letter.parameters) + words + told


def within(size: int, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Returns the first of these letters, as many as take `size` bytes or less."""
    taken = accumulate(size_of(letter) for letter in letters)
    return [letter for letter, so_far in zip(letters, taken, strict=True) if so_far <= size]
