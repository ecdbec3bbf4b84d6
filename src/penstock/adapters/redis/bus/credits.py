"""Idle slots of workers, waiting in line for a batch: the one who has waited longest is taken first.

A credit is not work: one that is lost (a batcher that died with it) is posted again by its slot.
"""

from penstock.adapters.redis.link.connect import Store, guard
from penstock.adapters.redis.link.scripts import CREDIT_POST


class Credits:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._blocking = store.blocking()

    async def take(self, model: str, block_seconds: float) -> str | None:
        """The next idle slot; None when none came in that time, which `settings.block` bounds."""
        seconds = max(0.001, min(block_seconds, self._store.settings.block))  # 0 would wait for ever
        with guard():
            answer = await self._blocking.execute_command("BZPOPMIN", self._store.keys.idle(model), seconds)
        return answer[1].decode(errors="replace") if answer else None

    async def post(self, model: str, slot: str) -> bool:
        """Say that the slot is idle. False: it stands in the line already, and keeps its place there."""
        with guard():
            return bool(await CREDIT_POST(self._store.commands, [self._store.keys.idle(model)], [slot]))

    async def withdraw(self, model: str, slot: str) -> bool:
        """Take the slot out of the line. False: it was not there, so a batch may be on its way to it."""
        with guard():
            return bool(
                await self._store.commands.execute_command("ZREM", self._store.keys.idle(model), slot)
            )
