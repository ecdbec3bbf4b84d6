"""Dead letters, as the admin plane shows them: of one process (SPEC E4).

A letter is retried as a task under its own request id, so that its result can be read whether or not anybody waited
for it the first time. It is removed only once it is accepted again.
"""

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from math import inf
from typing import Any

from msgspec import structs

from penstock.config import Config
from penstock.errors import BatchRejected, NotFound
from penstock.ports import Clock
from penstock.roles.front import tier_names
from penstock.runtime.gateway import Gateway
from penstock.runtime.tasks import TaskStore
from penstock.types import Ask, DeadLetter, Identity, Outcome, Reply

log = logging.getLogger("penstock.dead_letters")

MOST_LINES = 10  # in the log, of letters that come at once; of the others only their number is told


def is_dead(reply: Reply, attempts: int) -> bool:
    """Whether it failed for good by its own doing, or spent all its attempts.

    A request that merely shared a batch with the bad one, or whose worker was lost, and that ran out of time, is no
    letter: sent again, it would be served."""
    request = reply.request
    if reply.outcome is not Outcome.FAILED or not request.history:
        return False
    last = request.history[-1]
    if last.code == BatchRejected.code and (last.batch_size == 1 or not last.splittable):
        return True  # the backend lives, and refused this very request
    return request.executions >= attempts and (last.batch_size == 1 or not last.splittable)


def letter_of(reply: Reply, clock: Clock) -> DeadLetter:
    """Attempts are told by the time of day from here on."""
    request, failure = reply.request, reply.failure
    assert failure is not None
    ahead = time.time() - clock()
    return DeadLetter(
        request.key, request.request_id, request.model, request.tenant, request.tier, request.executions,
        failure.code, failure.message, failure.details, request.input, request.parameters, request.cost,
        request.task, [structs.replace(attempt, when=attempt.when + ahead) for attempt in request.history],
    )  # fmt: skip


def say_so(letters: Sequence[DeadLetter]) -> None:
    """In the log, without anything that a client has sent, its id included: the letter's own id leads to it."""
    for letter in letters[:MOST_LINES]:
        log.warning(
            "dead letter",
            extra={
                "id": letter.id,
                "model": letter.model,
                "code": letter.code,
                "attempts": letter.attempts,
            },
        )
    if len(letters) > MOST_LINES:
        log.warning("more dead letters", extra={"letters": len(letters) - MOST_LINES})


def described(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "time": _as_text(letter.when),
        "request_id": letter.request_id,
        "model": letter.model,
        "tenant": letter.tenant,
        "tier": letter.tier,
        "attempts": letter.attempts,
        "error": letter.code,
        "message": letter.message,
    }


def in_full(letter: DeadLetter) -> dict[str, Any]:
    return {
        **described(letter),
        "details": letter.details,
        "history": [
            {
                "time": _as_text(attempt.when),
                "error": attempt.code,
                "message": attempt.message,
                "details": attempt.details,
                "worker": attempt.worker,
                "batch_size": attempt.batch_size,
            }
            for attempt in letter.history
        ],
        "input": letter.input.decode(errors="replace"),
        "parameters": letter.parameters.decode(errors="replace"),
    }


def _as_text(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class MemoryMorgue:
    """Of one process, and gone with it."""

    def __init__(self, gateway: Gateway, tasks: TaskStore, config: Config, clock: Clock) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._tiers = tier_names(config)
        self._limit = config.timeouts_of(None).max_client
        self._attempts = config.retries.attempts
        self._clock = clock
        self._bound = config.redis.max_dead_letters
        self._letters: OrderedDict[str, DeadLetter] = OrderedDict()
        self._numbers = count(1)
        self.added = Counter(dict.fromkeys(config.models, 0))  # by model, since the start

    def add(self, replies: Sequence[Reply]) -> None:
        dead = [letter_of(reply, self._clock) for reply in replies if is_dead(reply, self._attempts)]
        for letter in dead:
            letter.id, letter.when = str(next(self._numbers)), time.time()
            self._letters[letter.id] = letter
            self.added[letter.model] += 1
            if len(self._letters) > self._bound:
                self._letters.popitem(last=False)
        say_so(dead)

    def __len__(self) -> int:
        return len(self._letters)

    async def list(self, limit: int, before: str | None) -> Sequence[Mapping[str, Any]]:
        newest = list(reversed(self._letters.values()))
        if before is not None:
            self._find(before)
            newest = [letter for letter in newest if int(letter.id) < int(before)]
        return [described(letter) for letter in newest[:limit]]

    async def show(self, letter_id: str) -> Mapping[str, Any]:
        return in_full(self._find(letter_id))

    async def retry(self, letter_id: str) -> str:
        letter = self._find(letter_id)
        first = self._tasks.peek(letter.request_id, letter.tenant)
        if first is not None:
            self._tasks.forget(first)
        ask = Ask(letter.input, letter.model, letter.parameters, None, self._limit, letter.request_id)
        # Who it was for was found out when it came; there is no credential to ask for it again.
        ask.identity = Identity(letter.tenant, self._tiers[letter.tier], "", inf)
        task = await self._gateway.submit_task(ask)
        self._letters.pop(letter_id, None)
        return task.id

    async def remove(self, letter_id: str) -> None:
        self._find(letter_id)
        del self._letters[letter_id]

    async def purge(self) -> int:
        number = len(self._letters)
        self._letters.clear()
        return number

    def _find(self, letter_id: str) -> DeadLetter:
        letter = self._letters.get(letter_id)
        if letter is None:
            raise NotFound(
                f"no dead letter {letter_id!r}: it was removed or retried, or made room for newer ones"
            )
        return letter
