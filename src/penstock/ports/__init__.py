"""The ports: contracts (Protocols) that one layer asks of another. Each fits on one screen. Nothing here runs.

In this file are a clock, a backend, and the way between a gateway and a batcher. `gateway`, `waiting` and
`observers` have other contracts of one process, which can be imported from here too; `process`, `tracing` and
`webhooks` have the rest of them. The other modules have the contracts between several processes.

One side calls a port and the other implements it; `roles` brings the two together. Each module says who they are:
mostly `runtime`, `cluster` or `doors` calls, and an adapter implements. So ports import only the vocabulary and
`words`.

An adapter translates foreign errors into `penstock.errors`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from penstock.ports.gateway import Doorman, Gateway, Reservation, Task, Tasks
from penstock.ports.observers import BatchObserver, Observer, RequestObserver
from penstock.ports.waiting import Asker, CallAsker, Expiring, Leaving, Waiting
from penstock.types import Accepted, Batch, Reply, Result

__all__ = [
    "Asker",
    "Backend",
    "BatchObserver",
    "Broker",
    "CallAsker",
    "Clock",
    "Doorman",
    "Expiring",
    "Gateway",
    "Leaving",
    "Observer",
    "RequestObserver",
    "Reservation",
    "ResultBus",
    "Task",
    "Tasks",
    "Waiting",
]

Carried = TypeVar("Carried", bound=Accepted, contravariant=True)


class Clock(Protocol):
    def __call__(self) -> float:
        """The time in monotonic seconds."""
        ...


class Broker(Protocol[Carried]):
    """Carries accepted requests from a gateway to the batcher. Each `Desk` has one."""

    def publish(self, request: Carried) -> None:
        """Send a request on its way to the batcher."""
        ...

    def withdraw(self, request: Carried) -> None:
        """Take a request back, since its asker has left or cancelled. If it has gone to a worker, it is run all the
        same."""
        ...


class ResultBus(Protocol):
    """Carries replies from the batcher back to the gateway that holds the connection."""

    def deliver(self, replies: Sequence[Reply]) -> None: ...

    def subscribe(self, on_replies: Callable[[Sequence[Reply]], None]) -> None: ...


class Backend(Protocol):
    """Runs a target: takes one batch at a time and gives one output for each input. `runtime.slot.Slot` owns one;
    `adapters/backends` implements it.

    A backend whose `runs_ahead` is true may be given the next batch while it runs one, by a second call of `run`.
    It gets that batch ready, and begins it as soon as the first has ended.

    `run` raises a `BackendError`; after one whose class says `fatal` the owner calls `close`, waits a back-off and
    calls `start` again. All methods are called from one event loop. `run` may be cancelled: nothing of the
    cancelled batch may leak into the next.
    """

    async def start(self) -> None:
        """Get ready for `run`: spawn, connect, warm up. Raises BackendError if that fails."""
        ...

    async def run(self, batch: Batch) -> Result:
        """Run a batch. Returns one output for each of its inputs, in their order."""
        ...

    async def probe(self) -> float:
        """How full the backend is, as `Result.pressure`. Raises BackendError if it is not healthy. Called while
        no batch is running."""
        ...

    async def close(self) -> None:
        """Let go of everything, at once if need be. Never raises; may be called twice."""
        ...
