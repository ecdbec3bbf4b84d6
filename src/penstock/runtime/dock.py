"""Where a slot gets its batches: the batcher's pump here, or the way to batchers elsewhere."""

from collections.abc import Callable
from typing import Protocol

from penstock.types import Batch, Failure, Result, WarmUp, WorkerId


class Dock(Protocol):
    def attach(self, worker: WorkerId, take: Callable[[Batch], None]) -> None:
        """Attach a slot. `take` hands it a batch, and is not called before the slot has said that it is ready.
        While the slot runs a batch it may be handed the next one."""
        ...

    def warmed(self, worker: WorkerId, warm_up: WarmUp) -> None:
        """The slot has run batches that nobody asked for."""
        ...

    def ready(self, worker: WorkerId) -> None: ...

    def gone(self, worker: WorkerId, back_in: float | None) -> None:
        """The slot takes nothing until it is ready again, in so many seconds if anybody knows."""
        ...

    def loading(self, worker: WorkerId, takes: float | None) -> None:
        """The slot's first batch takes long, so many seconds in all if anybody knows. The slot is not to be
        counted on until it is ready; the batch goes on."""
        ...

    def finished(
        self, worker: WorkerId, batch_id: int, outcome: Result | Failure, *, at_once: bool = False
    ) -> None:
        """The slot's batch is over. `at_once`: the slot takes the next one. Otherwise it may be that it does not,
        which it says before the loop turns."""
        ...
