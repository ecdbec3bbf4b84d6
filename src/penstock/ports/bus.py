"""What processes say to each other.

A message is bytes (`penstock.words.messages`). It may arrive twice and never half. Whoever waits for it takes the
first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from penstock.ports.registry import Registry
from penstock.words.heartbeats import Heartbeat, Kind


class Post(Protocol):
    """Sends messages to mailboxes, and waits out an outage. Raises StoreDown if that lasts too long."""

    @property
    def apart(self) -> bool:
        """Whether mailboxes are in different places: what is lost with one must then hold up no other."""
        ...

    async def send(self, box: str, payload: bytes, *, give_up_after: float = ...) -> bool:
        """False: its owner has gone."""
        ...

    async def send_all(
        self, messages: Sequence[tuple[str, bytes]], *, give_up_after: float = ...
    ) -> list[bool]:
        """Whether each was sent."""
        ...


class Mailbox(Protocol):
    """The owner's end."""

    @property
    def owner(self) -> str: ...

    async def create(self) -> None:
        """From now on messages can be sent to the owner. Raises StoreDown."""
        ...

    async def run(self, on_message: Callable[[bytes], None]) -> None:
        """Hands over what arrives, until cancelled."""
        ...

    async def remove(self) -> None:
        """The owner goes: whoever writes to it now is told so."""
        ...


class Credits(Protocol):
    """The idle slots of all workers, in line: the one that has waited longest is taken first. Raises StoreDown."""

    async def take(self, model: str, block_seconds: float) -> str | None:
        """The next one; None if none came in that time."""
        ...

    async def post(self, model: str, slot: str) -> bool:
        """The slot is idle. One that waits already keeps its place, and False says so."""
        ...

    async def withdraw(self, model: str, slot: str) -> bool:
        """The slot takes no more batches. False: it was not waiting, so one may be on its way to it."""
        ...


class Aside(Protocol):
    """Where that goes which cannot be read: counted, and kept for people. To add something never waits or fails."""

    @property
    def counts(self) -> Mapping[str, int]:
        """By kind, since the start."""
        ...

    def add(self, kind: str, source: str, why: str, body: bytes = b"") -> None: ...

    async def list(self, limit: int = ...) -> Sequence[Mapping[str, Any]]: ...

    async def run(self) -> None: ...


class Bus(Protocol):
    """Where the processes of an installation meet, as one of them sees it."""

    @property
    def where(self) -> str:
        """Its address, fit for a log."""
        ...

    @property
    def heartbeat(self) -> float:
        """Seconds from one to the next."""
        ...

    @property
    def lease(self) -> float:
        """Seconds of silence after which a process counts as dead."""
        ...

    @property
    def aside(self) -> Aside: ...

    @property
    def post(self) -> Post: ...

    def credits(self) -> Credits:
        """For one who waits in the line, or who keeps slots in it."""
        ...

    def mailbox(self, owner: str) -> Mailbox: ...

    def registry(self, kind: Kind, me: str, describe: Callable[[], Heartbeat]) -> Registry: ...

    async def open(self) -> None:
        """Raises StoreDown if it cannot be reached yet, UserMistake for what the operator can put right."""
        ...

    async def close(self) -> None: ...
