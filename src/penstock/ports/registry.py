"""Who is there: the processes of an installation and the models that were announced. Each `cluster.member.Member`
has a `Registry`; `adapters/redis/bus` and `adapters/memory` implement it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.words.announcements import ModelAnnouncement
from penstock.words.heartbeats import Members, WorkerHeartbeat

SILENT = 0.75  # after this part of a lease without a heartbeat, nobody counts on a member
SOON = 0.002  # seconds to wait beyond the end of a lease, so that it has surely passed


class Registry(Protocol):
    """Every process says with each heartbeat that it is there, and learns who else is."""

    on_changed: Callable[[], None]  # called when members or models have come, gone or changed
    on_heard: Callable[[], None]  # called with every heartbeat that was answered

    @property
    def members(self) -> Members:
        """What each member said of itself last."""
        ...

    @property
    def lost_workers(self) -> Mapping[str, tuple[float, WorkerHeartbeat]]:
        """The workers that went without a word and are not forgotten yet: how many seconds ago each was heard of,
        and its last heartbeat."""
        ...

    @property
    def models(self) -> Mapping[str, ModelAnnouncement]:
        """What was announced of each model last."""
        ...

    @property
    def reachable(self) -> bool:
        """Whether the bus has answered lately."""
        ...

    @property
    def memory_ratio(self) -> float:
        """The part of its memory that the bus uses."""
        ...

    def age(self, name: str) -> float:
        """Seconds since a member was last heard of."""
        ...

    def is_silent(self, name: str) -> bool:
        """Whether a member has been silent for so long that nobody should count on it, although its lease is not
        over."""
        ...

    def departed(self, kind: str, name: str) -> None:
        """Remove a member that its supervisor saw die, without waiting for its lease to end."""
        ...

    def describe_model(self, name: str, announcement: ModelAnnouncement) -> None:
        """Announce a model to all with the next heartbeat, if the announcement is new."""
        ...

    async def announce_model(self, name: str, announcement: ModelAnnouncement) -> None:
        """Announce a model now. Raises StoreDown."""
        ...

    async def beat(self) -> None:
        """Send one heartbeat. Raises StoreDown."""
        ...

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        ...

    async def leave(self) -> None:
        """Leave the registry now, so that others know at once that this process has gone."""
        ...
