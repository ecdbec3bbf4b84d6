"""Calls of one script by many at once: one round trip is under way at a time, and takes along all that wait.

So a thousand askers need one connection and not a thousand, and the slower Redis is, the more each trip carries. A
caller that is cancelled takes nothing from the others, and cuts no call short.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.link.scripts import Argument, Call, Script
from penstock.errors import StoreDown

MOST = 64  # calls of one trip: in a cluster they go side by side


class Gathered:
    __slots__ = ("_calls", "_script", "_store", "_trip")

    def __init__(self, script: Script, store: Store) -> None:
        self._script = script
        self._store = store
        self._calls: list[tuple[Call, asyncio.Future[Any]]] = []
        self._trip: asyncio.Task[None] | None = None

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
