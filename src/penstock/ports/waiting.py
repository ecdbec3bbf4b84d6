"""Who waits for an answer, and what waits with them. Connections and streams (`edge`), doors and tasks implement
`Asker`, and doors `CallAsker`; the gateway calls them with the reply. `runtime` implements `Waiting`, and whoever
has lost its client calls that. What has a time limit is `Expiring`: the wheel of the process (`runtime/wheel.py`)
calls it when the time is up."""

from collections.abc import Sequence
from typing import Protocol

from penstock.types import Reply


class Expiring(Protocol):
    """Something with a time limit."""

    @property
    def when(self) -> float: ...

    @property
    def settled(self) -> bool:
        """Whether its time limit no longer matters."""
        ...

    def expire(self) -> None:
        """Called once when its time is over, and only if it is not settled."""
        ...


class Leaving(Protocol):
    """Something that is to be told when its client has gone."""

    def left(self) -> None: ...


class Waiting(Leaving, Protocol):
    """An accepted request on its way."""

    def is_queued(self) -> bool:
        """Whether the execution that will answer this request has not gone to a worker yet."""
        ...

    def withdraw(self) -> None:
        """Withdraw the request, since its asker does not want it any more."""
        ...


class Asker(Protocol):
    """Whatever waits for an answer. It is a callback and not a future: thousands wait, and none needs an asyncio
    task."""

    def reply(self, reply: Reply) -> None:
        """Take the one answer; called once."""
        ...


class CallAsker(Protocol):
    """Whatever waits for the answers to the asks of one call, which were let in together."""

    def answered(self, replies: Sequence[Reply]) -> None:
        """Called once: with all replies in the order of the asks, or with the first failure alone."""
        ...
