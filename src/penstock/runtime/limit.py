"""A time limit that is set again and again and hardly ever runs out. Each slot has two, since it waits twice for
every batch: until it comes, and until it is done.

`asyncio.timeout` would make and cancel a timer for each wait. A `Limit` keeps one timer. If the timer rings after
its wait is over, it is set again, to the end of the current wait.
"""

import asyncio
from math import inf
from types import TracebackType


class Limit:
    """A time limit for one task and one wait at a time: `with limit: await …`. It raises TimeoutError as
    `asyncio.timeout` does."""

    __slots__ = ("_cancelling", "_due", "_expired", "_loop", "_rings", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None  # the task that waits; None between two waits
        self._due = inf  # when the current wait must end
        self._rings = inf  # when the timer rings
        self._cancelling = 0  # how many cancellations of the task were already asked for when the wait began
        self._expired = False  # whether the limit ran out, and has cancelled the task

    def within(self, seconds: float) -> "Limit":
        """Change the length of all later waits. Returns this same limit."""
        self._seconds = seconds
        return self

    def __enter__(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        task = self._task = asyncio.current_task(self._loop)
        assert task is not None, "a limit is for a task"
        self._cancelling = task.cancelling()
        self._due = self._loop.time() + self._seconds
        if self._timer is None or self._due < self._rings:
            self._set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        self._due = inf
        if self._expired:
            self._expired = False
            assert task is not None
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _set(self) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._rings = self._due
        self._timer = self._loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._task is None:
            return  # nobody waits; the next wait will set it
        assert self._loop is not None
        if self._loop.time() < self._due:
            self._set()
        else:
            self._expired = True
            self._task.cancel()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
