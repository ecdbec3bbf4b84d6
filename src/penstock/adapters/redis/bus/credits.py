"""The lines of idle slots, over Redis: the slot that has waited longest is taken first. Workers post their slots,
batchers take them. Each zone has a line for each model. `bus.py` makes the `Credits`.

A slot is what runs one batch at a time, in a worker; a credit is its place in the line. If a batcher dies after it
took one, nothing is lost: the slot posts it again.
"""

from collections.abc import Sequence
from typing import Any

from penstock.adapters.redis.bus.scripts import CREDIT_POST
from penstock.adapters.redis.bus.second_ask import SecondAsk
from penstock.adapters.redis.link.connect import Store, guard


class Credits:
    """Implements `ports.bus.Credits`."""

    def __init__(self, store: Store, zone: str = "") -> None:
        """`zone`: whose line is the one at home."""
        self._store = store
        self._zone = zone
        self._blocking = store.blocking()
        self._far = SecondAsk(store, self._pop, self._put_back)

    async def take(self, model: str, block_seconds: float, abroad: Sequence[str] = ()) -> str | None:
        """Take the next idle slot; None when none came in that time. `settings.block` is the most it waits. The
        lines of one model are on one node of a cluster, so one command looks into all."""
        seconds = max(0.001, min(block_seconds, self._store.settings.block))  # 0 would wait for ever
        lines = tuple(self._store.keys.idle(model, zone) for zone in abroad or (self._zone,))
        pop = self._far.take if self._far.is_worth_it else self._pop
        with guard():
            answer = await pop(lines, seconds)
        return answer[1].decode(errors="replace") if answer else None

    async def _pop(self, lines: Sequence[str], seconds: float) -> Any:
        """Returns the line, the slot and its place; nothing when none came in that time."""
        return await self._blocking.execute_command("BZPOPMIN", *lines, seconds)

    async def _put_back(self, line: str, slot: str) -> None:
        await CREDIT_POST(self._store.commands, [line], [slot])

    async def post(self, model: str, slot: str, zone: str | None = None) -> bool:
        """Say that the slot is idle. Returns False if it stands in the line already; it keeps its place there."""
        line = self._store.keys.idle(model, self._zone if zone is None else zone)
        with guard():
            return bool(await CREDIT_POST(self._store.commands, [line], [slot]))

    async def withdraw(self, model: str, slot: str) -> bool:
        """Take the slot out of the line. Returns False if it was not there, so that a batch may be on its way to
        it."""
        line = self._store.keys.idle(model, self._zone)
        with guard():
            return bool(await self._store.commands.execute_command("ZREM", line, slot))
