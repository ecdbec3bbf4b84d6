"""The ledger of gateways over Redis: also of tasks, whose end no gateway may be there to see."""

import asyncio
from collections.abc import Sequence

from penstock.adapters.ledger.recorder import Recorder
from penstock.adapters.redis.records.ended_tasks import EndedTask
from penstock.config import Config
from penstock.roles.from_config import tier_names


class TaskLedger:
    """The rows of tasks that ended somewhere over Redis, whichever gateway accepted them."""

    def __init__(self, ledger: Recorder, config: Config, loop: asyncio.AbstractEventLoop) -> None:
        self._ledger, self._loop = ledger, loop
        self._tiers = dict(enumerate(tier_names(config)))

    async def record(self, tasks: Sequence[EndedTask]) -> bool:
        """True when they are safe here."""
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
