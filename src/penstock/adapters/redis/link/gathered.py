"""Gathers calls of one script: one round trip is under way at a time, and the next takes along all calls that wait.
A gateway runs the frequent scripts of tasks and idempotency keys that way (`records/tasks.py`,
`records/idempotency.py`).

So a thousand callers need one connection and not a thousand, and the slower Redis is, the more calls each round
trip carries. Cancelling one caller harms no other, and its own call is carried out all the same.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.link.scripts import Argument, Call, Script
from penstock.errors import StoreDown

MOST = 64  # calls of one round trip: in a cluster they go side by side


class Gathered:
    """One script. Calling this object calls the script with the next round trip."""

    __slots__ = ("_calls", "_script", "_store", "_trip")

    def __init__(self, script: Script, store: Store) -> None:
        self._script = script
        self._store = store
        self._calls: list[tuple[Call, asyncio.Future[Any]]] = []  # calls without an answer yet
        self._trip: asyncio.Task[None] | None = None  # the round trips that are under way

    async def __call__(self, keys: Sequence[str], args: Sequence[Argument] = ()) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls.append(((keys, args), answer))
        if self._trip is None:
            self._trip = self._store.send(self._go())
            self._trip.add_done_callback(self._end)
        return await answer

    async def _go(self) -> None:
        while self._calls:
            calls = self._calls[:MOST]
            said = await self._script.each(self._store, [call for call, _ in calls])
            del self._calls[: len(calls)]
            for (_, answer), each in zip(calls, said, strict=True):
                if answer.done():
                    continue
                if isinstance(each, Exception):
                    answer.set_exception(each)
                else:
                    answer.set_result(each)
        self._trip = None

    def _end(self, trip: "asyncio.Task[None]") -> None:
        if self._trip is not trip:
            return
        self._trip = None  # the store was closed meanwhile
        calls, self._calls = self._calls, []
        for _, answer in calls:
            if not answer.done():
                answer.set_exception(StoreDown("The connections to Redis are closed.", retry_after=1.0))
