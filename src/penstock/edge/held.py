"""Bytes of requests that have not come in full: how many there are in all, and who gives way when it is too much.

A body that is larger than one read is kept until its end has come. Each has a bound of its own, and a time; this is
the bound of all of them together. Whoever holds the most gives way: first those who have not proved who they are,
who share a quarter of the room where keys are asked for, then the tenant that holds more than any other. Of what
they hold, one that came early and is large is refused.
"""

import ctypes
import sys
from collections.abc import Callable
from itertools import islice
from typing import Protocol

STRANGERS = ""  # the holder of what nobody has proved to be theirs
STRANGERS_PART = 4  # strangers have this part of the room, where clients can prove who they are
EARLIEST = 32  # the earliest requests of one holder, among which the largest gives way
WORTH_A_TRIM = 32 * 2**20  # bytes: if more than this is freed at once, the allocator is told to give it back
# connections: if so many have gone together, the allocator is told to give memory back
WORTH_A_TRIM_TOGETHER = 128
CALM = 4  # looks without a crowd before memory is given back


class Holding(Protocol):
    """A connection or a stream with part of a request."""

    held: int  # bytes that it holds here
    holder: str  # a tenant, or STRANGERS

    def crowded_out(self) -> None:
        """Give way: its client is refused, and it holds nothing any more."""
        ...


class _Account:
    __slots__ = ("members", "size")

    def __init__(self) -> None:
        self.size = 0
        self.members: dict[Holding, None] = {}  # the holdings of one holder, the earliest first


class Held:
    def __init__(self, most: int, *, keys: bool = False, trim: Callable[[], object] | None = None) -> None:
        """`keys`: whether clients can prove who they are."""
        self.most = most
        self.total = 0
        self.crowded_out = 0  # how often a request had to give way
        self._strangers = most // STRANGERS_PART if keys else most
        self._accounts: dict[str, _Account] = {}
        self._peak = 0
        self._trim = trim or give_memory_back

    @property
    def crowded(self) -> bool:
        """Whether so much is held that what is added should leave nothing behind."""
        return self.total > WORTH_A_TRIM

    def change(self, who: Holding, size: int) -> None:
        """Note that `who` holds this much now; with 0, nothing any more."""
        more = size - who.held
        account = self._accounts.get(who.holder)
        if account is None:
            if not size:
                return
            account = self._accounts[who.holder] = _Account()
        if size:
            account.members[who] = None
        else:
            account.members.pop(who, None)
            if not account.members:
                del self._accounts[who.holder]
        who.held = size
        account.size += more
        self.total += more
        if more > 0:
            self._peak = max(self._peak, self.total)
            while who.holder == STRANGERS and account.size > self._strangers:
                self._give_way(account)
            while self.total > self.most:
                self._give_way(max(self._accounts.values(), key=lambda each: each.size))

    def _give_way(self, account: _Account) -> None:
        largest = max(islice(account.members, EARLIEST), key=lambda each: each.held)
        self.crowded_out += 1
        largest.crowded_out()
        assert not largest.held

    def look(self) -> None:
        """Give memory back to the system, when the bodies that took it are gone. To be called now and then."""
        if self._peak > WORTH_A_TRIM and self.total < self._peak // 4:
            self._peak = self.total
            self._trim()


class Crowd:
    """How many connections there are at once. With TLS each takes some tens of kilobytes, and when many have gone
    their memory lies in pieces."""

    def __init__(self, trim: Callable[[], object] | None = None) -> None:
        self._most = 0  # the most connections there were at once
        self._calm = 0  # looks since most of them have gone
        self._trim = trim or give_memory_back

    def look(self, here: int) -> None:
        """Give memory back when a crowd has gone and does not come again at once. To be called now and then."""
        self._most = max(self._most, here)
        if self._most < WORTH_A_TRIM_TOGETHER or here > self._most // 2:
            self._calm = 0
            return
        self._calm += 1
        if self._calm >= CALM:
            self._most, self._calm = here, 0
            self._trim()


def give_memory_back() -> None:
    """Make the allocator give free memory back to the system. What large bodies took lies in pieces that may be
    of no use to anything else."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
