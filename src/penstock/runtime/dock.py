"""Where a slot gets its batches, and tells how they ended: a contract. Each `Slot` is given a dock. In one process
the `Pump` of its model is the dock; over a bus `cluster/dock.py` is."""

from collections.abc import Callable
from typing import Protocol

from penstock.types import Batch, Failure, Result, WarmUp, WorkerId


class Dock(Protocol):
    def attach(self, worker: WorkerId, take: Callable[[Batch], None]) -> None:
        """Attach a slot. `take` hands it a batch, and is not called before the slot has said that it is ready.
        While the slot runs a batch it may be handed the next one."""
        ...

    def warmed(self, worker: WorkerId, warm_up: WarmUp) -> None:
        """The slot was warmed up: it has run batches that nobody asked for."""
        ...

    def ready(self, worker: WorkerId) -> None:
        """The slot can take a batch."""
        ...

    def gone(self, worker: WorkerId, back_in: float | None) -> None:
        """The slot takes nothing until it is ready again: in `back_in` seconds, if anybody knows."""
        ...

    def loading(self, worker: WorkerId, takes: float | None) -> None:
        """The slot's first batch takes long: `takes` seconds in all, if anybody knows. Nobody should count on the
        slot until it is ready. The batch goes on."""
        ...

    def finished(
        self, worker: WorkerId, batch_id: int, outcome: Result | Failure, *, at_once: bool = False
    ) -> None:
        """The slot's batch is over. `at_once`: the slot can take the next one now. Otherwise it may call `gone`
        before the loop turns. In either case it may end before that what it has been handed already."""
        ...
