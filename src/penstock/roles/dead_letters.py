"""Dead letters, as the admin plane shows them: of one process.

A letter is retried as a task under its own request id, so that its result can be read whether or not anybody waited
for it the first time. It is removed only once it is accepted again.
"""

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, count
from math import inf
from typing import Any

from msgspec import structs

from penstock.config import Config
from penstock.core.shares import Shares
from penstock.errors import BatchRejected, NotFound
from penstock.ports import Clock, RequestObserver
from penstock.roles.from_config import tier_names
from penstock.runtime.by_tenant import ByTenant
from penstock.runtime.gateway import Gateway
from penstock.runtime.tasks import TaskStore
from penstock.share import OVERHEAD
from penstock.types import Ask, DeadLetter, GivenUp, Identity
from penstock.units import time_of_day

log = logging.getLogger("penstock.dead_letters")

MOST_LINES = 10  # in the log, of letters that come at once; of the others only their number is told


def is_dead(reply: GivenUp, attempts: int) -> bool:
    """Whether it failed for good by its own doing, or spent all its attempts.

    A request that merely shared a batch with the bad one, or whose worker was lost, and that ran out of time, is no
    letter: sent again, it would be served."""
    last = reply.history[-1]
    if last.code == BatchRejected.code and (last.batch_size == 1 or not last.splittable):
        return True  # the backend lives, and refused this very request
    return reply.executions >= attempts and (last.batch_size == 1 or not last.splittable)


def letter_of(reply: GivenUp, clock: Clock) -> DeadLetter:
    """Attempts are told by the time of day from here on."""
    request, failure = reply.request, reply.failure
    assert failure is not None
    ahead = time.time() - clock()
    return DeadLetter(
        request.key, request.request_id, request.model, request.tenant, request.tier, reply.executions,
        failure.code, failure.message, failure.details, request.input, request.parameters, request.cost,
        request.task, [structs.replace(attempt, when=attempt.when + ahead) for attempt in reply.history],
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


def say_dropped(number: int) -> None:
    log.warning(
        "dead letters made room for newer ones: redis.max_dead_letters, limits.max_dead_letter_bytes and"
        " limits.tenant_share bound them",
        extra={"letters": number},
    )


def size_of(letter: DeadLetter) -> int:
    """Bytes that it counts for."""
    told = sum(len(attempt.message) + len(attempt.details) for attempt in letter.history)
    words = len(letter.message) + len(letter.details)
    return OVERHEAD + len(letter.input) + len(letter.parameters) + words + told


def within(size: int, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """The first of them, as many as take no more bytes."""
    taken = accumulate(size_of(letter) for letter in letters)
    return [letter for letter, so_far in zip(letters, taken, strict=True) if so_far <= size]


def described(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "time": time_of_day(letter.when),
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
                "time": time_of_day(attempt.when),
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


class MemoryMorgue(RequestObserver):
    """Of one process, and gone with it. A tenant's oldest letters make room for its new ones (`penstock.share`)."""

    def __init__(
        self,
        gateway: Gateway,
        tasks: TaskStore,
        config: Config,
        clock: Clock,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._wall_clock = wall_clock
        self._gateway = gateway
        self._tasks = tasks
        self._tiers = tier_names(config)
        self._limit = config.timeouts_of(None).max_client
        self._attempts = config.retries.attempts
        self._clock = clock
        limits = config.limits
        self._ttl = limits.dead_letter_ttl
        self._shares = Shares(
            config.redis.max_dead_letters, limits.max_dead_letter_bytes, limits.tenant_share
        )
        self._letters: OrderedDict[str, DeadLetter] = OrderedDict()
        self._of_tenant: ByTenant[DeadLetter] = ByTenant()
        self.dropped = 0  # before their time, since the start
        self._numbers = count(1)
        self.added = Counter(dict.fromkeys(config.models, 0))  # by model, since the start

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        dead = [letter_of(reply, self._clock) for reply in replies if is_dead(reply, self._attempts)]
        if not dead:
            return
        self._forget_the_old()
        dropped = self.dropped
        for letter in dead:
            letter.id, letter.when = str(next(self._numbers)), self._wall_clock()
            self._letters[letter.id] = letter
            self._of_tenant.add(letter.tenant, letter.id, letter)
            self._shares.take(letter.tenant, size_of(letter))
            self.added[letter.model] += 1
            self._make_room(letter.tenant)
        say_so(dead)
        if self.dropped > dropped:
            say_dropped(self.dropped - dropped)

    def _make_room(self, tenant: str) -> None:
        """By the oldest letters of this tenant. If many small ones are too much together, by the oldest of all."""
        while (grown := self._shares.overgrown(tenant)) is not None or self._shares.overfull:
            own = None if grown is None else self._of_tenant.oldest(tenant)
            self._forget(own or next(iter(self._letters.values())))
            self.dropped += 1

    def _forget(self, letter: DeadLetter) -> None:
        if self._letters.pop(letter.id, None) is not None:
            self._of_tenant.drop(letter.tenant, letter.id)
            self._shares.give(letter.tenant, size_of(letter))

    def _forget_the_old(self) -> None:
        ends = self._wall_clock() - self._ttl
        while self._letters:
            oldest = next(iter(self._letters.values()))
            if oldest.when > ends:
                return
            self._forget(oldest)

    def __len__(self) -> int:
        return len(self._letters)

    async def list(self, limit: int, before: str | None) -> Sequence[Mapping[str, Any]]:
        self._forget_the_old()
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
        self._forget(letter)
        return task.id

    async def remove(self, letter_id: str) -> None:
        self._forget(self._find(letter_id))

    async def purge(self) -> int:
        number = len(self._letters)
        for letter in list(self._letters.values()):
            self._forget(letter)
        return number

    def _find(self, letter_id: str) -> DeadLetter:
        self._forget_the_old()
        letter = self._letters.get(letter_id)
        if letter is None:
            raise NotFound(
                f"no dead letter {letter_id!r}: it was removed or retried, or made room for newer ones"
            )
        return letter
