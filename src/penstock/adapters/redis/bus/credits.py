"""The line of idle slots, over Redis: the slot that has waited longest is taken first. Workers post their slots,
batchers take them.

A slot is what runs one batch at a time, in a worker; a credit is its place in the line. If a batcher dies after it
took one, nothing is lost: the slot posts it again.
"""

from penstock.adapters.redis.bus.scripts import CREDIT_POST
from penstock.adapters.redis.link.connect import Store, guard


class Credits:
    """Implements `ports.bus.Credits`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._blocking = store.blocking()

    async def take(self, model: str, block_seconds: float) -> str | None:
        """Take the next idle slot; None when none came in that time. `settings.block` is the most it waits."""
        seconds = max(0.001, min(block_seconds, self._store.settings.block))  # 0 would wait for ever
        with guard():
            answer = await self._blocking.execute_command("BZPOPMIN", self._store.keys.idle(model), seconds)
        return answer[1].decode(errors="replace") if answer else None

    async def post(self, model: str, slot: str) -> bool:
        """Say that the slot is idle. Returns False if it stands in the line already; it keeps its place there."""
        with guard():
            return bool(await CREDIT_POST(self._store.commands, [self._store.keys.idle(model)], [slot]))

    async def withdraw(self, model: str, slot: str) -> bool:
        """Take the slot out of the line. Returns False if it was not there, so that a batch may be on its way to
        it."""
        with guard():
            return bool(
                await self._store.commands.execute_command("ZREM", self._store.keys.idle(model), slot)
            )
