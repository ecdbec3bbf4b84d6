"""The ports: what the runtime asks of the outside world. Each fits on one screen.

An adapter translates foreign errors into `penstock.errors` and knows nothing of its siblings.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.types import Batch, Reply, Request, Result


class Clock(Protocol):
    def __call__(self) -> float:
        """Monotonic seconds."""
        ...


class Broker(Protocol):
    """Carries accepted requests from a gateway to the batcher."""

    def publish(self, request: Request) -> None: ...

    def withdraw(self, request: Request) -> None:
        """The asker has left, or cancelled: what has not gone to a worker need not go."""
        ...

    def subscribe(
        self, on_request: Callable[[Request], None], on_withdraw: Callable[[Request], None]
    ) -> None: ...


class ResultBus(Protocol):
    """Carries replies from the batcher back to the gateway that holds the connection."""

    def deliver(self, replies: Sequence[Reply]) -> None: ...

    def subscribe(self, on_replies: Callable[[Sequence[Reply]], None]) -> None: ...


class Backend(Protocol):
    """The fixed thing: takes one batch at a time and gives one output for each input.

    `run` raises a `BackendError`; after one whose class says `fatal` the owner calls `close`,
    waits its back-off and calls `start` again. All methods are called from one event loop, and
    `run` may be cancelled: nothing of the cancelled batch may leak into the next.
    """

    async def start(self) -> None:
        """Get ready for `run`: spawn, connect, warm up. Raises BackendError if that fails."""
        ...

    async def run(self, batch: Batch) -> Result: ...

    async def probe(self) -> None:
        """Raise BackendError if the backend is not healthy. Called while no batch is running."""
        ...

    async def close(self) -> None:
        """Let go of everything, at once if need be. Never raises; may be called twice."""
        ...


class Observer(Protocol):
    """Is told what happened; must be cheap and must not fail."""

    def replied(self, replies: Sequence[Reply], now: float) -> None: ...

    def dispatched(self, batch: Batch) -> None: ...

    def refused(self, model: str, code: str) -> None: ...
