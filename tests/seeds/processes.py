"""Processes of a simulation. All of them live on one event loop, and yet each can be killed or stand still by
itself: whatever runs for a process carries the process in its context, and the loop asks it before it runs that.

    alive ──stand_still──► still: whatever is due is kept ──go_on──► alive: what was kept runs, in its order
      └──────kill──────► dead: nothing of it ever runs again, not even a `finally`
                            └──bury──► after the end of a run, so that no task is left for the collector
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from itertools import count
from typing import Any

from penstock.testing import VirtualLoop

_process: "ContextVar[Process | None]" = ContextVar("process", default=None)


class NumberedTask(asyncio.Task[Any]):
    """A task with a hash that is the same in every replay, so that sets of tasks have the same order."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class Process:
    """One process: what may run, and what is kept for later."""

    def __init__(self, loop: "ProcessLoop", name: str) -> None:
        self.loop, self.name = loop, name
        self.alive, self.still = True, False
        self._buried = False
        self._kept: list[_Due] = []
        self.tasks: list[NumberedTask] = []
        self.on_killed: list[Callable[[], object]] = []
        # How many steps it still makes until the last one, and what is called instead of the next.
        self.fuse: tuple[int, Callable[[], object]] | None = None
        self.context = copy_context()
        self.context.run(_process.set, self)

    def soon(self, work: Callable[..., object], *args: Any) -> None:
        """Run something in this process, as if it had come from outside: a killed process never does it, and one
        that stands still does it later."""
        self.loop.call_soon(work, *args, context=self.context)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start a task in this process."""
        return self.loop.create_task(work, context=self.context.copy())

    def kill(self) -> None:
        self.alive = self.still = False
        for tell in self.on_killed:
            tell()

    def stand_still(self) -> None:
        self.still = True

    def go_on(self) -> None:
        self.still = False
        kept, self._kept = self._kept, []
        for due in kept:
            self.loop.call_soon(due.late, context=due.context)

    def left(self) -> list[NumberedTask]:
        """Its tasks that are not over."""
        return [task for task in self.tasks if not task.done()]

    async def bury(self) -> None:
        """Let the tasks of a dead process end, when nothing that they do matters any more."""
        self._buried, self.still = True, False
        self.go_on()  # a task whose next step was dropped could not even be cancelled
        for _ in range(100):
            left = self.left()
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.sleep(0)
        raise AssertionError(f"tasks of {self.name} do not end: {self.left()}")

    def takes(self, due: "_Due") -> bool:
        """Whether something that is due may run now."""
        if self.fuse is not None:
            left, at_the_end = self.fuse
            self.fuse = (left - 1, at_the_end) if left else None
            if not left:
                at_the_end()
        runs = (self.alive and not self.still) or self._buried
        if not runs:
            self._kept.append(due)
        return runs


class _Due:
    """Something that is due in a process."""

    __slots__ = ("args", "context", "handle", "process", "work")

    def __init__(
        self, process: Process, work: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.process, self.work, self.args = process, work, args
        self.context = copy_context() if context is None else context
        self.handle: asyncio.Handle

    def __call__(self) -> None:
        if self.process.takes(self):
            self.process.loop.about_to_run(self.work)
            self.work(*self.args)

    def late(self) -> None:
        """Run it after the process stood still, unless it was cancelled since."""
        if not self.handle.cancelled():
            self()


class ProcessLoop(VirtualLoop):
    """A loop in virtual time that runs processes."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)
        self.mistakes: list[str] = []  # what asyncio was told of that nobody awaited or caught
        self.strike: Callable[[NumberedTask], None] | None = None  # told of each step of a process's task
        self._selector.select = self._jump  # type: ignore[attr-defined]
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self.set_exception_handler(self._note_mistake)

    def _jump(self, timeout: float | None = None) -> list[object]:
        """What the selector of a `VirtualLoop` does, without looking for sockets: here there are none."""
        if timeout is None:
            raise RuntimeError("everything waits and no timer is set: this would wait for ever")
        self.clock.advance(timeout)
        return []

    def about_to_run(self, work: Callable[..., object]) -> None:
        if self.strike is not None:
            task = getattr(work, "__self__", None)
            if isinstance(task, NumberedTask):
                self.strike(task)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        process = _process.get() if context is None else context.get(_process)
        if process is None or isinstance(getattr(callback, "__self__", None), _Due):
            return super().call_soon(callback, *args, context=context)
        due = _Due(process, callback, args, context)
        due.handle = super().call_soon(due, context=due.context)
        return due.handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        process = _process.get() if context is None else context.get(_process)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        due = _Due(process, callback, args, context)
        handle = super().call_at(when, due, context=due.context)
        due.handle = handle
        return handle

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: Context | None = None
    ) -> NumberedTask:
        process = _process.get() if context is None else context.get(_process)
        number = next(self._numbers)
        NumberedTask.number = number  # the task is put into a set before its own number can be set
        task = NumberedTask(work, loop=loop, context=context)
        task.number = number
        if process is not None:
            process.tasks.append(task)
            if number % 64 == 0:
                process.tasks = process.left()
        return task

    def _note_mistake(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.mistakes.append(f"{context.get('message')}: {error!r}")


@contextmanager
def outside() -> Iterator[None]:
    """Whatever is started within belongs to no process."""
    token = _process.set(None)
    try:
        yield
    finally:
        _process.reset(token)


async def at_the_bus(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Start something that goes on whatever becomes of the process that asked for it."""
    with outside():
        return asyncio.create_task(work)
