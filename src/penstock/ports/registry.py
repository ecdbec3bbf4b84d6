"""Who is there."""

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.words.announcements import ModelAnnouncement
from penstock.words.heartbeats import Members, WorkerHeartbeat


class Registry(Protocol):
    """Every process says with each heartbeat that it is there, and learns who else is."""

    on_changed: Callable[[], None]
    on_heard: Callable[[], None]  # with every heartbeat that was answered

    @property
    def members(self) -> Members:
        """What each said of itself last."""
        ...

    @property
    def lost_workers(self) -> Mapping[str, tuple[float, WorkerHeartbeat]]:
        """Gone without a word and not forgotten yet: how many seconds ago, and what they said last."""
        ...

    @property
    def models(self) -> Mapping[str, ModelAnnouncement]: ...

    @property
    def reachable(self) -> bool: ...

    @property
    def memory_ratio(self) -> float:
        """The part of its memory that the bus uses."""
        ...

    def age(self, name: str) -> float:
        """Seconds since it was last heard of."""
        ...

    def is_silent(self, name: str) -> bool:
        """Whether it has been silent for so long that nobody should count on it, although its lease is not over."""
        ...

    def departed(self, kind: str, name: str) -> None:
        """Its supervisor saw it die: nobody waits for its lease to end."""
        ...

    def describe_model(self, name: str, announcement: ModelAnnouncement) -> None:
        """Told to all with the next heartbeat, if it is news."""
        ...

    async def announce_model(self, name: str, announcement: ModelAnnouncement) -> None:
        """The same now. Raises StoreDown."""
        ...

    async def beat(self) -> None:
        """One heartbeat. Raises StoreDown."""
        ...

    async def run(self) -> None:
        """Beats until cancelled."""
        ...

    async def leave(self) -> None:
        """Out of the registry at once: nobody has to wait for our silence."""
        ...
