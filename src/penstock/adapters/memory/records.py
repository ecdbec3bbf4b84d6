"""What an installation keeps (answers, dead letters, quotas, tasks, keys), in memory. Only tests use it, to run
gateways, batchers and workers without Redis. The number of records is bounded; a tenant's share of it is not, as it
would be over Redis."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from penstock.adapters.memory.bus import MemoryBus
from penstock.adapters.memory.claims import MemoryClaims
from penstock.adapters.memory.tasks import MemoryEndings, MemoryTasks, SharedTasks
from penstock.loops import for_ever
from penstock.ports import Clock
from penstock.ports.records import no_such_letter
from penstock.ports.tasks import RecordTasks
from penstock.quota import Account, Limiter, Limits
from penstock.types import DeadLetter

AGAIN = 1.0  # seconds after which a ledger that had no room is asked again
MOST_ANSWERS = 10_000  # answers that are kept


class MemoryAnswers:
    """Implements `ports.records.AnswerStore`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By fingerprint, each answer and the time until which it is kept.
        self._kept: OrderedDict[bytes, tuple[bytes, float]] = OrderedDict()

    async def fetch(self, fingerprints: Sequence[bytes]) -> list[bytes | None]:
        now = self._clock()
        found = (self._kept.get(fingerprint) for fingerprint in fingerprints)
        return [each[0] if each is not None and each[1] > now else None for each in found]

    async def keep(self, answers: Sequence[tuple[bytes, bytes, float]]) -> None:
        for fingerprint, value, ttl in answers:
            self._kept[fingerprint] = value, self._clock() + ttl
            self._kept.move_to_end(fingerprint)
        while len(self._kept) > MOST_ANSWERS:
            self._kept.popitem(last=False)


class MemoryLetters:
    """Implements `ports.records.Letters`."""

    def __init__(self, wall_clock: Clock, most: int, ttl: float) -> None:
        self._wall_clock, self._most, self._ttl = wall_clock, most, ttl
        self._numbers = count(1)
        self._letters: dict[str, DeadLetter] = {}

    async def add(self, letters: Sequence[DeadLetter]) -> int:
        for letter in letters:
            letter.id, letter.when = str(next(self._numbers)), self._wall_clock()
            self._letters[letter.id] = replace(letter)
        dropped = max(0, len(self._letters) - self._most)
        for name in list(self._letters)[:dropped]:
            del self._letters[name]
        return dropped

    async def list(self, limit: int = 100, before: str | None = None) -> list[DeadLetter]:
        oldest = self._wall_clock() - self._ttl
        self._letters = {name: each for name, each in self._letters.items() if each.when > oldest}
        last = int(self._find(before).id) if before is not None else None
        newest = [each for each in reversed(self._letters.values()) if last is None or int(each.id) < last]
        return newest[:limit]

    async def show(self, letter_id: str) -> DeadLetter:
        return self._find(letter_id)

    async def remove(self, letter_id: str) -> None:
        del self._letters[self._find(letter_id).id]

    async def purge(self) -> int:
        number = len(self._letters)
        self._letters.clear()
        return number

    def _find(self, letter_id: str) -> DeadLetter:
        letter = self._letters.get(letter_id)
        if letter is None:
            raise no_such_letter(letter_id)
        return letter


class MemoryQuotas:
    """Implements `ports.records.Quotas`. All gateways use one limiter, so quotas are exact."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    def account(self, tenant: str, limits: Limits) -> Account:
        return self._limiter.account(tenant, limits)

    async def run(self) -> None:
        """Does nothing until cancelled: there is no other gateway to agree with."""
        await for_ever()


class MemoryEndedTasks:
    """Implements `ports.tasks.EndedTasks`."""

    def __init__(self, books: SharedTasks, chosen: Callable[[], bool], record: RecordTasks) -> None:
        self._books, self._chosen, self._record = books, chosen, record

    def look_again(self) -> None:
        self._books.told.set()

    async def run(self) -> None:
        books = self._books
        while True:
            await books.told.wait()
            books.told.clear()
            while self._chosen() and (some := list(books.ended)):
                if await self._record(some):
                    for _ in some:
                        books.ended.popleft()
                else:
                    await asyncio.sleep(AGAIN)


class MemoryRecords:
    """Implements `ports.records.Records` for the members of one bus."""

    def __init__(
        self,
        bus: MemoryBus,
        clock: Clock,
        wall_clock: Clock,
        limiter: Limiter,
        *,
        ttl: float = 3600.0,
        most: int = 10_000,
    ) -> None:
        """`ttl`: seconds that each record is kept. `most`: how many of each kind are kept."""
        self._books = SharedTasks(bus.post, clock, wall_clock, ttl, most)
        self._limiter = limiter
        self.answers = MemoryAnswers(clock)
        self.claims = MemoryClaims(self._books, ttl)
        self.endings = MemoryEndings(self._books)
        self.letters = MemoryLetters(wall_clock, most, ttl)

    def tasks(self, box: str) -> MemoryTasks:
        return MemoryTasks(self._books, box)

    def ended_tasks(
        self, chosen: Callable[[], bool], record: RecordTasks, lost: Callable[[int], None]
    ) -> MemoryEndedTasks:
        return MemoryEndedTasks(self._books, chosen, record)

    def quotas(self, me: str, clock: Clock, gateways: Callable[[], int]) -> MemoryQuotas:
        return MemoryQuotas(self._limiter)
