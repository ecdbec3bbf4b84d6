"""Where a slot gets its batches: the batcher's pump here, or the way to batchers elsewhere."""

from collections.abc import Callable
from typing import Protocol

from penstock.types import Batch, Failure, Result, WorkerId


class Dock(Protocol):
    def attach(self, worker: WorkerId, take: Callable[[Batch], None]) -> None:
        """Here it is, and how it is handed a batch; not before it has said that it is ready."""
        ...

    def ready(self, worker: WorkerId) -> None: ...

    def gone(self, worker: WorkerId, back_in: float | None) -> None:
        """It takes nothing until it is ready again, in so many seconds if anybody knows."""
        ...

    def loading(self, worker: WorkerId, takes: float | None) -> None:
        """Its first batch takes long, so many seconds in all if anybody knows. It is not to be counted on until it
        is ready; the batch goes on."""
        ...

    def finished(
        self, worker: WorkerId, batch_id: int, outcome: Result | Failure, *, at_once: bool = False
    ) -> None:
        """The batch is over. `at_once`: it takes the next; else it may be that it does not, which is said before
        the loop turns."""
        ...
