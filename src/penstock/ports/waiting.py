"""Who waits for an answer, and what waits with them. Gateways and doors speak so of a request on its way."""

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
    """Something that has no point any more once its client has gone."""

    def left(self) -> None: ...


class Waiting(Leaving, Protocol):
    """An accepted request on its way."""

    def is_queued(self) -> bool:
        """Whether the request that will answer it has not gone to a worker yet."""
        ...

    def withdraw(self) -> None:
        """Withdraw it: its asker wants it no more."""
        ...


class Asker(Protocol):
    """Whoever waits for the answer. A callback and not a future: thousands wait, and none needs a task for it."""

    def reply(self, reply: Reply) -> None:
        """Take the one answer; called once."""
        ...


class CallAsker(Protocol):
    """Whoever waits for the answers to several asks, which were let in together."""

    def answered(self, replies: Sequence[Reply]) -> None:
        """Called once: with all replies in the order of the asks, or with the first failure alone."""
        ...
