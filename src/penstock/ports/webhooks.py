"""Webhooks: a task whose asker named an address is told there how it ended. The data plane calls `Webhooks`, which
`runtime/webhooks.py` implements; that calls a `Courier` (`adapters/webhooks/`), which carries one message."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from penstock.errors import PenstockError
from penstock.ports.gateway import Task

# Returns where a task stands, in JSON: with its output, or without it.
Tell = Callable[[Task, bool], bytes]


class Undelivered(PenstockError):
    """A message that did not arrive. Its words are fit for the log."""


class Posted(NamedTuple):
    """What the other side answered."""

    status: int
    retry_after: float | None = None  # seconds, if it says when to come again


class Courier(Protocol):
    """Carries one message to an address, if that may be called."""

    def why_not(self, host: str) -> str:
        """Why nothing is ever carried to this host, in words; empty if it may be tried."""
        ...

    async def post(self, url: str, fields: Mapping[str, str], body: bytes) -> Posted:
        """Send the message. `fields`: its header fields. Raises Undelivered if nothing was answered in time."""
        ...

    async def close(self) -> None: ...


class Webhooks(Protocol):
    """What a server promises to tell, and to whom."""

    def check(self, url: str, tenant: str) -> None:
        """Raises Forbidden if this address is not called from here, Overloaded or OverQuota if too much is
        promised already."""
        ...

    def promise(self, url: str, task: Task, tenant: str, tell: Tell) -> None:
        """Tell how the task ends, once it is over."""
        ...
