"""The requests of a `map`, under way in an event loop. `async_client.py` makes a `Workload`; `async_map.py` and
`sync_map.py` push inputs into it, and are told how each ended.

An input is tried again as `retries.py` says. But a refusal because of load or of a quota (503, 429) is no failure
here: it slows down the whole map (`pace.py`), and the input waits its turn. Only when that has gone on for
`patience` has the input failed. The same holds while no connection can be made: a server may be starting anew.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import random
from typing import Generic, TypeVar

from penstock.client.answer import Answer
from penstock.client.asking import Asking
from penstock.client.course import Done, Ended, NotDone
from penstock.client.errors import Busy, InferenceError, NoContact
from penstock.client.pace import Pace
from penstock.client.retries import Retries
from penstock.client.road import Road

I = TypeVar("I")  # noqa: E741 - the type of the inputs
T = TypeVar("T")

NO_WAIT_SAID = 1.0  # seconds to wait after a refusal that does not say how long


@dataclass(frozen=True, slots=True)
class Terms:
    """What the requests of one map go by."""

    concurrency: int
    timeout: float | None  # seconds for each try
    patience: float  # seconds for which an input may be refused, or find no server
    retries: Retries
    new_key: Callable[[], str]  # returns an Idempotency-Key that no other request has


class Workload(Generic[I, T]):
    """The inputs of one map that were handed out. `ask` makes the request of an input; `told` is called with the
    end of each."""

    def __init__(
        self,
        road: Road,
        terms: Terms,
        ask: Callable[[I], Asking[T]],
        told: Callable[[Ended[I, T]], None],
    ) -> None:
        self._road, self._terms, self._ask, self._told = road, terms, ask, told
        self._loop = road.loop
        self._todo: deque[tuple[int, I]] = deque()  # inputs that no request was made of yet
        self._pace = Pace(terms.concurrency)
        self._under_way = 0  # how many requests are under way
        self._held_back: deque[asyncio.Future[None]] = deque()  # requests that wait for others to end
        self._lines: set[asyncio.Task[None]] = set()  # each sends one request after the other
        self.retried = 0  # how many requests were sent again

    def push(self, index: int, value: I) -> None:
        """Takes in the next input. `index`: of the input, from 0."""
        self._todo.append((index, value))
        if len(self._lines) < self._terms.concurrency:
            line = self._loop.create_task(self._work())
            self._lines.add(line)
            line.add_done_callback(self._lines.discard)

    async def close(self) -> None:
        """Gives up what is under way."""
        self._todo.clear()
        lines = list(self._lines)
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)

    async def _work(self) -> None:
        """Sends one request after the other, while there are inputs."""
        while self._todo:
            index, value = self._todo.popleft()
            began = self._loop.time()
            try:
                answer = await self._until_done(self._ask(value), began)
            except InferenceError as error:
                self._told(NotDone(index, value, error, self._loop.time() - began))
            except Exception as error:  # such as an input that cannot be encoded: the others go on
                mistake = InferenceError(str(error) or type(error).__name__, code="CANNOT_BE_SENT")
                self._told(NotDone(index, value, mistake, self._loop.time() - began))
            else:
                self._told(Done(index, value, answer, self._loop.time() - began))

    async def _until_done(self, asking: Asking[T], began: float) -> Answer[T]:
        tries = waits = 0
        wait: float | None
        while True:
            await self._until_allowed()
            self._under_way += 1
            try:
                answer = await asking.once(self._road, self._terms.timeout)
            except InferenceError as error:
                waited = self._loop.time() - began
                is_pressure = isinstance(error, Busy) or (
                    isinstance(error, NoContact) and not error.maybe_run
                )
                if is_pressure and error.again and waited < self._terms.patience:
                    waits += 1
                    wait = self._terms.retries.pause(error, waits, random())
                    if isinstance(error, Busy) and error.retry_after is None:
                        wait = max(wait, NO_WAIT_SAID)
                    self._pace.refused(wait, self._loop.time())
                else:
                    tries += 1
                    wait = self._terms.retries.wait(error, tries, None, random())
                    if is_pressure or wait is None:
                        raise
                if asking.key is None and error.maybe_run:
                    asking.key = self._terms.new_key()
            else:
                self._pace.answered()
                return answer
            finally:
                self._under_way -= 1
                self._let_in()
            self.retried += 1
            await asyncio.sleep(wait)

    async def _until_allowed(self) -> None:
        """Waits until another request may go out."""
        while not self._pace.allows(self._under_way, now := self._loop.time()):
            if now < self._pace.until:
                # The requests that wait until then do not go out all at once.
                await asyncio.sleep((self._pace.until - now) * (1.0 + random() / 10.0))
            else:
                waiter: asyncio.Future[None] = self._loop.create_future()
                self._held_back.append(waiter)
                await waiter

    def _let_in(self) -> None:
        """Wakes as many of the requests that wait as may be sent, now that one has ended."""
        room = int(self._pace.limit) - self._under_way
        while room > 0 and self._held_back:
            waiter = self._held_back.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= 1
