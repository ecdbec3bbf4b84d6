"""Dead letters, as the admin plane shows them: of one process (SPEC E4).

A letter is retried as a task under its own request id, so that its result can be read whether or not anybody waited
for it the first time. It is removed only once it is accepted again.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from math import inf
from typing import Any

from penstock.config import Config
from penstock.errors import NotFound
from penstock.roles.front import tier_names
from penstock.runtime.gateway import Gateway
from penstock.runtime.tasks import TaskStore
from penstock.types import Ask, DeadLetter, Identity, Outcome, Reply


def is_dead(reply: Reply) -> bool:
    """It was executed, and failed for good; what was refused or came too late never was."""
    return reply.outcome is Outcome.FAILED and reply.request.executions > 0


def described(letter: DeadLetter) -> dict[str, Any]:
    when = datetime.fromtimestamp(letter.when, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "id": letter.id,
        "time": when,
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
        "input": letter.input.decode(errors="replace"),
        "parameters": letter.parameters.decode(errors="replace"),
    }


class MemoryMorgue:
    """Of one process, and gone with it."""

    def __init__(self, gateway: Gateway, tasks: TaskStore, config: Config) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._tiers = tier_names(config)
        self._limit = config.timeouts_of(None).max_client
        self._bound = config.redis.max_dead_letters
        self._letters: OrderedDict[str, DeadLetter] = OrderedDict()
        self._numbers = count(1)
        self.added = 0

    def add(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            if not is_dead(reply):
                continue
            request, failure = reply.request, reply.failure
            assert failure is not None
            letter_id = str(next(self._numbers))
            self._letters[letter_id] = DeadLetter(
                request.key, request.request_id, request.model, request.tenant, request.tier, request.executions,
                failure.code, failure.message, failure.details, request.input, request.parameters, request.cost,
                request.task, letter_id, time.time(),
            )  # fmt: skip
            self.added += 1
            if len(self._letters) > self._bound:
                self._letters.popitem(last=False)

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
