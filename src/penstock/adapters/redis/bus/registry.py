"""Who is there: every process says so with each heartbeat, and reads who else does.

Ages are counted inside Redis, on its one clock, so a process that was paused learns the truth with its next
heartbeat. When Redis itself was away (stopped, restarted, failed over), it is the heartbeats that are
missing and not the members: the script notices that nobody has beaten for a while and counts all ages anew,
and says for how long service has been unbroken. Until that is a full lease, nobody known here counts as gone,
whether Redis still remembers them or has lost everything.

A member that has missed heartbeats is looked at again in the very moment its lease ends, and not only with the next
heartbeat. One whose supervisor saw it die is gone at once (`departed`).

What somebody says of itself and cannot be read is set aside. A member that is known keeps what it said last; one
that is not known does not count until it can be read, which its next heartbeat may mend. Nor is a member older than
it was when we last asked, and the time since: whatever its place in the registry says, somebody else wrote that.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import msgspec
from redis.exceptions import RedisError

from penstock.adapters.redis.bus.descriptions import read_member, read_model
from penstock.adapters.redis.link.connect import Patience, Store, guard
from penstock.adapters.redis.link.scripts import BEAT
from penstock.ports.registry import KINDS

_FORGET_MS = 60_000
_MEMORY_EVERY = 1.0
_SLACK_MS = 100.0  # by which two clocks may count the time from one heartbeat to the next differently
_STAMPED = re.compile(rb"\d+ ")
SILENT = 0.75  # part of a lease without a word, after which nobody counts on a member
_SOON = (
    0.002  # seconds after the end of a lease at which it has surely passed, by the whole milliseconds of ages
)


class Registry:
    def __init__(
        self, store: Store, kind: str, me: str, describe: Callable[[], Mapping[str, object]]
    ) -> None:
        self.members: dict[str, dict[str, dict[str, Any]]] = {each: {} for each in KINDS}
        # Gone without a word and not forgotten yet: how long ago, and what they said last.
        self.lost: dict[str, dict[str, tuple[float, dict[str, Any]]]] = {each: {} for each in KINDS}
        self.models: dict[str, dict[str, Any]] = {}
        self.ages: dict[str, float] = {}  # seconds since each was last heard of, when we last asked
        self.reachable = False
        self.memory_ratio = 0.0  # of the memory that Redis may use
        self.on_changed: Callable[[], None] = lambda: None
        self.on_heard: Callable[[], None] = lambda: None  # with every beat that Redis answered
        self._store = store
        self._kind, self._me, self._describe = kind, me, describe
        self._keys = [store.keys.registry(each) for each in ("pulse", "models", *KINDS)]
        self._texts: dict[tuple[str, str], bytes] = {}  # descriptions as they were read last
        self._announced: dict[str, bytes] = {}
        self._unsaid: set[str] = set()  # models of which Redis does not know the latest
        self._asked = 0.0  # when we last did, by our clock
        self._memory_read = -_MEMORY_EVERY
        self._buried: set[str] = set()  # whose death was told while a heartbeat was under way
        # By kind: whose death was told, when, and what they said of themselves. They are missing until their
        # supervisor has started another, or for as long as those are who went without a word.
        self._mourned: dict[str, dict[str, tuple[float, dict[str, Any]]]] = {kind: {} for kind in KINDS}
        self._emptied: dict[str, float] = {}  # since when nobody of a kind is there any more, by our clock
        self._left = False
        self._one_at_a_time = asyncio.Lock()  # a beat under way must not undo that we left

    async def run(self) -> None:
        """Beats until cancelled, whatever Redis does."""
        patience = Patience(f"The registry of {self._me}")
        while True:
            began = monotonic()
            try:
                await self._beat()
                patience.succeeded()
            except (RedisError, OSError, RuntimeError) as error:
                wait = patience.failed(error)
                if self.reachable:
                    self.reachable = False
                    self.on_changed()
                await asyncio.sleep(wait)
                continue
            await asyncio.sleep(max(_SOON, self._pause() - (monotonic() - began)))

    def _pause(self) -> float:
        """Seconds to the next heartbeat; fewer if a lease may end before that."""
        heartbeat, lease = self._store.settings.heartbeat, self._store.settings.lease
        oldest = max((age for age in self.ages.values() if age < lease), default=0.0)
        return min(heartbeat, lease - oldest + _SOON)

    async def beat(self) -> None:
        """One heartbeat: says that we live, and takes in who else does. Raises StoreDown."""
        with guard():
            await self._beat()

    async def _beat(self) -> None:
        async with self._one_at_a_time:
            await self._say_news()
            description = b"" if self._left else msgspec.json.encode(self._describe())
            lease = int(self._store.settings.lease * 1000)
            me = "" if self._left else self._me
            self._buried.clear()
            asked = monotonic()
            unbroken, models, *kinds, strange = await BEAT(
                self._store.commands, self._keys,
                [KINDS.index(self._kind) + 1, me, description, lease, _FORGET_MS],
            )  # fmt: skip
            self._store.link.answered(asked)
            await self._repeat_announcements(models)
        since, self._asked = asked - self._asked, asked
        self.ages = {name: age + since for name, age in self.ages.items()}
        doubtful: set[str] = set()  # whose place in the registry somebody else may have written to
        for key, name, value in zip(strange[::3], strange[1::3], strange[2::3], strict=True):
            doubtful.add(_shown(name))
            if not _STAMPED.match(value):
                self._unreadable(key, name, "it has no stamp", value)
        changed = not self.reachable
        self.reachable = True
        changed |= self._update_models(models, settled=unbroken >= lease)
        for kind, entries in zip(KINDS, kinds, strict=True):
            settled = unbroken >= lease and not self._just_emptied(kind, entries, lease)
            changed |= self._update_members(kind, entries, doubtful, settled=settled, lease=lease)
        if changed:
            self.on_changed()
        self.on_heard()
        await self._read_memory()

    def is_silent(self, name: str) -> bool:
        """Whether it has been silent for so long that it should not be counted on. It counts as gone only after its
        whole lease; but what it can no longer do must be known within 2 s."""
        return self.ages.get(name, 0.0) > SILENT * self._store.settings.lease

    def departed(self, kind: str, name: str) -> None:
        """Its supervisor saw it die, and has taken it out of the registry: nobody waits for its lease to end. The
        answer to a heartbeat that is under way may still tell of it."""
        self._buried.add(name)
        said = self.members.get(kind, {}).pop(name, None)
        if said is not None:
            self._mourned[kind][name] = monotonic(), said
            self.lost[kind][name] = 0.0, said
            self._texts.pop((kind, name), None)
            self.ages.pop(name, None)
            self.on_changed()

    async def announce_model(self, name: str, description: Mapping[str, object]) -> None:
        """Kept in Redis for good; said again if Redis loses it while we live. Raises StoreDown."""
        self.describe_model(name, description)
        with guard():
            await self._say_news()

    def describe_model(self, name: str, description: Mapping[str, object]) -> None:
        """The same, with the next heartbeat, if it is news."""
        text = msgspec.json.encode(description)
        if self._announced.get(name) != text:
            self._announced[name] = text
            self._unsaid.add(name)

    async def _say_news(self) -> None:
        for name in list(self._unsaid):
            text = self._announced[name]
            await self._store.commands.execute_command(
                "HSET", self._store.keys.registry("models"), name, text
            )
            if self._announced[name] == text:  # and nothing newer was said meanwhile
                self._unsaid.discard(name)

    async def leave(self) -> None:
        """Out of the registry at once: nobody has to wait for our silence."""
        self._left = True
        async with self._one_at_a_time:
            await self._store.commands.execute_command(
                "HDEL", self._store.keys.registry(self._kind), self._me
            )

    async def _repeat_announcements(self, models: list[bytes]) -> None:
        known = dict(zip(models[::2], models[1::2], strict=True))
        for name, description in self._announced.items():
            said = known.get(name.encode())
            if said is None or read_model(said) is None:
                await self._store.commands.execute_command(
                    "HSET", self._store.keys.registry("models"), name, description
                )

    async def _read_memory(self) -> None:
        """Those of a cluster's primaries that are away have no say: the heartbeat does not depend on them."""
        if monotonic() - self._memory_read >= _MEMORY_EVERY:
            self._memory_read = monotonic()
            self.memory_ratio = await self._store.memory_ratio()

    def _update_models(self, entries: list[bytes], *, settled: bool) -> bool:
        changed = False
        for raw, text in zip(entries[::2], entries[1::2], strict=True):
            name = raw.decode(errors="replace")
            if self._texts.get(("models", name)) != text:
                self._texts["models", name] = text
                said = read_model(text)
                if said is None:
                    self._unreadable(self._keys[1].encode(), raw, "it describes no model", text)
                    continue
                self.models[name] = said
                changed = True
        if settled:
            there = {name.decode(errors="replace") for name in entries[::2]}
            for gone in [name for kind, name in self._texts if kind == "models" and name not in there]:
                del self._texts["models", gone]
                changed |= self.models.pop(gone, None) is not None
        return changed

    def _just_emptied(self, kind: str, entries: list[Any], lease: int) -> bool:
        """Nobody is there where somebody was: the list may have been lost, and then those who live are back within
        a heartbeat."""
        if entries or not self.members[kind]:
            self._emptied.pop(kind, None)
            return False
        return (monotonic() - self._emptied.setdefault(kind, monotonic())) * 1e3 < lease

    def _update_members(
        self, kind: str, entries: list[Any], doubtful: set[str], *, settled: bool, lease: int
    ) -> bool:
        """`doubtful`: those who are there for as long as they would be if nothing had been heard of them."""
        members, changed = self.members[kind], False
        live = {name for name in doubtful.intersection(members) if self.ages.get(name, 0.0) * 1e3 <= lease}
        silent: dict[str, tuple[float, bytes]] = {}
        for raw, age, text in zip(entries[::3], entries[1::3], entries[2::3], strict=True):
            name = raw.decode(errors="replace")
            if name in self._buried:
                continue
            if name in members:
                age = min(age, self.ages.get(name, 0.0) * 1e3 + _SLACK_MS)
            if age > lease:
                silent[name] = age / 1e3, text
                continue
            if self._texts.get((kind, name)) != text:
                self._texts[kind, name] = text
                said = read_member(text)
                if said is None:
                    self._unreadable(
                        self._store.keys.registry(kind).encode(), raw, "it describes nobody", text
                    )
                else:
                    if name not in members:
                        self._replaced(kind, said)
                    members[name] = said
                    changed = True
            if name in members:
                live.add(name)
                self.ages[name] = age / 1e3
        if settled:
            for gone in members.keys() - live:
                del members[gone]
                self.ages.pop(gone, None)
                changed = True
            for of, name in [*self._texts]:
                if of == kind and name not in members:
                    del self._texts[of, name]
        self.lost[kind] = {
            name: (age, said)
            for name, (age, text) in silent.items()
            if name not in members and (said := read_member(text)) is not None
        }
        for name, (died, last_words) in [*self._mourned[kind].items()]:
            age = monotonic() - died
            if age * 1e3 > _FORGET_MS:
                del self._mourned[kind][name]
            else:
                self.lost[kind][name] = age, last_words
        return changed

    def _replaced(self, kind: str, said: Mapping[str, Any]) -> None:
        """One has come: it stands for the one that has been missing longest of those its supervisor started."""
        mourned, supervisor = self._mourned[kind], (said.get("host"), said.get("parent"))
        for name, (_, dead) in mourned.items():
            if (dead.get("host"), dead.get("parent")) == supervisor:
                del mourned[name]
                return

    def _unreadable(self, key: bytes, name: bytes, why: str, value: bytes) -> None:
        self._store.aside.add("registry", f"{_shown(key)} {_shown(name)}", why, value)


def _shown(raw: bytes) -> str:
    return raw.decode(errors="replace")
