"""Bytes that are kept for clients, and which client's request or answer gives way when there are too many. `Edge`
has two `Held`: one counts request bodies that have not arrived in full, the other answers that clients have not
taken (`unsent.py`).

Each body and answer has a limit of its own; this is the limit of all of them together. If strangers hold more than
their part (a quarter where API keys are in use), one of theirs gives way. If all together hold more than `most`,
one of the largest holder's gives way: the largest of that holder's 32 earliest.
"""

import ctypes
import sys
from collections.abc import Callable
from itertools import islice
from typing import Protocol

STRANGERS = ""  # the holder for clients that have not proved who they are
STRANGERS_PART = 4  # where clients can prove who they are, strangers may hold one part in so many
EARLIEST = 32  # the earliest requests or answers of one holder, among which the largest gives way
WORTH_A_TRIM = 32 * 2**20  # bytes: if more than this is freed at once, the allocator is told to give it back
# Connections. If so many have gone together, the allocator is told to give memory back.
WORTH_A_TRIM_TOGETHER = 64
CALM = 4  # calls of `Crowd.look` without a crowd, after which memory is given back


class Holding(Protocol):
    """A connection or a stream for which bytes are counted here."""

    held: int  # bytes that it holds here
    holder: str  # a tenant, or STRANGERS

    def crowded_out(self) -> None:
        """Give way: refuse or cut off the client, and hold nothing any more."""
        ...


class _Account:
    """What one holder has here."""

    __slots__ = ("members", "size")

    def __init__(self) -> None:
        self.size = 0
        self.members: dict[Holding, None] = {}  # the holdings of one holder, the earliest first


class Held:
    """All bytes of one kind that are kept for clients, by holder."""

    def __init__(self, most: int, *, keys: bool = False, trim: Callable[[], object] | None = None) -> None:
        """`keys`: whether clients can prove who they are."""
        self.most = most
        self.total = 0
        self.crowded_out = 0  # how often a request or an answer had to give way
        self._strangers = most // STRANGERS_PART if keys else most
        self._accounts: dict[str, _Account] = {}
        self._peak = 0
        self._trim = trim or give_memory_back

    @property
    def crowded(self) -> bool:
        """Whether so much is held that large bodies should lie in memory of their own (`body.py`)."""
        return self.total > WORTH_A_TRIM

    def change(self, who: Holding, size: int) -> None:
        """Note how many bytes `who` holds now. Somebody gives way if that is too much."""
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
        """Give memory back to the system when the bodies that took it are gone. `Edge` calls it each tick."""
        if self._peak > WORTH_A_TRIM and self.total < self._peak // 4:
            self._peak = self.total
            self._trim()


class Crowd:
    """How many connections there are at once. With TLS each takes some tens of kilobytes. When many have gone,
    their memory stays with the allocator, which is then told to give it back."""

    def __init__(self, trim: Callable[[], object] | None = None) -> None:
        self._most = 0  # the most connections there were at once
        self._calm = 0  # looks since most of them have gone
        self._trim = trim or give_memory_back

    def look(self, here: int) -> None:
        """Give memory back when many connections have gone and do not come again at once. `Edge` calls it each
        tick. `here`: how many connections there are now."""
        self._most = max(self._most, here)
        if self._most < WORTH_A_TRIM_TOGETHER or here > self._most // 2:
            self._calm = 0
            return
        self._calm += 1
        if self._calm >= CALM:
            self._most, self._calm = here, 0
            self._trim()


def give_memory_back() -> None:
    """Make the allocator give free memory back to the system."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
