"""The loops of a process: each that ends is started again, and the log says why it ended.

    running ──it raised, or returned──► waiting, longer each time ──► running
                                        │ MOST times within SPAN
                                        └──► given up on: `dead` names it; it is tried again all the same

Every process has a `Loops` (`EmbeddedServer` or `Member`), and `/livez` asks for `dead`. A loop is given as a
function that makes its coroutine, so that it can be started again. State that must survive a failure is kept
outside the loop's own variables. `Loops` may also be used like a task group, for the parts of a larger loop: if one
part is given up on, the others end too, and the larger loop starts again.
"""

import asyncio
import logging
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from threading import Thread
from types import TracebackType
from typing import Any, Self

log = logging.getLogger("penstock.loops")

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds before a loop is started again; doubled each time
MOST, SPAN = 8, 60.0  # failures and seconds: after so many within that time a loop is given up on
LONGEST_ERROR = 200  # characters: a longer error is cut

Make = Callable[[], Coroutine[Any, Any, None]]  # begins a loop anew

# The name of the loop that the current task runs, and the counts of restarts that its parts add to.
_within: "ContextVar[tuple[str, Counter[str]] | None]" = ContextVar("within", default=None)


class PartGivenUp(Exception):
    """A part of a loop has failed too often."""


class Failures:
    """The failures of one loop within the last SPAN seconds."""

    __slots__ = ("_recent", "error")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=MOST)
        self.error = ""  # the last one, in words

    def note(self, error: BaseException | None, now: float) -> float:
        """Notes a failure; returns how many seconds to wait before the next start."""
        self.error = "it returned" if error is None else f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
        self._recent.extend([now] * (MOST if isinstance(error, PartGivenUp) else 1))
        return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (self.count(now) - 1))

    def count(self, now: float) -> int:
        """How many failures there were within the last SPAN seconds."""
        return sum(now - when < SPAN for when in self._recent)

    def too_many(self, now: float) -> bool:
        return self.count(now) >= MOST


class Loops:
    """The loops and errands of one process, or the parts of one larger loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}  # the loops, by name
        self._errands: set[asyncio.Task[None]] = set()
        self._failures: dict[str, Failures] = {}  # by the name of the loop
        # If these are the parts of a larger loop: done once a part was given up on, with its name and error.
        self._given_up: asyncio.Future[str] | None = None
        self._outer = ""  # the name of the larger loop, which stands before the names of its parts
        self.closed = False  # whether all of it was cancelled
        self.restarts: Counter[str] = Counter()  # how often each loop was started again, by its name

    def keep(self, name: str, make: Make) -> None:
        """Starts a loop, and starts it again whenever it ends, until `close`."""
        name = self._outer + name
        self._failures[name] = Failures()
        self._begin(name, make)

    def _begin(self, name: str, make: Make) -> None:
        task = self._tasks[name] = asyncio.create_task(self._keep(name, make), name=name)
        if self._given_up is not None:
            task.add_done_callback(lambda _: self._part_ended(name, make, task))

    def _part_ended(self, name: str, make: Make, task: "asyncio.Task[None]") -> None:
        """A part was cancelled. If that was not because the larger loop ends, which nobody would notice, it begins
        again."""
        if self._tasks.get(name) is task:
            self.restarts[name] += 1
            self._begin(name, make)

    def send(self, name: str, errand: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Starts an errand: work that is done once. If it fails, the log says so."""
        task = asyncio.create_task(errand, name=name)
        self._errands.add(task)
        task.add_done_callback(self._errand_ended)
        return task

    @property
    def errands(self) -> "set[asyncio.Task[None]]":
        """Errands that are under way."""
        return self._errands

    def dead(self) -> list[str]:
        """The loops that are given up on, each in a few words."""
        now = self._clock()
        failing = [
            f"{name} failed {MOST} times within {SPAN:g} s ({failures.error})"
            for name, failures in self._failures.items()
            if failures.too_many(now)
        ]
        return failing + [f"{name} has ended" for name, task in self._tasks.items() if task.done()]

    def cancel(self) -> "list[asyncio.Task[None]]":
        """Cancels all loops and errands; returns their tasks, which are about to end."""
        self.closed = True
        tasks = [*self._tasks.values(), *self._errands]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        return tasks

    async def close(self) -> None:
        await asyncio.gather(*self.cancel(), return_exceptions=True)

    # ---- as the parts of a larger loop ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._given_up = asyncio.get_running_loop().create_future()
        outer = _within.get()
        if outer is not None:
            self._outer, self.restarts = f"{outer[0]}: ", outer[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for ever: until cancelled, or until one of the loops has failed too often."""
        try:
            if error is None:
                assert self._given_up is not None
                raise PartGivenUp(await self._given_up)
        finally:
            await self.close()

    # ---- one loop ------------------------------------------------------------------------------------------

    async def _keep(self, name: str, make: Make) -> None:
        """Run a loop again and again, until this is cancelled."""
        _within.set((name, self.restarts))
        while True:
            failed: BaseException | None = None
            try:
                await make()
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    raise
                failed = error  # this loop was not cancelled, but something that it waited for was
            except Exception as error:
                failed = error
            wait = self._failed(name, failed)
            del failed  # the error holds the frames of the loop
            await asyncio.sleep(wait)

    def _failed(self, name: str, error: BaseException | None) -> float:
        failures, now = self._failures[name], self._clock()
        wait = failures.note(error, now)
        self.restarts[name] += 1
        say(name, failures.error, wait, error)
        if self._given_up is not None and failures.too_many(now) and not self._given_up.done():
            self._given_up.set_result(f"{name}: {failures.error}")
        return wait

    def _errand_ended(self, task: "asyncio.Task[None]") -> None:
        self._errands.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            words = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
            log.error("%s failed", task.get_name(), extra={"error": words, "traceback": _traceback(error)})


def say(name: str, words: str, wait: float, error: BaseException | None) -> None:
    """Says in the log that a loop has ended, and when it is started again."""
    log.error(
        "%s has ended and is started again", name,
        extra={"error": words, "again_in": round(wait, 3), "traceback": _traceback(error)},
    )  # fmt: skip


def _traceback(error: BaseException | None) -> str:
    """Where an error was raised, as lines of code without values, which may be somebody's input."""
    return "" if error is None else "".join(traceback.format_tb(error.__traceback__)).rstrip()


def is_being_cancelled() -> bool:
    """Whether somebody wants the current task to end. If not, a `CancelledError` tells of something that it waited
    for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def for_ever() -> None:
    """Waits until cancelled. A loop that has nothing to do calls this, because a loop must not return."""
    await asyncio.get_running_loop().create_future()


def kept_thread(name: str, work: Callable[[], None]) -> Thread:
    """A thread, not started yet, that begins its work again if that raises, and ends when the work returns."""

    def keep() -> None:
        failures = Failures()
        while True:
            try:
                return work()
            except Exception as error:
                wait = failures.note(error, time.monotonic())
                say(name, failures.error, wait, error)
            time.sleep(wait)

    return Thread(target=keep, name=name, daemon=True)
