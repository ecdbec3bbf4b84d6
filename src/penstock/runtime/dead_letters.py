"""Dead letters where one process does everything. As an observer it is told of requests that were given up, and
keeps those that failed for good; the admin plane lists, retries and deletes them. `roles/embedded.py` makes one.
Over a bus `cluster/dead_letters.py` takes its place.

A letter is retried as a task under its own request id, so that its result can be read whether or not anybody waited
for it the first time. It is removed only once it is accepted again.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from math import inf
from typing import Any

from penstock.core.dead_letters import is_dead, letter_of, size_of
from penstock.core.shares import Shares
from penstock.ports import Clock, RequestObserver
from penstock.ports.records import no_such_letter
from penstock.runtime.by_tenant import ByTenant
from penstock.runtime.dead_letter_words import described, in_full, say_dropped, say_so
from penstock.runtime.gateway import Gateway
from penstock.runtime.tasks import TaskStore
from penstock.types import Ask, DeadLetter, GivenUp, Identity


class DeadLetters(RequestObserver):
    """The dead letters of one process, which are lost when it ends. A tenant's oldest letters make room for its new
    ones (`penstock.share`)."""

    def __init__(
        self,
        gateway: Gateway,
        tasks: TaskStore,
        models: Iterable[str],
        tiers: Sequence[str],
        clock: Clock,
        wall_clock: Callable[[], float],
        *,
        attempts: int,
        longest: float,
        max_letters: int,
        max_bytes: int,
        share: float,
        ttl: float,
    ) -> None:
        """`attempts`: the number after which a request is given up. `longest`: seconds that a retried letter may
        take. `share`: the part of all letters that one tenant may hold. `ttl`: seconds that a letter is kept."""
        self._wall_clock = wall_clock
        self._gateway = gateway
        self._tasks = tasks
        self._tiers = tiers
        self.longest = longest
        self._attempts = attempts
        self._clock = clock
        self._ttl = ttl
        self._shares = Shares(max_letters, max_bytes, share)
        self._letters: OrderedDict[str, DeadLetter] = OrderedDict()
        self._of_tenant: ByTenant[DeadLetter] = ByTenant()
        self.dropped = 0  # letters since the start that went before their time
        self._numbers = count(1)
        self.added: Counter[str] = Counter(dict.fromkeys(models, 0))  # letters since the start, by model

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        ahead = self._wall_clock() - self._clock()
        dead = [letter_of(reply, ahead) for reply in replies if is_dead(reply, self._attempts)]
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
        """Forget the oldest letters of this tenant until it holds no more than it may. If all tenants together then
        still hold too much, forget the oldest letters of all."""
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
        ask = Ask(letter.input, letter.model, letter.parameters, None, self.longest, letter.request_id)
        # The tenant was found out when the request came; there is no credential to ask for it again.
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
            raise no_such_letter(letter_id)
        return letter
