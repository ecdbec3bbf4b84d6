"""The registry over Redis: which processes are there. A process writes its heartbeat there, and reads those of all
others in the same step. Every member has a `Registry` (`cluster/member.py`), which `bus.py` makes.

Ages are counted inside Redis, on its one clock, so a process that was paused learns the truth with its next
heartbeat. When Redis itself was away (stopped, restarted, failed over), heartbeats are missing though the members
live. The script then notices that nobody has sent one for a while. It counts all ages anew, and says for how long
service has been unbroken. Until that is a full lease, no member that is known here counts as gone, whether Redis
still remembers it or has lost everything.

A member that has missed heartbeats is looked at again in the very moment its lease ends. A member that its
supervisor saw die is gone at once (`departed`). `roll.py` decides, for each kind of process, which members count as
there.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from time import monotonic

from redis.exceptions import RedisError

from penstock.adapters.redis.bus.roll import FORGET_MS, Roll
from penstock.adapters.redis.bus.scripts import BEAT
from penstock.adapters.redis.link.connect import Patience, Store, guard
from penstock.ports.registry import SILENT, SOON
from penstock.words.announcements import ModelAnnouncement, read_announcement
from penstock.words.basics import Garbled, write
from penstock.words.heartbeats import (
    KINDS,
    AutoscalerHeartbeat,
    BatcherHeartbeat,
    GatewayHeartbeat,
    Heartbeat,
    Kind,
    Members,
    WorkerHeartbeat,
    read_autoscaler,
    read_batcher,
    read_gateway,
    read_worker,
)

_MEMORY_EVERY = 1.0  # seconds between two looks at how full Redis is
_STAMPED = re.compile(rb"\d+ ")  # the stamp before a heartbeat: when Redis got it

AnyRoll = Roll[GatewayHeartbeat] | Roll[BatcherHeartbeat] | Roll[WorkerHeartbeat] | Roll[AutoscalerHeartbeat]


class Registry:
    """Implements `ports.registry.Registry`."""

    def __init__(self, store: Store, kind: Kind, me: str, describe: Callable[[], Heartbeat]) -> None:
        key, aside = store.keys.registry, store.aside
        self._gateways = Roll(key("gateways"), read_gateway, aside)
        self._batchers = Roll(key("batchers"), read_batcher, aside)
        self._workers = Roll(key("workers"), read_worker, aside)
        self._autoscalers = Roll(key("autoscalers"), read_autoscaler, aside)
        # In the order of `KINDS`.
        self._rolls: tuple[AnyRoll, ...] = (
            self._gateways, self._batchers, self._workers, self._autoscalers,
        )  # fmt: skip
        self.members: Members = {
            "gateways": self._gateways.members,
            "batchers": self._batchers.members,
            "workers": self._workers.members,
            "autoscalers": self._autoscalers.members,
        }
        self.models: dict[str, ModelAnnouncement] = {}
        self.reachable = False
        self.memory_ratio = 0.0  # the part of the allowed memory that Redis uses
        self.on_changed: Callable[[], None] = lambda: None
        self.on_heard: Callable[[], None] = lambda: None  # called with every heartbeat that Redis answered
        self._store = store
        self._kind, self._me, self._describe = kind, me, describe
        self._keys = [store.keys.registry(each) for each in ("pulse", "models", *KINDS)]
        self._texts: dict[str, bytes] = {}  # announcements as they were read last
        self._announced: dict[str, bytes] = {}  # the models that this member announces
        self._unsaid: set[str] = set()  # models whose latest announcement Redis does not have
        self._asked = 0.0  # when we last asked, by our clock
        self._memory_read = -_MEMORY_EVERY
        self._left = False  # whether this member sends no heartbeats any more
        self._one_at_a_time = asyncio.Lock()  # a heartbeat under way must not undo that we left

    async def run(self) -> None:
        """Send heartbeats until cancelled, whatever Redis does."""
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
            await asyncio.sleep(max(SOON, self._pause() - (monotonic() - began)))

    def _pause(self) -> float:
        """Returns the seconds to the next heartbeat: fewer than usual if a member's lease may end before that."""
        heartbeat, lease = self._store.settings.heartbeat, self._store.settings.lease
        ages = (age for roll in self._rolls for age in roll.ages.values())
        oldest = max((age for age in ages if age < lease), default=0.0)
        return min(heartbeat, lease - oldest + SOON)

    async def beat(self) -> None:
        """Send one heartbeat, and read those of the others. Raises StoreDown."""
        with guard():
            await self._beat()

    async def _beat(self) -> None:
        async with self._one_at_a_time:
            await self._say_news()
            description = b"" if self._left else write(self._describe())
            lease = int(self._store.settings.lease * 1000)
            me = "" if self._left else self._me
            for roll in self._rolls:
                roll.asking()
            asked = monotonic()
            unbroken, models, *kinds, strange = await BEAT(
                self._store.commands, self._keys,
                [KINDS.index(self._kind) + 1, me, description, lease, FORGET_MS],
            )  # fmt: skip
            self._store.link.answered(asked)
            await self._repeat_announcements(models)
        since, self._asked = asked - self._asked, asked
        doubtful: set[str] = set()  # members whose entry in the registry another program may have overwritten
        for key, name, value in zip(strange[::3], strange[1::3], strange[2::3], strict=True):
            doubtful.add(_shown(name))
            if not _STAMPED.match(value):
                self._store.aside.add("registry", f"{_shown(key)} {_shown(name)}", "it has no stamp", value)
        settled, changed = unbroken >= lease, not self.reachable
        self.reachable = True
        changed |= self._update_models(models, settled=settled)
        for roll, entries in zip(self._rolls, kinds, strict=True):
            changed |= roll.update(entries, doubtful, since, lease, unbroken=settled)
        if changed:
            self.on_changed()
        self.on_heard()
        await self._read_memory()

    @property
    def lost_workers(self) -> Mapping[str, tuple[float, WorkerHeartbeat]]:
        """The workers that went without leaving and are not forgotten yet: how many seconds ago, and the last
        heartbeat of each."""
        return self._workers.lost

    def age(self, name: str) -> float:
        """Returns the seconds for which a member had been silent at our last heartbeat."""
        return min((roll.ages[name] for roll in self._rolls if name in roll.ages), default=0.0)

    def is_silent(self, name: str) -> bool:
        """Returns whether a member has been silent for so long that it should not be counted on. It counts as gone
        only after its whole lease, but forecasts must do without it within 2 s."""
        return self.age(name) > SILENT * self._store.settings.lease

    def departed(self, kind: str, name: str) -> None:
        """Strike off a member that its supervisor saw die, before its lease ends."""
        if kind in KINDS and self._rolls[KINDS.index(kind)].departed(name):
            self.on_changed()

    async def announce_model(self, name: str, announcement: ModelAnnouncement) -> None:
        """Announce a model now. Redis keeps the announcement for good; if Redis loses it, we announce it again.
        Raises StoreDown."""
        self.describe_model(name, announcement)
        with guard():
            await self._say_news()

    def describe_model(self, name: str, announcement: ModelAnnouncement) -> None:
        """Announce a model with the next heartbeat, if the announcement is new."""
        text = write(announcement)
        if self._announced.get(name) != text:
            self._announced[name] = text
            self._unsaid.add(name)

    async def _say_news(self) -> None:
        for name in list(self._unsaid):
            text = self._announced[name]
            await self._store.commands.execute_command(
                "HSET", self._store.keys.registry("models"), name, text
            )
            if self._announced[name] == text:  # nothing newer was announced meanwhile
                self._unsaid.discard(name)

    async def leave(self) -> None:
        """Leave the registry at once, so that the others need not wait for our lease to end."""
        self._left = True
        async with self._one_at_a_time:
            await self._store.commands.execute_command(
                "HDEL", self._store.keys.registry(self._kind), self._me
            )

    async def _repeat_announcements(self, models: list[bytes]) -> None:
        """Announce our models again where Redis has lost them. `models`: names and announcements, as it has
        them."""
        known = dict(zip(models[::2], models[1::2], strict=True))
        for name, description in self._announced.items():
            if not _announces(known.get(name.encode(), b"")):
                await self._store.commands.execute_command(
                    "HSET", self._store.keys.registry("models"), name, description
                )

    async def _read_memory(self) -> None:
        """Read how full Redis is. Primaries of a cluster that are away are left out, so that the heartbeat does not
        depend on them."""
        if monotonic() - self._memory_read >= _MEMORY_EVERY:
            self._memory_read = monotonic()
            self.memory_ratio = await self._store.memory_ratio()

    def _update_models(self, entries: list[bytes], *, settled: bool) -> bool:
        changed = False
        for raw, text in zip(entries[::2], entries[1::2], strict=True):
            name = _shown(raw)
            if self._texts.get(name) != text:
                self._texts[name] = text
                try:
                    self.models[name] = read_announcement(text)
                except Garbled as error:
                    why = f"it announces no model: {error}"
                    self._store.aside.add("registry", f"{self._keys[1]} {name}", why, text)
                    continue
                changed = True
        if settled:
            for gone in self._texts.keys() - {_shown(name) for name in entries[::2]}:
                del self._texts[gone]
                changed |= self.models.pop(gone, None) is not None
        return changed


def _announces(text: bytes) -> bool:
    """Returns whether an announcement can be read. If not, a worker that runs the model announces it again."""
    try:
        read_announcement(text)
    except Garbled:
        return False
    return True


def _shown(raw: bytes) -> str:
    return raw.decode(errors="replace")
