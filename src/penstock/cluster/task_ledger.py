"""Writes tasks into the ledger of gateways over a bus. A task may end when the gateway that accepted it is gone, so
one gateway writes the tasks of all. Every gateway with a ledger has a `TaskLedger`, which is handed the tasks as
they are read, and `writes_for_all` says whether this is the one that reads. `Ledger` is the part of a ledger that
is needed here (`adapters/ledger` has it)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.ports.registry import Registry
from penstock.ports.tasks import EndedTask

# The request's key, the task's id, tenant, tier, model and status, and when it was created and completed.
Row = tuple[str, str, str, str, str, str, float, float]


class Ledger(Protocol):
    """The ledger of this process."""

    def told(self, rows: Sequence[Row], on_fate: Callable[[bool], None]) -> None:
        """Take these rows. `on_fate` is called with whether they are safe."""
        ...

    def missed(self, rows: int) -> None:
        """Note that the rows of so many tasks were lost, because nobody took them in time."""
        ...


class TaskLedger:
    """Writes the rows of tasks that ended anywhere, whichever gateway accepted them."""

    def __init__(self, ledger: Ledger, tiers: Sequence[str], loop: asyncio.AbstractEventLoop) -> None:
        self._ledger, self._loop = ledger, loop
        self._tiers = dict(enumerate(tiers))

    async def record(self, tasks: Sequence[EndedTask]) -> bool:
        """Give the rows of these tasks to the ledger. Returns True once they are safe here."""
        rows = [
            (
                task.key, task.task_id, task.tenant, self._tiers.get(task.tier, str(task.tier)), task.model,
                task.status, task.created, task.completed,
            )
            for task in tasks
        ]  # fmt: skip
        fate: asyncio.Future[bool] = self._loop.create_future()
        self._ledger.told(rows, lambda safe: None if fate.done() else fate.set_result(safe))
        return await fate


def writes_for_all(registry: Registry, me: str) -> bool:
    """Whether this gateway writes down the tasks of all. It is the first by name of those that keep a ledger."""
    gateways = registry.members["gateways"]
    return me == min((name for name in gateways if gateways[name].ledger), default="")
