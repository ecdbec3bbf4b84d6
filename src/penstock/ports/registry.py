"""Who is there."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

KINDS = ("gateways", "batchers", "workers")
Described = Mapping[str, Any]  # what a process says of itself, or a worker of a model


class Registry(Protocol):
    """Every process says with each heartbeat that it is there, and learns who else is."""

    on_changed: Callable[[], None]
    on_heard: Callable[[], None]  # with every heartbeat that was answered

    @property
    def members(self) -> Mapping[str, Mapping[str, Described]]:
        """By kind and name, what each said of itself last."""
        ...

    @property
    def lost(self) -> Mapping[str, Mapping[str, tuple[float, Described]]]:
        """Gone without a word and not forgotten yet: how long ago, and what they said last."""
        ...

    @property
    def models(self) -> Mapping[str, Described]: ...

    @property
    def ages(self) -> Mapping[str, float]:
        """Seconds since each was last heard of."""
        ...

    @property
    def reachable(self) -> bool: ...

    @property
    def memory_ratio(self) -> float:
        """The part of its memory that the bus uses."""
        ...

    def is_silent(self, name: str) -> bool:
        """Whether it has been silent for so long that nobody should count on it, although its lease is not over."""
        ...

    def departed(self, kind: str, name: str) -> None:
        """Its supervisor saw it die: nobody waits for its lease to end."""
        ...

    def describe_model(self, name: str, said: Described) -> None:
        """Told to all with the next heartbeat, if it is news."""
        ...

    async def announce_model(self, name: str, said: Described) -> None:
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
