"""Takes slots from a line of a Redis that is far away. There a lost packet holds up one answer for a second or
more, and with it everything that waits for a slot. So where an answer is late the line is asked a second time, over
another connection, and the first answer counts. `credits.py` calls it on a long link; on a short one a second ask
would only take slots that nobody needs.

    take ──► ask ──late──► ask again ──► the first answer
                            └ the other one is for the next take; if there is none, its slot goes back into the line
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from penstock.adapters.redis.link.connect import Store

Lines = tuple[str, ...]  # the keys of the lines that are looked into


class SecondAsk:
    """The asks of one process that are under way."""

    def __init__(
        self,
        store: Store,
        pop: Callable[[Sequence[str], float], Coroutine[Any, Any, Any]],
        put_back: Callable[[str, str], Coroutine[Any, Any, None]],
    ) -> None:
        """`pop`: takes the next slot out of these lines, if one comes in so many seconds: its line, its name and
        its place. `put_back`: puts a slot back into its line."""
        self._store, self._pop, self._put_back = store, pop, put_back
        # Asks whose call of `take` has gone with another answer. The next call takes them over.
        self._left: defaultdict[Lines, list[asyncio.Task[Any]]] = defaultdict(list)

    @property
    def is_worth_it(self) -> bool:
        return self._store.link.is_long

    async def take(self, lines: Lines, seconds: float) -> Any:
        """Returns what `pop` returns."""
        asked = self._left.pop(lines, None) or [self._ask(lines, seconds)]
        try:
            done, _ = await asyncio.wait(
                asked, timeout=self._store.link.patience / 2, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                if len(asked) == 1:
                    asked.append(self._ask(lines, seconds))
                done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:  # nobody wants a slot any more
            for each in asked:
                each.cancel()
            raise
        first = done.pop()
        asked.remove(first)
        self._left[lines] += asked
        for late in asked:
            late.add_done_callback(partial(self._has_come, lines))
        return first.result()

    def _ask(self, lines: Lines, seconds: float) -> asyncio.Task[Any]:
        return self._store.send(self._pop(lines, seconds))

    def _has_come(self, lines: Lines, late: asyncio.Task[Any]) -> None:
        """An answer has come late. If no call has taken it over, its slot goes back."""
        if late not in self._left[lines]:
            return
        self._left[lines].remove(late)
        if late.cancelled() or late.exception() is not None or not late.result():
            return
        line, slot, *_ = late.result()
        self._store.send(self._give_back(line.decode(), slot.decode(errors="replace")))

    async def _give_back(self, line: str, slot: str) -> None:
        try:
            await self._put_back(line, slot)
        except Exception:  # the worker's slot will say again that it is free
            return
