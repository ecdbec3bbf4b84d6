"""How processes meet, and how messages travel between them. `cluster` calls this; `adapters/redis/bus` and
`adapters/memory` implement it.

A message is bytes (`penstock.words.messages`). It may arrive twice, and never in part. The receiver takes the
first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from penstock.ports.leadership import Leadership
from penstock.ports.registry import Registry
from penstock.words.heartbeats import Heartbeat, Kind


class Post(Protocol):
    """Sends messages to mailboxes, and waits out an outage. Raises StoreDown if the outage lasts too long."""

    @property
    def apart(self) -> bool:
        """Whether mailboxes are on different nodes, or far away. Then a message to one must not hold up those to
        others. It may change."""
        ...

    async def send(self, box: str, payload: bytes, *, give_up_after: float = ...) -> bool:
        """Send a message to a mailbox. Returns False if its owner has gone. `give_up_after`: seconds."""
        ...

    async def send_all(
        self, messages: Sequence[tuple[str, bytes]], *, give_up_after: float = ...
    ) -> list[bool]:
        """Send each message to its mailbox. Returns for each whether it was sent."""
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
        """Remove the mailbox, since its owner ends. Senders are told so from now on."""
        ...


class Credits(Protocol):
    """The idle slots of the workers, in line: the one that has waited longest is taken first. Each zone has a line
    of its own; that of the zone for which these credits were made is the one *at home*. Raises StoreDown."""

    async def take(self, model: str, block_seconds: float, abroad: Sequence[str] = ...) -> str | None:
        """Take the next idle slot out of the line at home; None if there was none in `block_seconds`. `abroad`:
        take it from the lines of these zones instead, from the first of them that has one."""
        ...

    async def post(self, model: str, slot: str, zone: str | None = ...) -> bool:
        """Put an idle slot into the line of a zone, by default the one at home. Returns False if it stands there
        already, and keeps its place."""
        ...

    async def withdraw(self, model: str, slot: str) -> bool:
        """Take the slot out of the line at home. Returns False if it was not there: then a batch may be on its way
        to it."""
        ...


class Aside(Protocol):
    """Takes what could not be read: it is counted, and kept for people to look at. Adding never waits or fails."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many were added since the start, by kind."""
        ...

    def add(self, kind: str, source: str, why: str, body: bytes = b"") -> None:
        """Set something aside. `kind`: what it was, in words. `source`: who sent it. `body`: its bytes."""
        ...

    async def list(self, limit: int = ...) -> Sequence[Mapping[str, Any]]:
        """What was set aside last, the newest first."""
        ...

    async def run(self) -> None:
        """Keep what was set aside, until cancelled."""
        ...


class Bus(Protocol):
    """Where the processes of an installation meet, as one of them sees it."""

    @property
    def where(self) -> str:
        """The address of the bus, without secrets, for the log."""
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

    def credits(self, zone: str = ...) -> Credits:
        """The lines of idle slots, for a process of this zone. Batchers take slots from them, and workers put
        slots into them."""
        ...

    def mailbox(self, owner: str) -> Mailbox: ...

    def leadership(self, of: str, me: str) -> Leadership:
        """The lead of those who do `of`, as the process `me` has it."""
        ...

    def registry(self, kind: Kind, me: str, describe: Callable[[], Heartbeat]) -> Registry: ...

    async def open(self) -> None:
        """Connect. Raises StoreDown if the bus cannot be reached yet, and UserMistake if the operator must change
        something."""
        ...

    async def close(self) -> None: ...
