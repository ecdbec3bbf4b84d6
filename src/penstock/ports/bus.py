"""How processes meet, and how messages travel between them.

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
        """Whether mailboxes are in different places, so that what is lost with one must hold up no other."""
        ...

    async def send(self, box: str, payload: bytes, *, give_up_after: float = ...) -> bool:
        """Send a message to a mailbox. False: its owner has gone."""
        ...

    async def send_all(
        self, messages: Sequence[tuple[str, bytes]], *, give_up_after: float = ...
    ) -> list[bool]:
        """Send each message to its mailbox. Gives whether each was sent."""
        ...


class Mailbox(Protocol):
    """The owner's end of a mailbox."""

    @property
    def owner(self) -> str: ...

    async def create(self) -> None:
        """Make the mailbox: from now on messages can be sent to the owner. Raises StoreDown."""
        ...

    async def run(self, on_message: Callable[[bytes], None]) -> None:
        """Hand over what arrives, until cancelled."""
        ...

    async def remove(self) -> None:
        """Remove the mailbox, since its owner goes: whoever writes to it from now on is told so."""
        ...


class Credits(Protocol):
    """The idle slots of all workers, in line: the one that has waited longest is taken first. Raises StoreDown."""

    async def take(self, model: str, block_seconds: float) -> str | None:
        """The next idle slot; None if none came in that time."""
        ...

    async def post(self, model: str, slot: str) -> bool:
        """Say that the slot is idle. False: it stands in the line already, and keeps its place there."""
        ...

    async def withdraw(self, model: str, slot: str) -> bool:
        """Take the slot out of the line. False: it was not there, so a batch may be on its way to it."""
        ...


class Aside(Protocol):
    """Takes what could not be read: counted, and kept for people. To add something never waits or fails."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many were added since the start, by kind."""
        ...

    def add(self, kind: str, source: str, why: str, body: bytes = b"") -> None: ...

    async def list(self, limit: int = ...) -> Sequence[Mapping[str, Any]]: ...

    async def run(self) -> None: ...


class Bus(Protocol):
    """Where the processes of an installation meet, as one of them sees it."""

    @property
    def where(self) -> str:
        """The address of the bus, fit for a log."""
        ...

    @property
    def heartbeat(self) -> float:
        """Seconds from one heartbeat to the next."""
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
        """The line of idle slots, for one who takes from it or keeps slots in it."""
        ...

    def mailbox(self, owner: str) -> Mailbox: ...

    def registry(self, kind: Kind, me: str, describe: Callable[[], Heartbeat]) -> Registry: ...

    async def open(self) -> None:
        """Connect. Raises StoreDown if the bus cannot be reached yet, UserMistake for what the operator can put
        right."""
        ...

    async def close(self) -> None: ...
