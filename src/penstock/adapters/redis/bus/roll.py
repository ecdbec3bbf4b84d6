"""The members of one kind (gateways, batchers, workers or autoscalers): which are there, and which went without
leaving. The registry has one `Roll` for each kind (`registry.py`).

A heartbeat that cannot be read is set aside. For a member that is known, its heartbeat before that still counts. A
member that is not known does not count until a heartbeat of it can be read. A member's age cannot be more than it
was when we last asked, and the time since. If its entry in the registry says so, another program has written there.
"""

from collections.abc import Callable, Collection
from time import monotonic
from typing import Any, Generic

from penstock.adapters.redis.link.aside import Aside
from penstock.words.basics import Garbled
from penstock.words.heartbeats import H

FORGET_MS = 60_000  # milliseconds after its last heartbeat, a dead member is forgotten
# Two clocks may differ by so many milliseconds over the time from one heartbeat to the next.
_SLACK_MS = 100.0


class Roll(Generic[H]):
    """The members of one kind, by name, each with its last heartbeat."""

    def __init__(self, key: str, read: Callable[[bytes], H], aside: Aside) -> None:
        """`key`: the hash in Redis that holds the members of this kind. `read` reads a heartbeat, or raises
        Garbled."""
        self.members: dict[str, H] = {}
        # The members that went without leaving and are not forgotten yet: how many seconds ago, and their last
        # heartbeats.
        self.lost: dict[str, tuple[float, H]] = {}
        self.ages: dict[str, float] = {}  # seconds since each member was last heard of, when we last asked
        self._key, self._read, self._aside = key, read, aside
        self._texts: dict[str, bytes] = {}  # the text of the heartbeat of each that was read last
        self._buried: set[str] = set()  # members whose death was told while a heartbeat was under way
        # The members whose death was told: when, and their last heartbeats. They count as lost until their
        # supervisor has started another, or for FORGET_MS.
        self._mourned: dict[str, tuple[float, H]] = {}
        # Since when there is no member any more, by our clock; None while there is one.
        self._emptied: float | None = None

    def asking(self) -> None:
        """Note that a heartbeat is sent: its answer may still tell of members that die meanwhile."""
        self._buried.clear()

    def departed(self, name: str) -> bool:
        """Strike off a member that its supervisor saw die. Returns whether it was known."""
        self._buried.add(name)
        said = self.members.pop(name, None)
        if said is None:
            return False
        self._mourned[name] = monotonic(), said
        self.lost[name] = 0.0, said
        self._texts.pop(name, None)
        self.ages.pop(name, None)
        return True

    def update(
        self, entries: list[Any], doubtful: Collection[str], since: float, lease: int, *, unbroken: bool
    ) -> bool:
        """Take in what Redis answered. Returns whether anything changed. `entries`: name, age in ms and heartbeat
        of each member. `doubtful`: members that are counted as if nothing had been heard of them. `since`: seconds
        since we last asked. `lease`: in ms. `unbroken`: service has lasted for a whole lease."""
        self.ages = {name: age + since for name, age in self.ages.items()}
        settled = unbroken and not self._just_emptied(entries, lease)
        live = {name for name in self.members if name in doubtful and self.ages.get(name, 0.0) * 1e3 <= lease}
        silent: dict[str, tuple[float, bytes]] = {}
        changed = False
        for raw, age, text in zip(entries[::3], entries[1::3], entries[2::3], strict=True):
            name = raw.decode(errors="replace")
            if name in self._buried:
                continue
            if name in self.members:
                age = min(age, self.ages.get(name, 0.0) * 1e3 + _SLACK_MS)
            if age > lease:
                silent[name] = age / 1e3, text
                continue
            if self._texts.get(name) != text:
                self._texts[name] = text
                changed |= self._hear(name, text)
            if name in self.members:
                live.add(name)
                self.ages[name] = age / 1e3
        if settled:
            changed |= self._forget(self.members.keys() - live)
        self._count_lost(silent)
        return changed

    def _hear(self, name: str, text: bytes) -> bool:
        try:
            said = self._read(text)
        except Garbled as error:
            self._aside.add("registry", f"{self._key} {name}", f"it describes nobody: {error}", text)
            return False
        if name not in self.members:
            self._replaced(said)
        self.members[name] = said
        return True

    def _forget(self, gone: Collection[str]) -> bool:
        for name in gone:
            del self.members[name]
            self.ages.pop(name, None)
        for name in self._texts.keys() - self.members.keys():
            del self._texts[name]
        return bool(gone)

    def _just_emptied(self, entries: list[Any], lease: int) -> bool:
        """Returns whether the list of members has become empty less than a lease ago. Redis may have lost it; then
        those who live are back within a heartbeat."""
        if entries or not self.members:
            self._emptied = None
            return False
        if self._emptied is None:
            self._emptied = monotonic()
        return (monotonic() - self._emptied) * 1e3 < lease

    def _count_lost(self, silent: dict[str, tuple[float, bytes]]) -> None:
        self.lost.clear()
        for name, (age, text) in silent.items():
            if name not in self.members:
                try:
                    self.lost[name] = age, self._read(text)
                except Garbled:
                    continue
        for name, (died, last_words) in [*self._mourned.items()]:
            age = monotonic() - died
            if age * 1e3 > FORGET_MS:
                del self._mourned[name]
            else:
                self.lost[name] = age, last_words

    def _replaced(self, said: H) -> None:
        """Take a newcomer for the successor of a lost member: of those that the same supervisor started, the one
        that was lost first."""
        supervisor = said.host, said.parent
        for name, (_, dead) in self._mourned.items():
            if (dead.host, dead.parent) == supervisor:
                del self._mourned[name]
                return
