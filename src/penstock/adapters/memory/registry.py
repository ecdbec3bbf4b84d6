"""The registry in memory: which members are there, and the last heartbeat of each. `bus.py` makes one for each
member, in tests. A member reads what the others said when it sends its own heartbeat, as it does over Redis."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from msgspec import json

from penstock.ports import Clock
from penstock.ports.bus import Aside
from penstock.ports.registry import SILENT, SOON
from penstock.words.announcements import ModelAnnouncement, read_announcement
from penstock.words.basics import Garbled
from penstock.words.heartbeats import (
    KINDS,
    AutoscalerHeartbeat,
    BatcherHeartbeat,
    GatewayHeartbeat,
    H,
    Heartbeat,
    Kind,
    Members,
    WorkerHeartbeat,
    read_autoscaler,
    read_batcher,
    read_gateway,
    read_worker,
)

FORGET = 60.0  # seconds after its last heartbeat, a dead member is forgotten


class Said(NamedTuple):
    """The last heartbeat of a member, as text, and when it was sent."""

    when: float
    text: bytes


class SharedRegistry:
    """What all members share: the last heartbeat of each, by kind and name, and the announcements of models."""

    def __init__(self) -> None:
        self.said: dict[Kind, dict[str, Said]] = {kind: {} for kind in KINDS}
        self.models: dict[str, bytes] = {}


class MemoryRegistry:
    """Implements `ports.registry.Registry`."""

    reachable = True
    memory_ratio = 0.0

    def __init__(
        self,
        shared: SharedRegistry,
        kind: Kind,
        me: str,
        describe: Callable[[], Heartbeat],
        clock: Clock,
        aside: Aside,
        *,
        heartbeat: float,
        lease: float,
    ) -> None:
        self._shared, self._kind, self._me, self._describe = shared, kind, me, describe
        self._clock, self._aside = clock, aside
        self._heartbeat, self._lease = heartbeat, lease
        self._gateways: dict[str, GatewayHeartbeat] = {}
        self._batchers: dict[str, BatcherHeartbeat] = {}
        self._workers: dict[str, WorkerHeartbeat] = {}
        self._autoscalers: dict[str, AutoscalerHeartbeat] = {}
        self.members: Members = {
            "gateways": self._gateways, "batchers": self._batchers, "workers": self._workers,
            "autoscalers": self._autoscalers,
        }  # fmt: skip
        self.lost_workers: dict[str, tuple[float, WorkerHeartbeat]] = {}
        self.models: dict[str, ModelAnnouncement] = {}
        self.on_changed: Callable[[], None] = lambda: None
        self.on_heard: Callable[[], None] = lambda: None
        self._known: dict[str, bytes] = {}  # the heartbeat of each member that was read last
        self._heard: dict[str, float] = {}  # when each member was last heard of
        self._announced: dict[str, bytes] = {}  # the models that this member announces
        self._news: dict[str, bytes] = {}  # the announcements that go out with the next heartbeat
        self._left = False  # whether this member sends no heartbeats any more

    async def run(self) -> None:
        while True:
            await self.beat()
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Returns the seconds to the next heartbeat: fewer than usual if a member's lease may end before that."""
        ages = [self._clock() - heard for heard in self._heard.values()]
        oldest = max((age for age in ages if age <= self._lease), default=0.0)
        return min(self._heartbeat, self._lease - oldest + SOON)

    async def beat(self) -> None:
        self._say()
        self._listen()

    def _say(self) -> None:
        if not self._left:
            self._shared.said[self._kind][self._me] = Said(self._clock(), json.encode(self._describe()))
        self._say_news()

    def _listen(self) -> None:
        changed = self._read_models()
        changed |= self._read("gateways", self._gateways, read_gateway)
        changed |= self._read("batchers", self._batchers, read_batcher)
        changed |= self._read("workers", self._workers, read_worker)
        changed |= self._read("autoscalers", self._autoscalers, read_autoscaler)
        self._count_lost()
        if changed:
            self.on_changed()
        self.on_heard()

    def _read(self, kind: Kind, members: dict[str, H], read: Callable[[bytes], H]) -> bool:
        """Read the members of one kind. Returns whether one has come, gone, or said something new."""
        now, changed = self._clock(), False
        said = self._shared.said[kind]
        for name in [name for name, last in said.items() if now - last.when > FORGET]:
            del said[name]
        here = {name: last for name, last in said.items() if now - last.when <= self._lease}
        for name, last in here.items():
            self._heard[name] = last.when
            if self._known.get(name) != last.text:
                self._known[name] = last.text
                changed |= self._hear(name, last.text, members, read)
        for name in members.keys() - here.keys():
            self._forget(members, name)
            changed = True
        return changed

    def _hear(self, name: str, text: bytes, members: dict[str, H], read: Callable[[bytes], H]) -> bool:
        """Take in a member's heartbeat. If it cannot be read, the one before it still counts. Returns whether it
        could be read."""
        try:
            members[name] = read(text)
        except Garbled as error:
            self._aside.add("registry", name, str(error), text)
            return False
        return True

    def _forget(self, members: dict[str, H], name: str) -> None:
        del members[name]
        del self._known[name]
        del self._heard[name]

    def _count_lost(self) -> None:
        now = self._clock()
        self.lost_workers.clear()
        for name, last in self._shared.said["workers"].items():
            if now - last.when > self._lease:
                self.lost_workers[name] = now - last.when, read_worker(last.text)

    def _read_models(self) -> bool:
        changed = False
        for name, text in self._shared.models.items():
            announcement = read_announcement(text)
            if self.models.get(name) != announcement:
                self.models[name] = announcement
                changed = True
        return changed

    def age(self, name: str) -> float:
        heard = self._heard.get(name)
        return 0.0 if heard is None else self._clock() - heard

    def is_silent(self, name: str) -> bool:
        return self.age(name) > SILENT * self._lease

    def departed(self, kind: str, name: str) -> None:
        """Strike off a member. Its supervisor says that it has died."""
        here: dict[
            str,
            dict[str, GatewayHeartbeat]
            | dict[str, BatcherHeartbeat]
            | dict[str, WorkerHeartbeat]
            | dict[str, AutoscalerHeartbeat],
        ]
        here = {
            "gateways": self._gateways, "batchers": self._batchers, "workers": self._workers,
            "autoscalers": self._autoscalers,
        }  # fmt: skip
        if name in here.get(kind, ()):
            del here[kind][name], self._known[name], self._heard[name]
            self.on_changed()

    def describe_model(self, name: str, announcement: ModelAnnouncement) -> None:
        text = json.encode(announcement)
        if self._announced.get(name) != text:
            self._announced[name] = self._news[name] = text

    async def announce_model(self, name: str, announcement: ModelAnnouncement) -> None:
        self.describe_model(name, announcement)
        self._say_news()

    def _say_news(self) -> None:
        self._shared.models.update(self._news)
        self._news.clear()

    async def leave(self) -> None:
        self._left = True
        self._shared.said[self._kind].pop(self._me, None)
