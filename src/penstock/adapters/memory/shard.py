"""Shards in memory. A shard holds the envelopes that are not settled yet, which batcher has taken which of them,
and which batcher leases the shard. `bus.py` makes them, and the publisher, the intake and the leases of this folder
work on them, in tests.
"""

import asyncio
from collections.abc import Collection
from itertools import count


class Shard:
    """One shard: its envelopes, and its lease."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.entries: dict[int, bytes] = {}  # the envelopes, in the order in which they came
        self.given: dict[int, str] = {}  # by entry, the batcher that has taken it
        self.last = 0  # the number of the latest entry that there ever was
        self._last_given = 0  # the number of the latest entry that a batcher has taken
        self.owner = ""  # the batcher that leased it last
        self.fence = 0  # how often the shard has changed hands
        self._ends = 0.0  # when the lease ends

    # ---- entries -------------------------------------------------------------------------------------------

    def publish(self, body: bytes) -> None:
        self.last = next(self._numbers)
        self.entries[self.last] = body

    def take_new(self, batcher: str) -> list[tuple[int, bytes]]:
        """Take the entries that nobody has taken yet."""
        new = [(number, body) for number, body in self.entries.items() if number > self._last_given]
        self._give(batcher, new)
        return new

    def take_over(self, batcher: str, living: Collection[str]) -> list[tuple[int, bytes]]:
        """Take the entries of batchers that are no longer there."""
        left = [
            (number, self.entries[number]) for number, holder in self.given.items() if holder not in living
        ]
        self._give(batcher, left)
        return left

    def _give(self, batcher: str, some: list[tuple[int, bytes]]) -> None:
        for number, _ in some:
            self.given[number] = batcher
            self._last_given = max(self._last_given, number)

    def settle(self, batcher: str, number: int) -> None:
        """Settle an entry. Only the batcher that has it can do so: a batcher that has lost it to another settles
        nothing."""
        if self.given.get(number) == batcher:
            del self.given[number], self.entries[number]

    # ---- the lease -----------------------------------------------------------------------------------------

    def lease(self, batcher: str, now: float, seconds: float) -> int:
        """Take or renew the lease. Returns the fence number of this ownership, or 0 while another batcher has the
        shard."""
        if self.holder(now) not in ("", batcher):
            return 0
        if self.owner != batcher or self._ends <= now:
            self.fence += 1
        self.owner, self._ends = batcher, now + seconds
        return self.fence

    def renew(self, batcher: str, fence: int, now: float, seconds: float) -> bool:
        """Renew the lease. Returns False if it is not this batcher's any more."""
        if self.holder(now) != batcher or self.fence != fence:
            return False
        self._ends = now + seconds
        return True

    def release(self, batcher: str, fence: int) -> None:
        """Give the lease back, if it is still this batcher's."""
        if (self.owner, self.fence) == (batcher, fence):
            self.owner = ""

    def holder(self, now: float) -> str:
        """Returns the batcher that leases the shard now; empty if none does."""
        return self.owner if self._ends > now else ""


class SharedShards:
    """All shards of a bus. An intake adds its bell, an event that is set when something is published."""

    def __init__(self, number: int) -> None:
        self.every = [Shard() for _ in range(number)]
        self._bells: dict[asyncio.Event, None] = {}

    def listen(self, bell: asyncio.Event) -> None:
        self._bells[bell] = None

    def leave(self, bell: asyncio.Event) -> None:
        self._bells.pop(bell, None)

    def publish(self, shard: int, body: bytes) -> None:
        self.every[shard].publish(body)
        for bell in self._bells:
            bell.set()
